//! A disk that loses unsynced data.

use super::state::State;
use phalanx_engine_api::{Candidate, CommitMeta, ExecId};
use std::sync::Arc;

/// A staged block, with all data that a later commit needs.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    pub(super) candidate: Candidate,
    pub(super) state: Arc<State>,
}

/// An atomic write.
#[derive(Clone, Debug)]
pub(super) enum Record {
    /// A block that may be committed.
    Staged(Box<Staged>),
    /// The marker flip: these blocks, oldest first, are committed, and the cursor moves with them.
    Committed { path: Vec<ExecId>, meta: CommitMeta },
    /// The committed tip is at this height again.
    Rewound { height: u64 },
    /// Rewinds below this height are refused.
    Finalised { height: u64 },
}

/// An append-only log with an fsync mark. Records behind the mark survive a kill but not a power cut.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    log: Vec<Record>,
    synced: usize,
    room: Option<usize>,
    /// True if the tail of the last record did not reach the disk: its checksum is wrong.
    torn: bool,
}

impl Disk {
    /// Appends a record. Returns false if there is no room.
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

    /// Returns all whole records. A record with a wrong checksum ends the log and is cut off.
    pub(super) fn replay(&mut self) -> &[Record] {
        if self.torn {
            self.log.pop();
            self.torn = false;
            self.synced = self.synced.min(self.log.len());
        }
        &self.log
    }

    /// Sets how many more records fit; `None` for no limit.
    pub const fn set_room(&mut self, room: Option<usize>) {
        self.room = room;
    }

    /// Number of records in the log.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.log.len()
    }

    /// True if no record was ever written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Number of records that a power cut may take.
    #[must_use]
    pub const fn unsynced(&self) -> usize {
        self.log.len() - self.synced
    }

    /// Cuts the power: the last `lost` unsynced records are gone, and with `torn` half of the one before as well.
    pub fn power_cut(&mut self, lost: usize, torn: bool) {
        let lost = lost.min(self.unsynced());
        self.log.truncate(self.log.len() - lost);
        self.torn = torn && self.log.len() > self.synced;
    }
}
