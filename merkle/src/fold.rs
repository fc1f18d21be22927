//! What a block does to a resident state, once it is committed.
//!
//! Records are two cache misses each, so they are read, for the way back, and written by all threads: read by stretches of
//! the block, written by stretches of the records. What moves keys or needs a place outside its record is done by one.

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    par,
    prepare::{AHEAD, Effect, ask_ahead, name},
    resident::{Links, Part, Resident, Written},
    resolve::Who,
    undo::{Notes, Undo},
};

/// Entries that are noted, and on one thread written, at a time: they stay in the cache between the two.
const STRETCH: usize = 4096;

/// About what a record takes to be noted and written, in nanoseconds.
const NANOS: usize = 60;

/// In how many pieces threads share the notes of so many entries; one if they are too few to be shared.
pub(crate) const fn pieces(entries: usize) -> usize {
    if par::is_much(entries * NANOS) { entries.div_ceil(STRETCH) } else { 1 }
}

/// Brings the state up to date with an effect that was computed from it, noting in `undo` what leads back.
pub(crate) fn fold(state: &mut Resident, effect: &Effect, mut undo: Option<&mut Undo>) {
    let Effect { delta, linked, moves, first_sn, height, tree, .. } = effect;
    for id in &linked.deletes {
        if let Some(undo) = &mut undo {
            undo.deleting(state, *id);
        }
        state.remove(*id);
    }
    let all = linked.len() + moves.len();
    let stretches = all.div_ceil(STRETCH);
    let stretch = |at: usize| at * STRETCH..all.min((at + 1) * STRETCH);
    let mut outside = Vec::new();
    if par::worth(all * NANOS) {
        if let Some(undo) = &mut undo {
            let noted = (0..stretches).into_par_iter().map(|at| note(state, effect, stretch(at)));
            undo.take_notes(noted.collect::<Vec<_>>());
        }
        let parts = state.parts(rayon::current_num_threads());
        let left = parts.into_par_iter().map(|mut part| write(&mut part, effect, 0..all));
        left.collect::<Vec<_>>().into_iter().for_each(|left| outside.extend(left));
    } else {
        for at in 0..stretches {
            if let Some(undo) = &mut undo {
                undo.take_notes([note(state, effect, stretch(at))]);
            }
            state.parts(1).iter_mut().for_each(|part| outside.extend(write(part, effect, stretch(at))));
        }
    }
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

/// Writes the records of `part` that a stretch changes. Gives the ranks of values that do not fit into their records.
fn write(part: &mut Part<'_>, effect: &Effect, ranks: Range<usize>) -> Vec<usize> {
    let Effect { delta, linked, first_sn, height, .. } = effect;
    let mut outside = Vec::new();
    let end = ranks.end;
    for rank in ranks {
        if rank + AHEAD < end
            && let Entry::Linked(id, _) | Entry::Moved(id) = entry(effect, rank + AHEAD)
        {
            part.prefetch(id);
        }
        let sn = first_sn + rank as u64;
        match entry(effect, rank) {
            Entry::Linked(id, op) if part.has(id) => {
                if let Some(op) = op
                    && !part.replace(id, delta.value(&delta.ops()[op]).unwrap_or_default())
                {
                    outside.push(rank);
                }
                part.rewrite(id, linked.next(rank), |before| Written::new(sn, Some(before.sn), *height));
            }
            Entry::Moved(id) if part.has(id) => {
                part.rewrite(id, None, |before| Written::new(sn, before.previous(), before.height));
            }
            _ => {}
        }
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_little_is_one_piece() {
        assert_eq!([0, 1, 800, STRETCH, STRETCH + 1, 10 * STRETCH].map(pieces), [1, 1, 1, 1, 2, 10]);
    }
}
