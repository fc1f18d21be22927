//! What a block does to a resident state, once it is committed.
//!
//! Records are two cache misses each, so of a large block they are read, for the way back, and written by many threads:
//! read by stretches of the block, while the state may still be read by others, and written by parts of the records, each
//! by who has the ranks that are in it. What moves keys or needs a place outside its record is done by one.
//!
//! The writing is done under the lock that keeps readers out, and never waits for rayon: a worker that waits does other
//! jobs meanwhile, and one that reads would wait for the lock that its own worker holds.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
    thread::Builder,
};

use crate::{
    ThreadStart, par,
    prepare::{AHEAD, Effect, ask_ahead, name},
    resident::{Links, Part, Resident, Written},
    resolve::Who,
    undo::{Notes, Undo},
};

/// Entries that are noted, and on one thread written, at a time: they stay in the cache between the two.
const STRETCH: usize = 4096;

/// About what a record takes to be noted, or written, in nanoseconds.
const NANOS: usize = 40;

/// Nanoseconds of writing for which another thread is begun, which takes some tens of microseconds. Tests begin several
/// for small blocks.
const SHARE: usize = if cfg!(test) { 20_000 } else { 500_000 };

/// Most parts that records are written in.
const PARTS: usize = 256;

/// What is found of a block before the state changes: by whom its records are written, and what they were.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Records per part: ids from here on are the next part's.
    each: usize,
    /// Per stretch of the block and part, the ranks of the entries whose records are in it.
    ranks: Vec<Vec<Vec<u32>>>,
    /// Per stretch, unless nothing leads back from the block.
    notes: Vec<Notes>,
}

impl Ahead {
    /// Nothing if the block is so small that one thread does all of it.
    ///
    /// Uses the current rayon pool, and for writing as many threads as it has. `undo` says whether the block can be undone.
    pub(crate) fn of(state: &Resident, effect: &Effect, undo: bool) -> Option<Self> {
        let all = effect.linked.len() + effect.moves.len();
        let threads = rayon::current_num_threads().min(all * NANOS / SHARE).min(PARTS);
        if threads < 2 {
            return None;
        }
        let each = state.places().div_ceil(threads).max(1);
        let mut found = par::map_range(all.div_ceil(STRETCH), STRETCH * NANOS, |at| {
            let (ranks, notes) = (stretch(at, all), undo.then(|| note(state, effect, stretch(at, all))));
            let mut parts = vec![Vec::with_capacity(ranks.len() / threads * 5 / 4); threads];
            for rank in ranks {
                if let Entry::Linked(id, _) | Entry::Moved(id) = entry(effect, rank) {
                    parts[id as usize / each].push(rank as u32);
                }
            }
            (parts, notes)
        });
        let notes = found.iter_mut().filter_map(|(_, notes)| notes.take()).collect();
        Some(Self { each, ranks: found.into_iter().map(|(parts, _)| parts).collect(), notes })
    }
}

/// The ranks of one stretch of a block.
fn stretch(at: usize, all: usize) -> Range<usize> {
    at * STRETCH..all.min((at + 1) * STRETCH)
}

/// In how many pieces threads share so many entries before the state changes; one if they are too few to be shared.
pub(crate) const fn pieces(entries: usize) -> usize {
    if entries * NANOS >= 2 * SHARE { entries.div_ceil(STRETCH) } else { 1 }
}

/// Brings the state up to date with an effect that was computed from it, noting in `undo` what leads back. `ahead` is what
/// was found of the effect and this state.
pub(crate) fn fold(
    state: &mut Resident,
    effect: &Effect,
    ahead: Option<Ahead>,
    mut undo: Option<&mut Undo>,
    start: &ThreadStart,
) {
    let Effect { delta, linked, moves, first_sn, height, tree, .. } = effect;
    for id in &linked.deletes {
        if let Some(undo) = &mut undo {
            undo.deleting(state, *id);
        }
        state.remove(*id);
    }
    let all = linked.len() + moves.len();
    let mut outside = Vec::new();
    match ahead {
        Some(Ahead { each, ranks, notes }) => {
            write_parts(state.parts(each), effect, &ranks, &mut outside, start);
            if let Some(undo) = &mut undo {
                undo.take_notes(notes);
            }
        }
        None => {
            let each = state.places().max(1);
            for at in 0..all.div_ceil(STRETCH) {
                if let Some(undo) = &mut undo {
                    undo.take_notes([note(state, effect, stretch(at, all))]);
                }
                let parts = &mut state.parts(each);
                parts.iter_mut().for_each(|part| write(part, effect, stretch(at, all), &mut outside));
            }
        }
    }
    // In order, whoever met them first: places outside records are given alike by any number of threads.
    outside.sort_unstable();
    for rank in outside {
        if let (Some(op), Who::Known(id)) = linked.get(rank) {
            state.replace(id, delta.value(&delta.ops()[op]).unwrap_or_default());
        }
    }
    for rank in 0..linked.len() {
        match linked.get(rank) {
            (_, Who::Known(id)) => state.own(id),
            (Some(at), Who::New(new)) => {
                let op = &delta.ops()[at];
                let hash = *linked.digest(at, new);
                let next = *linked.next(rank).expect("a new key has a next one");
                let value = delta.value(op).unwrap_or_default();
                let written = Written::new(first_sn + rank as u64, None, *height);
                let id = state.insert(name(delta, op), value, Links { hash, next }, written);
                if let Some(undo) = &mut undo {
                    undo.created(id);
                }
            }
            (None, Who::New(_)) => unreachable!("only an operation creates a key"),
        }
    }
    moves.iter().for_each(|(id, _)| state.own(*id));
    state.raise_floor(tree.shape.floor);
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
            (op, Who::Known(id)) => Entry::Linked(id, op),
            (_, Who::New(_)) => Entry::New,
        },
    }
}

/// What the records of a stretch are before they change.
fn note(state: &Resident, effect: &Effect, ranks: Range<usize>) -> Notes {
    let mut notes = Notes::with_capacity(ranks.len());
    for rank in ranks {
        match rank.checked_sub(effect.linked.len()) {
            None => ask_ahead(state, &effect.delta, &effect.linked, rank),
            Some(moved) => {
                if let Some((id, _)) = effect.moves.get(moved + AHEAD) {
                    state.prefetch(*id);
                }
            }
        }
        match entry(effect, rank) {
            Entry::Linked(id, op) => notes.changing(state, id, op.is_some(), effect.linked.next(rank).is_some()),
            Entry::Moved(id) => notes.changing(state, id, false, false),
            Entry::New => {}
        }
    }
    notes
}

/// Writes all parts, each by one of as many threads; what is left of them all to `outside`.
fn write_parts(
    parts: Vec<Part<'_>>,
    effect: &Effect,
    ranks: &[Vec<Vec<u32>>],
    outside: &mut Vec<usize>,
    start: &ThreadStart,
) {
    let helpers = parts.len().saturating_sub(1);
    let (parts, left) = (Mutex::new(parts.into_iter().enumerate()), Mutex::new(outside));
    let work = || {
        let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
        let mut outside = Vec::new();
        while let Some((at, mut part)) = next() {
            for by_part in ranks {
                let ranks = by_part.get(at).map_or(&[][..], Vec::as_slice);
                write(&mut part, effect, ranks.iter().map(|rank| *rank as usize), &mut outside);
            }
        }
        left.lock().unwrap_or_else(PoisonError::into_inner).append(&mut outside);
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // Where there are no further threads, those that there are do it.
            let _ = Builder::new().name("phalanx-fold".into()).spawn_scoped(scope, || {
                start.call();
                work();
            });
        }
        work();
    });
}

/// Writes the records of `part` that entries change, all of them in it. Adds the ranks of values that do not fit into their
/// records.
fn write(part: &mut Part<'_>, effect: &Effect, ranks: impl Iterator<Item = usize> + Clone, outside: &mut Vec<usize>) {
    let Effect { delta, linked, first_sn, height, .. } = effect;
    let mut ahead = ranks.clone().skip(AHEAD);
    for rank in ranks {
        if let Some(rank) = ahead.next()
            && let Entry::Linked(id, _) | Entry::Moved(id) = entry(effect, rank)
        {
            part.prefetch(id);
        }
        let sn = first_sn + rank as u64;
        match entry(effect, rank) {
            Entry::Linked(id, op) => {
                if let Some(op) = op
                    && !part.replace(id, delta.value(&delta.ops()[op]).unwrap_or_default())
                {
                    outside.push(rank);
                }
                part.rewrite(id, linked.next(rank), |before| Written::new(sn, Some(before.sn), *height));
            }
            Entry::Moved(id) => part.rewrite(id, None, |before| Written::new(sn, before.previous(), before.height)),
            Entry::New => {}
        }
    }
}

#[cfg(test)]
mod tests;
