//! From a delta to a root, without changing the store and without I/O.

use std::sync::Arc;

use phalanx_merkle_proof::{Entry, Hash, HashFn};

use crate::{
    Delta, Error,
    delta::Target,
    log::Shared,
    par,
    prefetch::prefetch,
    resident::{Resident, Written},
    resolve::{Changes, Who, resolve},
    row::{ExtentWriter, MAX_PAYLOAD_LEN, Rows},
    tree::{Tree, TreeChange},
};

/// Entries that one task encodes. A constant, so that extents are cut alike for any number of threads.
const CHUNK: usize = 1024;

/// How far ahead of its use a record is asked for.
const AHEAD: usize = 12;

/// Blocks of more entries than this do not keep the trees of the twigs they fill.
const KEEP_TREES: usize = 1 << 20;

/// A block that is hashed and not applied: its root is known, the store has not changed.
///
/// Belongs to the tip it was prepared on; [`Store::apply`](crate::Store::apply) refuses it on another.
#[derive(Debug)]
#[must_use = "a prepared block changes nothing until it is applied"]
pub struct Prepared {
    pub(crate) shared: Arc<Shared>,
    /// How many blocks were applied before.
    pub(crate) epoch: u64,
    pub(crate) height: u64,
    pub(crate) delta: Delta,
    pub(crate) changes: Changes,
    pub(crate) tree: TreeChange,
    pub(crate) rows: Vec<Rows>,
    pub(crate) payload: Vec<u8>,
}

impl Prepared {
    /// The root after this block.
    pub const fn root(&self) -> Hash {
        self.tree.root
    }

    /// The block's height.
    pub const fn height(&self) -> u64 {
        self.height
    }

    /// How many keys get another value.
    pub const fn puts(&self) -> usize {
        self.changes.len()
    }

    /// How many keys go.
    pub const fn deletes(&self) -> usize {
        self.changes.deletes.len()
    }

    /// Bytes of log that the block's entries take.
    pub fn log_bytes(&self) -> usize {
        self.rows.iter().map(|rows| rows.bytes.len()).sum()
    }

    /// Attaches bytes that are stored with the block and returned by [`Store::payload`](crate::Store::payload).
    ///
    /// # Errors
    /// [`Error::TooLong`] past 16 MiB.
    pub fn with_payload(mut self, payload: Vec<u8>) -> Result<Self, Error> {
        if payload.len() > MAX_PAYLOAD_LEN {
            return Err(Error::TooLong { what: "payload", len: payload.len(), max: MAX_PAYLOAD_LEN });
        }
        self.payload = payload;
        Ok(self)
    }
}

/// What preparing computes from a delta.
#[derive(Debug)]
pub(crate) struct Computed {
    pub(crate) changes: Changes,
    pub(crate) tree: TreeChange,
    pub(crate) rows: Vec<Rows>,
}

/// Orders, encodes and hashes a delta. `log` says whether entries can be read back from one.
///
/// # Errors
/// [`Error::StaleLocator`], [`Error::TooLong`].
pub(crate) fn compute(
    state: &Resident,
    tree: &Tree,
    hash: HashFn,
    delta: &Delta,
    height: u64,
    log: bool,
) -> Result<Computed, Error> {
    delta.check()?;
    let changes = resolve(state, hash, delta)?;
    if !state.has_room(changes.created()) {
        let (len, max) = (state.len() + changes.created(), crate::index::MAX_KEYS);
        return Err(Error::TooLong { what: "state in keys", len, max });
    }
    let encoder = Encoder { state, hash, delta, changes: &changes, first_sn: tree.next_sn(), height };
    let chunks = par::map_range(changes.len().div_ceil(CHUNK), CHUNK * 120, |chunk| encoder.encode(chunk));

    let (mut rows, mut leaves, mut off) = (Vec::with_capacity(chunks.len() + 1), Vec::new(), Vec::new());
    leaves.reserve_exact(changes.len());
    for chunk in chunks {
        rows.push(chunk.rows);
        leaves.extend_from_slice(&chunk.leaves);
        off.extend_from_slice(&chunk.off);
    }
    if !changes.deletes.is_empty() {
        rows.push(encoder.encode_deletes(&mut off));
    }
    let tree = tree.change(&leaves, &off, !log || leaves.len() <= KEEP_TREES);
    Ok(Computed { changes, tree, rows })
}

struct Encoder<'a> {
    state: &'a Resident,
    hash: HashFn,
    delta: &'a Delta,
    changes: &'a Changes,
    first_sn: u64,
    height: u64,
}

/// Neighbouring entries, encoded and hashed.
struct Encoded {
    rows: Rows,
    leaves: Vec<Hash>,
    /// The positions that they switch off.
    off: Vec<u64>,
}

impl Encoder<'_> {
    fn encode(&self, chunk: usize) -> Encoded {
        let ranks = chunk * CHUNK..self.changes.len().min((chunk + 1) * CHUNK);
        let mut writer = ExtentWriter::new(self.height, ranks.len() * 72);
        let mut leaves = Vec::with_capacity(ranks.len());
        let mut off = Vec::with_capacity(ranks.len());
        let mut encodings = Vec::with_capacity(ranks.len());
        for rank in ranks {
            self.prefetch(rank);
            let (op, who) = self.changes.put(rank);
            let op = &self.delta.ops()[op];
            let key = match (self.delta.target(op), who) {
                (Target::Key(key), _) => key,
                (Target::At(_), Who::Known(id)) => self.state.entry(id).0,
                (Target::At(_), Who::New(_)) => unreachable!("a located key is in the state"),
            };
            let value = self.delta.value(op).unwrap_or_default();
            let entry = Entry { key, value, height: self.height };
            let sn = self.first_sn + rank as u64;
            encodings.push(writer.entry(sn, &entry));
            if let Who::Known(id) = who {
                off.push(self.state.written(id).sn);
            }
        }
        let encodings = encodings.into_iter().map(|range| &writer.bytes()[range]);
        self.hash.leaves(encodings, self.height, &mut leaves);
        Encoded { rows: writer.finish(), leaves, off }
    }

    fn encode_deletes(&self, off: &mut Vec<u64>) -> Rows {
        let mut writer = ExtentWriter::new(self.height, 0);
        for id in &self.changes.deletes {
            let sn = self.state.written(*id).sn;
            writer.delete(self.first_sn + self.changes.len() as u64, sn, self.state.entry(*id).0);
            off.push(sn);
        }
        writer.finish()
    }

    /// Order of key hash is random order in memory: asks for what the next ranks need, in two steps because the place of
    /// an operation's bytes is known only from the operation.
    #[inline]
    fn prefetch(&self, rank: usize) {
        if rank + 2 * AHEAD < self.changes.len() {
            let (op, who) = self.changes.put(rank + 2 * AHEAD);
            prefetch(&self.delta.ops()[op]);
            if let Who::Known(id) = who {
                self.state.prefetch(id);
                self.state.prefetch_written(id);
            }
        }
        if rank + AHEAD < self.changes.len() {
            let (op, _) = self.changes.put(rank + AHEAD);
            self.delta.prefetch(&self.delta.ops()[op]);
        }
    }
}

/// Brings the state up to date with changes that were computed from it.
pub(crate) fn fold(state: &mut Resident, delta: &Delta, changes: &Changes, first_sn: u64, height: u64) {
    changes.deletes.iter().for_each(|id| state.remove(*id));
    for rank in 0..changes.len() {
        if rank + 2 * AHEAD < changes.len() {
            let (op, who) = changes.put(rank + 2 * AHEAD);
            prefetch(&delta.ops()[op]);
            if let Who::Known(id) = who {
                state.prefetch(id);
                state.prefetch_written(id);
            }
        }
        if rank + AHEAD < changes.len() {
            delta.prefetch(&delta.ops()[changes.put(rank + AHEAD).0]);
        }
        let (op, who) = changes.put(rank);
        let sn = first_sn + rank as u64;
        let value = delta.value(&delta.ops()[op]).unwrap_or_default();
        match (who, delta.target(&delta.ops()[op])) {
            (Who::Known(id), _) => state.replace(id, value, sn, height),
            (Who::New(new), Target::Key(key)) => {
                state.insert(key, value, Written { hash: *changes.hash(op, new), sn, height });
            }
            (Who::New(_), Target::At(_)) => unreachable!("a located key is in the state"),
        }
    }
}
