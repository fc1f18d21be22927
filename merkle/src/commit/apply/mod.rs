//! What a block does to a resident state, once it is committed.
//!
//! Records are two cache misses each, so those of a large block are written by many threads, each of which takes one part of
//! the records after the other, with the ranks that are in it; it notes what they were for the way back. What outgrows
//! its record or goes is done by one; keys that come get their records from one and are indexed by one, while others link them.
//!
//! The writing is done under the lock that keeps readers out, and never waits as rayon does: a worker that waits does other
//! jobs meanwhile, and one that reads would wait for the lock that its own worker holds.

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

/// Entries that are looked through at a time for whose parts they are in, and about as many are noted together. Tests have
/// many of them.
const CHUNK: usize = if cfg!(test) { 256 } else { 4096 };

/// About what a record takes to be noted and written, in nanoseconds.
const WRITE_NANOS: usize = 60;

/// About what it takes to find whose part it is in.
const FIND_NANOS: usize = 5;

/// Nanoseconds of writing for which another thread is woken, which takes some tens of microseconds. Tests wake several for
/// small blocks.
const THREAD_NANOS: usize = if cfg!(test) { 20_000 } else { 500_000 };

/// New keys that are inserted together: a genesis has millions.
const INSERT_BATCH: usize = if cfg!(test) { 1 << 8 } else { 1 << 16 };

/// Most threads that write.
const MAX_THREADS: usize = 256;

/// Parts of the records for each thread that writes, so that one which begins later than others leaves them more of the work.
const PARTS_PER_THREAD: usize = 16;

/// Most parts: each has a list of ranks in every stretch.
const MAX_PARTS: usize = 4 * MAX_THREADS;

/// In [`owners_of`]: the key is new, and has no id yet.
const NO_ID: u32 = u32::MAX;

/// What is found of a block before the state changes: by whom its records are written, and whose its positions are.
#[derive(Debug)]
pub(crate) struct ApplyPlan {
    /// By how many threads they are written.
    threads: usize,
    /// Records per part: ids from here on are the next part's.
    each: usize,
    /// Per stretch of the block and part, the ranks of the entries whose records are in it.
    ranks: Vec<Vec<Vec<u32>>>,
    /// Per stretch, whose its positions are.
    owners: Vec<Vec<u32>>,
}

impl ApplyPlan {
    /// Nothing if the block is so small that one thread does all of it.
    ///
    /// Uses the current rayon pool, and for writing as many threads as it has.
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

/// Whose the positions of these entries are.
fn owners_of(effect: &Effect, ranks: Range<usize>) -> Vec<u32> {
    let owner = |rank| match entry(effect, rank) {
        Entry::Linked(id, _) | Entry::Moved(id) => id,
        Entry::New => NO_ID,
    };
    ranks.map(owner).collect()
}

/// The ranks of one stretch of a block.
fn chunk(at: usize, all: usize) -> Range<usize> {
    at * CHUNK..all.min((at + 1) * CHUNK)
}

/// By how many threads so many entries are written at most; one if they are too few to be shared.
pub(crate) const fn writers(entries: usize) -> usize {
    match entries * WRITE_NANOS / THREAD_NANOS {
        0 | 1 => 1,
        more if more > MAX_THREADS => MAX_THREADS,
        more => more,
    }
}

/// Brings the state up to date with an effect that was computed from it, noting in `undo` what leads back. `ahead` is what
/// was found of the effect and this state. One thread does what is to be done `meanwhile` it while others write records.
pub(crate) fn apply(
    state: &mut Resident,
    effect: &Effect,
    ahead: Option<ApplyPlan>,
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
    let mut owners: Vec<Vec<u32>> = match ahead {
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
    // In order, whoever met them first: which place outside its record a value gets does not depend on who was quicker.
    outside.sort_unstable();
    for rank in outside {
        if let (Some(op), KeyRef::Known(id)) = linked.get(rank) {
            state.replace(id, delta.at(op).value().unwrap_or_default());
        }
    }
    let new = owners.iter().flatten().filter(|id| **id == NO_ID).count();
    // For all at once: to grow is to index every key anew.
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

/// Inserts the keys of entries that are new ones', by rank; gives their ids.
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

/// Whose record the entry of a rank changes, if it was there before: linked entries, then moves.
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

/// What a thread has left of a part: the ranks of values that do not fit into their records, and what was before.
type PartResult = (Vec<usize>, Vec<OldRecords>);

/// All parts of a state, to be written by as many threads.
struct ParallelWrite<'w> {
    parts: Vec<Part<'w>>,
    effect: &'w Effect,
    /// Per stretch and part.
    ranks: &'w [Vec<Vec<u32>>],
    /// Whether what was before is noted.
    notes: bool,
}

impl ParallelWrite<'_> {
    /// By part, what is left of it.
    fn write(self, threads: usize, meanwhile: impl FnOnce() + Send) -> Vec<PartResult> {
        let Self { parts, effect, ranks, notes } = self;
        // Of so many stretches together a part has about a stretch, if keys are spread.
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

/// Writes the records of `part` that entries change, all of them in it, and notes what they were. Adds the ranks of values
/// that do not fit into their records.
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
