//! Applies a block to a resident state.
//!
//! A record is two cache misses, so the records of a large block are written by many threads. Each takes one part of
//! the records after the other, and keeps the old records for the undo record. Values that outgrow their record,
//! deletions and the allocation of new records are serial; the index is serial beside the threads that link new keys.
//!
//! The write lock is held meanwhile. A thread must not wait as rayon does: it would run another job, and a job that
//! reads would wait for the lock of its own thread.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use phalanx_memory::PrefetchIterator as _;

use crate::{
    commit::effect::{Effect, OPERATION_LOOKAHEAD, RECORD_LOOKAHEAD, name},
    commit::resolve::KeyRef,
    commit::rollback::{OldRecords, UndoRecord},
    parallel::{Par, fork_join},
    state::{Part, Resident},
    types::{Links, Written},
};

/// Entries whose owners are found at a time, and about as many old records are kept together. Tests have many chunks.
const CHUNK: usize = if cfg!(test) { 256 } else { 4096 };

/// Cost of keeping an old record and writing a new one, in nanoseconds.
const WRITE_NANOS: usize = 60;

/// Cost of finding the part of a record, in nanoseconds.
const FIND_NANOS: usize = 5;

/// Writing that is worth waking another thread, in nanoseconds: waking takes some tens of microseconds. Tests wake
/// several for small blocks.
const THREAD_NANOS: usize = if cfg!(test) { 20_000 } else { 500_000 };

/// New keys that are inserted together: a genesis has millions.
const INSERT_BATCH: usize = if cfg!(test) { 1 << 8 } else { 1 << 16 };

/// Maximum number of writing threads.
const MAX_THREADS: usize = 256;

/// Parts of the records per writing thread, so that a late thread takes a smaller share.
const PARTS_PER_THREAD: usize = 16;

/// Maximum number of parts: each has a list of ranks in every chunk.
const MAX_PARTS: usize = 4 * MAX_THREADS;

/// In [`owners_of`]: the key is new, and has no id yet.
const NO_ID: u32 = u32::MAX;

/// Plan of applying a block, made before the state changes: the part of every changed record, and the owner of every
/// position.
#[derive(Debug)]
pub(crate) struct ApplyPlan {
    /// Number of writing threads.
    threads: usize,
    /// Records per part.
    each: usize,
    /// Per chunk and part, ranks of the entries whose records the part has.
    ranks: Vec<Vec<Vec<u32>>>,
    /// Per chunk, owner of each position.
    owners: Vec<Vec<u32>>,
}

impl ApplyPlan {
    /// Plans a block for the threads of the current rayon pool; `None` if it is so small that one thread applies it.
    pub(crate) fn of(state: &Resident, effect: &Effect, par: Par<'_>) -> Option<Self> {
        let all = effect.linked.len() + effect.moves.len();
        let threads = rayon::current_num_threads().min(writers(all));
        if threads < 2 {
            return None;
        }
        let count = (threads * PARTS_PER_THREAD).min(MAX_PARTS);
        let each = state.places().div_ceil(count).max(1);
        let found = par.map_range(all.div_ceil(CHUNK), CHUNK * FIND_NANOS, |at| {
            let (ranks, owners) = (chunk(at, all), owners_of(effect, chunk(at, all)));
            let mut parts: Vec<_> =
                (0..count).map(|_| Vec::with_capacity((ranks.len() * 5).div_ceil(4 * count))).collect();
            for (rank, id) in ranks.zip(&owners).filter(|(_, id)| **id != NO_ID) {
                parts[*id as usize / each].push(rank as u32);
            }
            (parts, owners)
        });
        let (ranks, owners) = found.into_iter().unzip();
        Some(Self { threads, each, ranks, owners })
    }
}

/// Owner of each position.
fn owners_of(effect: &Effect, ranks: Range<usize>) -> Vec<u32> {
    let owner = |rank| match entry(effect, rank) {
        Entry::Linked(id, _) | Entry::Moved(id) => id,
        Entry::New => NO_ID,
    };
    ranks.map(owner).collect()
}

/// Ranks of one chunk of the block.
fn chunk(at: usize, all: usize) -> Range<usize> {
    at * CHUNK..all.min((at + 1) * CHUNK)
}

/// Maximum number of threads that are worth waking for this many entries.
pub(crate) const fn writers(entries: usize) -> usize {
    match entries * WRITE_NANOS / THREAD_NANOS {
        0 | 1 => 1,
        more if more > MAX_THREADS => MAX_THREADS,
        more => more,
    }
}

/// Applies an effect to the state that it was computed from, keeping in `undo` what rolls it back.
///
/// `plan` is the plan of this effect on this state. One thread runs `meanwhile` while others write records.
pub(crate) fn apply(
    state: &mut Resident,
    effect: &Effect,
    plan: Option<ApplyPlan>,
    mut undo: Option<&mut UndoRecord>,
    par: Par<'_>,
    meanwhile: impl FnOnce() + Send,
) {
    let Effect { delta, linked, moves, tree, .. } = effect;
    for id in &linked.deletes {
        if let Some(undo) = &mut undo {
            undo.note_delete(state, *id);
        }
        state.remove(*id);
    }
    let all = linked.len() + moves.len();
    let mut outside = Vec::new();
    let mut owners: Vec<Vec<u32>> = match plan {
        Some(ApplyPlan { threads, each, ranks, owners }) => {
            let (parts, notes) = (state.parts(each), undo.is_some());
            let whole = ParallelWrite { parts, effect, ranks: &ranks, notes };
            let by_part = par.observe(threads, || whole.write(threads, meanwhile));
            for (ranks, notes) in by_part {
                outside.extend(ranks);
                if let Some(undo) = &mut undo {
                    undo.take_old_records(notes);
                }
            }
            owners
        }
        None => {
            let each = state.places().max(1);
            let alone = || {
                for part in &mut state.parts(each) {
                    for at in 0..all.div_ceil(CHUNK) {
                        let mut notes = undo.as_ref().map(|_| OldRecords::with_capacity(chunk(at, all).len()));
                        write(part, effect, chunk(at, all), notes.as_mut(), &mut outside);
                        if let Some(undo) = &mut undo {
                            undo.take_old_records(notes);
                        }
                    }
                }
                (0..all.div_ceil(CHUNK)).map(|at| owners_of(effect, chunk(at, all))).collect()
            };
            meanwhile();
            par.observe_as_shared(writers(all), all * WRITE_NANOS, alone)
        }
    };
    // Sorted, so that the place of a long value does not depend on the threads' speed.
    outside.sort_unstable();
    for rank in outside {
        if let (Some(op), KeyRef::Known(id)) = linked.get(rank) {
            state.replace(id, delta.at(op).value().unwrap_or_default());
        }
    }
    let new = owners.iter().flatten().filter(|id| **id == NO_ID).count();
    // Once for all new keys: growing indexes every key anew.
    state.make_room(new);
    let mut unnamed = owners.iter_mut().flatten().enumerate().filter(|(_, id)| **id == NO_ID);
    for _ in 0..new.div_ceil(INSERT_BATCH) {
        let (ranks, ids): (Vec<usize>, Vec<&mut u32>) = unnamed.by_ref().take(INSERT_BATCH).unzip();
        for (id, place) in ids.into_iter().zip(create(state, effect, &ranks, par)) {
            *id = place;
            if let Some(undo) = &mut undo {
                undo.note_created(place);
            }
        }
    }
    owners.iter().for_each(|owners| state.own(owners));
    state.raise_floor(tree.shape.floor);
}

/// Inserts the keys of new entries, given by rank, and returns their ids.
fn create(state: &mut Resident, effect: &Effect, ranks: &[usize], par: Par<'_>) -> Vec<u32> {
    let Effect { delta, linked, first_sn, height, .. } = effect;
    let entry = |rank: usize| match linked.get(rank) {
        (Some(op), KeyRef::New(new)) => (op, new),
        _ => unreachable!("only an operation creates a key"),
    };
    let new = ranks.iter().lookahead([OPERATION_LOOKAHEAD, RECORD_LOOKAHEAD]).map(|(rank, [far, near])| {
        far.into_iter().for_each(|rank| delta.at(entry(*rank).0).prefetch());
        near.into_iter().for_each(|rank| delta.at(entry(*rank).0).prefetch_bytes());
        let (at, new) = entry(*rank);
        let next = *linked.next(*rank).expect("a new key has a next one");
        let (op, links) = (delta.at(at), Links { hash: *linked.digest(at, new), next });
        let written = Written::new(first_sn + *rank as u64, None, *height);
        (name(op), op.value().unwrap_or_default(), links, written)
    });
    state.insert_all(new, par)
}

/// Record that the entry of a rank changes: ranks of linked entries come first, then those of moves.
enum Entry {
    Linked(u32, Option<usize>),
    Moved(u32),
    New,
}

fn entry(effect: &Effect, rank: usize) -> Entry {
    match rank.checked_sub(effect.linked.len()) {
        Some(moved) => Entry::Moved(effect.moves[moved].0),
        None => match effect.linked.get(rank) {
            (op, KeyRef::Known(id)) => Entry::Linked(id, op),
            (_, KeyRef::New(_)) => Entry::New,
        },
    }
}

/// Result of a part: ranks of values that do not fit into their records, and old records.
type PartResult = (Vec<usize>, Vec<OldRecords>);

/// Parts of a state, to be written in parallel.
struct ParallelWrite<'w> {
    parts: Vec<Part<'w>>,
    effect: &'w Effect,
    /// Per chunk and part.
    ranks: &'w [Vec<Vec<u32>>],
    /// True if old records are kept.
    notes: bool,
}

impl ParallelWrite<'_> {
    /// Writes all parts, and returns the result of each.
    fn write(self, threads: usize, meanwhile: impl FnOnce() + Send) -> Vec<PartResult> {
        let Self { parts, effect, ranks, notes } = self;
        // A part has about a chunk of entries in this many chunks, if keys are spread.
        let group = parts.len().max(1);
        let mut left: Vec<PartResult> = parts.iter().map(|_| PartResult::default()).collect();
        let threads = threads.min(parts.len());
        let parts = Mutex::new(parts.into_iter().zip(&mut left).enumerate());
        let meanwhile = Mutex::new(Some(meanwhile));
        let work = || {
            let meanwhile = meanwhile.lock().unwrap_or_else(PoisonError::into_inner).take();
            meanwhile.into_iter().for_each(|meanwhile| meanwhile());
            let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let mut of_part = Vec::with_capacity(CHUNK);
            while let Some((at, (mut part, (outside, noted)))) = next() {
                for chunks in ranks.chunks(group) {
                    of_part.clear();
                    chunks.iter().filter_map(|by_part| by_part.get(at)).for_each(|ranks| of_part.extend(ranks));
                    if of_part.is_empty() {
                        continue;
                    }
                    let mut open = notes.then(|| OldRecords::with_capacity(of_part.len()));
                    let ranks = of_part.iter().map(|rank: &u32| *rank as usize);
                    write(&mut part, effect, ranks, open.as_mut(), outside);
                    noted.extend(open);
                }
            }
        };
        fork_join(threads - 1, &work);
        left
    }
}

/// Writes the records of `part` that entries change, all of them in it, and keeps the old ones. Adds the ranks of
/// values that do not fit into their records to `outside`.
fn write(
    part: &mut Part<'_>,
    effect: &Effect,
    ranks: impl Iterator<Item = usize> + Clone,
    mut notes: Option<&mut OldRecords>,
    outside: &mut Vec<usize>,
) {
    let Effect { delta, linked, first_sn, height, .. } = effect;
    for (rank, [far, near]) in ranks.lookahead([OPERATION_LOOKAHEAD, RECORD_LOOKAHEAD]) {
        if let Some(rank) = far
            && let Entry::Linked(_, Some(op)) = entry(effect, rank)
        {
            delta.at(op).prefetch();
        }
        if let Some(rank) = near
            && let Entry::Linked(id, _) | Entry::Moved(id) = entry(effect, rank)
        {
            part.prefetch(id);
            if let Entry::Linked(_, Some(op)) = entry(effect, rank) {
                delta.at(op).prefetch_bytes();
            }
        }
        let sn = first_sn + rank as u64;
        match entry(effect, rank) {
            Entry::Linked(id, op) => {
                if let Some(notes) = &mut notes {
                    let (value, next, written) = part.get(id);
                    notes.note_change(id, op.map(|_| value), linked.next(rank).map(|_| next), written);
                }
                if let Some(op) = op
                    && !part.replace(id, delta.at(op).value().unwrap_or_default())
                {
                    outside.push(rank);
                }
                part.rewrite(id, linked.next(rank), |before| Written::new(sn, Some(before.sn), *height));
            }
            Entry::Moved(id) => {
                if let Some(notes) = &mut notes {
                    notes.note_change(id, None, None, part.get(id).2);
                }
                part.rewrite(id, None, |before| Written::new(sn, before.previous(), before.height));
            }
            Entry::New => {}
        }
    }
}

#[cfg(test)]
mod tests;
