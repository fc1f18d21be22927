//! A disk that loses what was not synced.

use super::state::State;
use phalanx_engine_api::{Candidate, CommitMeta, ExecId};
use std::sync::Arc;

/// A staged block: all that is needed to commit it later.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    pub(super) candidate: Candidate,
    pub(super) state: Arc<State>,
}

/// One atomic write.
#[derive(Clone, Debug)]
pub(super) enum Record {
    /// A block that may be committed.
    Staged(Box<Staged>),
    /// The marker flip: these blocks, oldest first, are committed, and consensus stands there.
    Committed { path: Vec<ExecId>, meta: CommitMeta },
    /// The committed tip is this height again.
    Rewound { height: u64 },
    /// No rewind below.
    Finalised { height: u64 },
}

/// An append-only log with an fsync mark. What is behind the mark survives a kill but not a power cut.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    log: Vec<Record>,
    synced: usize,
    room: Option<usize>,
    /// Records whose tail did not reach the platter: their checksum is wrong.
    torn: bool,
}

impl Disk {
    /// Appends, or says that there is no room.
    pub(super) fn append(&mut self, record: Record) -> bool {
        if self.room == Some(0) {
            return false;
        }
        self.room = self.room.map(|room| room - 1);
        self.log.push(record);
        true
    }

    pub(super) const fn sync(&mut self) {
        self.synced = self.log.len();
    }

    /// All whole records. A record with a wrong checksum ends the log, and is cut off.
    pub(super) fn replay(&mut self) -> &[Record] {
        if self.torn {
            self.log.pop();
            self.torn = false;
            self.synced = self.synced.min(self.log.len());
        }
        &self.log
    }

    /// How many more records fit; `None` for plenty.
    pub const fn set_room(&mut self, room: Option<usize>) {
        self.room = room;
    }

    /// Records in the log.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.log.len()
    }

    /// Whether nothing was ever written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Records that a power cut may take.
    #[must_use]
    pub const fn unsynced(&self) -> usize {
        self.log.len() - self.synced
    }

    /// Cuts the power: the last `lost` unsynced records are gone, and with `torn` half of the one before, too.
    pub fn power_cut(&mut self, lost: usize, torn: bool) {
        let lost = lost.min(self.unsynced());
        self.log.truncate(self.log.len() - lost);
        self.torn = torn && self.log.len() > self.synced;
    }

    /// Takes synced records away, as a disk does that lies about fsync.
    pub fn lose_synced(&mut self, records: usize) {
        self.log.truncate(self.log.len().saturating_sub(records));
        self.synced = self.log.len();
    }
}
