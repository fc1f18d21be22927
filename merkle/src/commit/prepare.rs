//! From a delta to a root and log records, without changing the store and without I/O.
//!
//! ```text
//!                             ┌─► switch positions ─► choose moves ─┐
//! resolve ─► link ─► encode ──┤                                     ├─► encode moves ─► twigs ─► upper levels ─► root
//!                    entries  └─► grow the twigs that fill up ──────┘
//! ```
//!
//! Entries are hashed when they are encoded, in the order of their positions. Above the twigs every changed node is hashed
//! once, level by level (`tree/upper.rs`).

use phalanx_memory::prefetch_ahead;
use phalanx_merkle_proof::{Entry, Hash, HashFn, TWIG_LEAVES};

use super::{
    effect::{Effect, OPERATION_LOOKAHEAD, RECORD_LOOKAHEAD, name},
    link::{Linked, link},
    resolve::{KeyRef, check_change, resolve},
};
use crate::{
    log::{ExtentWriter, Records},
    state::StateView,
    tree::{Deactivations, LEAF_NANOS, Leaves, Patches, Plan, Regions, TreeView},
    types::{Delta, Error, MAX_SN},
};

/// Entries that one task encodes. A constant: extents are cut alike for any number of threads.
pub(super) const CHUNK: usize = 1024;

/// Capacity reserved per entry, in bytes: enough for an account, or for a slot with a usual number. A buffer that grows
/// is copied.
const ENTRY_BYTES: usize = 112;

/// Entries, without moved ones, above which a block does not keep the trees of the twigs that it fills.
const KEEP_TREES: usize = 1 << 20;

/// Orders, encodes and hashes a delta on top of `state` and `tree`. `log` is true if entries can be read back from a
/// log.
///
/// # Errors
/// [`Error::StaleLocator`], [`Error::Unchanged`], [`Error::TooLong`].
pub(crate) fn compute<'t, P: Patches<'t>>(
    state: &impl StateView,
    tree: TreeView<'t, P>,
    hash: HashFn,
    delta: Delta,
    height: u64,
    log: bool,
) -> Result<Effect, Error> {
    delta.check()?;
    let par = tree.par();
    let changes = resolve(state, hash, &delta, par);
    state.check()?;
    let linked = link(state, changes?);
    state.check()?;
    let linked = linked.expect("sentinel zero is before every key");
    let (len, max) = (state.len() + linked.created, state.max_len());
    if len > max {
        return Err(Error::TooLong { what: "state in keys", len, max });
    }
    let first_sn = tree.shape().next_sn;
    if first_sn > MAX_SN / 2 {
        return Err(Error::TooLong { what: "log in positions", len: first_sn as usize, max: MAX_SN as usize / 2 });
    }
    let regions = tree.regions(linked.len() as u64);
    let encoder = Encoder { state, hash, delta: &delta, linked: &linked, first_sn, height, regions };
    let chunks = par.map_range(linked.len().div_ceil(CHUNK), CHUNK * 120, |chunk| encoder.encode(chunk));

    let mut records = Vec::with_capacity(chunks.len() * 3 / 2 + 2);
    let mut leaves = Leaves::with_capacity(chunks.len() * 3 / 2 + 2);
    let mut off = Vec::with_capacity(chunks.len() + 1);
    for chunk in chunks {
        let chunk = chunk?;
        records.push(chunk.records);
        leaves.push(chunk.leaves);
        off.push(chunk.off);
    }
    if !linked.deletes.is_empty() {
        let (deletes, gone) = encoder.encode_deletes();
        records.push(deletes);
        off.push(gone);
    }
    let keep = !log || leaves.len() <= KEEP_TREES;
    let switch = |par| tree.observed_by(par).plan(linked.len() as u64, &regions, &off);
    let choose = |plan: &mut Plan<'t, P>| {
        let moves = plan.compact();
        let owners = state.owners(&moves);
        (moves, owners)
    };
    let full = tree.filled_by(&leaves);
    let grow = |par| tree.observed_by(par).grow_full(&leaves, keep);
    let growing = (full, full * TWIG_LEAVES * LEAF_NANOS);
    // Where all threads switch positions, they do it before the fork; one thread chooses the moves.
    let mut switched = (regions.count() > 1).then(|| switch(par));
    let one = |par| {
        let mut plan = switched.take().unwrap_or_else(|| switch(par));
        let chosen = choose(&mut plan);
        (plan, chosen)
    };
    let ((plan, (moves, owners)), grown) = par.join(growing, one, grow);
    state.check()?;
    let owners = owners.expect("an active position has an owner");
    let moves: Vec<(u32, u64)> = owners.into_iter().zip(moves).collect();
    let chunks = par.map_range(moves.len().div_ceil(CHUNK), CHUNK * 120, |chunk| encoder.encode_moves(&moves, chunk));
    for (moved, digests) in chunks {
        records.push(moved);
        leaves.push(digests);
    }
    let tree = plan.observed_by(par).finish(&leaves, grown, keep);
    let (steps, arena, kept) = (Vec::new(), None, None);
    Ok(Effect { delta, linked, moves, first_sn, height, tree, records, steps, arena, kept })
}

struct Encoder<'a, G> {
    state: &'a G,
    hash: HashFn,
    delta: &'a Delta,
    linked: &'a Linked,
    first_sn: u64,
    height: u64,
    regions: Regions,
}

/// Consecutive entries, encoded and hashed.
struct Encoded {
    records: Records,
    leaves: Vec<Hash>,
    /// Positions that the entries deactivate.
    off: Deactivations,
}

impl<G: StateView> Encoder<'_, G> {
    /// Encodes a chunk of entries.
    ///
    /// # Errors
    /// Errors of [`check_change`].
    fn encode(&self, chunk: usize) -> Result<Encoded, Error> {
        let ranks = chunk * CHUNK..self.linked.len().min((chunk + 1) * CHUNK);
        let mut writer = ExtentWriter::new(self.height, ranks.len() * ENTRY_BYTES);
        let mut leaves = Vec::with_capacity(ranks.len());
        let mut off = Vec::with_capacity(ranks.len());
        let mut encodings = Vec::with_capacity(ranks.len());
        for rank in ranks {
            self.prefetch(rank);
            if let (Some(op), KeyRef::Known(id)) = self.linked.get(rank) {
                check_change(self.state, self.delta.at(op), id)?;
            }
            let entry = self.entry(rank);
            encodings.push(writer.entry(self.first_sn + rank as u64, &entry));
            off.extend(entry.previous);
        }
        let height = self.height.to_be_bytes();
        self.hash.leaves(encodings.into_iter().map(|range| (&writer.bytes()[range], &height)), &mut leaves);
        Ok(Encoded { records: writer.finish(), leaves, off: Deactivations::new(&self.regions, off) })
    }

    /// Prefetches what later ranks need, in two stages: key hash order is random order in memory, and the place of an
    /// operation's bytes is known only from the operation. Beyond the chunk as well: this thread most likely encodes the next.
    #[inline]
    fn prefetch(&self, rank: usize) {
        if let Some((op, key)) = self.linked.ahead(rank, OPERATION_LOOKAHEAD) {
            if let Some(op) = op {
                self.delta.at(op).prefetch();
            }
            if let KeyRef::Known(id) = key {
                self.state.prefetch(id);
            }
        }
        if let Some((Some(op), _)) = self.linked.ahead(rank, RECORD_LOOKAHEAD) {
            self.delta.at(op).prefetch_bytes();
        }
    }

    #[inline]
    fn entry(&self, rank: usize) -> Entry<'_> {
        let (op, key_ref) = self.linked.get(rank);
        match (op.map(|op| (op, self.delta.at(op))), key_ref) {
            (Some((_, op)), KeyRef::Known(id)) => Entry {
                sentinel: false,
                key: self.state.entry(id).0,
                value: op.value().unwrap_or_default(),
                next: *self.linked.next(rank).unwrap_or_else(|| self.state.next(id)),
                previous: Some(self.state.written(id).sn),
                height: self.height,
            },
            (None, KeyRef::Known(id)) => Entry {
                next: *self.linked.next(rank).unwrap_or_else(|| self.state.next(id)),
                previous: Some(self.state.written(id).sn),
                height: self.height,
                ..self.state.committed(id)
            },
            (Some((_, op)), KeyRef::New(_)) => Entry {
                sentinel: false,
                key: name(op),
                value: op.value().unwrap_or_default(),
                next: *self.linked.next(rank).expect("a new key has a next one"),
                previous: None,
                height: self.height,
            },
            (None, KeyRef::New(_)) => unreachable!("only an operation creates a key"),
        }
    }

    /// Log records of deleted keys, and their positions.
    fn encode_deletes(&self) -> (Records, Deactivations) {
        let mut off = Vec::with_capacity(self.linked.deletes.len());
        let mut writer = ExtentWriter::new(self.height, 0);
        for id in &self.linked.deletes {
            let sn = self.state.written(*id).sn;
            writer.delete(self.first_sn + self.linked.len() as u64, sn, self.state.entry(*id).0);
            off.push(sn);
        }
        (writer.finish(), Deactivations::new(&self.regions, off))
    }

    /// Log records and leaves of a chunk of moves.
    fn encode_moves(&self, moves: &[(u32, u64)], chunk: usize) -> (Records, Vec<Hash>) {
        let ranks = chunk * CHUNK..moves.len().min((chunk + 1) * CHUNK);
        let mut writer = ExtentWriter::new(self.height, ranks.len() * (ENTRY_BYTES + 16));
        let mut leaves = Vec::with_capacity(ranks.len());
        let mut encodings = Vec::with_capacity(ranks.len());
        for rank in ranks {
            prefetch_ahead(moves, rank, RECORD_LOOKAHEAD, |(id, _)| self.state.prefetch(*id));
            let (id, from) = moves[rank];
            let entry = self.state.committed(id);
            let sn = self.first_sn + (self.linked.len() + rank) as u64;
            encodings.push((writer.moved(sn, from, &entry), entry.height.to_be_bytes()));
        }
        let encodings = encodings.iter().map(|(range, height)| (&writer.bytes()[range.clone()], height));
        self.hash.leaves(encodings, &mut leaves);
        (writer.finish(), leaves)
    }
}
