//! The effect of a block on the log, from its changes and the entries that they meet: the appended entries, the
//! deactivated positions and the moves. The store finds the same by other means, faster.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    hash::Hash,
    proof::ProofError,
    rules::{Compaction, Entry, MAX_KEY_LEN, MAX_VALUE_LEN, Params},
    shape::{BITMAP_BYTES, Shape, TWIG_LEAVES},
};

/// Change of one key by a block: a new value, or `None` for a deletion.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// Active bits of a twig.
pub(crate) type Bitmap = [u8; BITMAP_BYTES];

/// Block as positions.
pub(crate) struct Step<'a> {
    /// In order of position.
    pub(crate) appended: Vec<Entry<'a>>,
    /// Older positions that appended entries and deletions deactivate, ascending.
    pub(crate) off: Vec<u64>,
    /// Older positions that compaction moves behind the appended entries, in that order.
    pub(crate) moves: Vec<u64>,
    /// Number of twigs from the floor's on that compaction searched.
    pub(crate) scanned: u64,
    /// Shape after the block.
    pub(crate) shape: Shape,
}

impl<'a> Step<'a> {
    /// Computes the block at `height` that makes `changes` on top of a log of shape `before`; the last change of each
    /// key counts.
    ///
    /// `entries` are the active entries that the changes meet, with their positions: of changed keys that exist, of the
    /// predecessors of new keys, and of the predecessors of deleted keys. `bitmap` gives the active bits of a twig.
    ///
    /// # Errors
    /// [`ProofError::Other`] if the entries are not exactly those, or `bitmap` lacks one; [`ProofError::TooLong`].
    pub(crate) fn new(
        params: &Params,
        before: &Shape,
        height: u64,
        entries: &[(u64, Entry<'a>)],
        changes: &[Change<'a>],
        bitmap: impl FnMut(u64) -> Option<Bitmap>,
    ) -> Result<Self, ProofError> {
        let (appended, mut off) = relink(params, height, entries, changes)?;
        off.sort_unstable();
        let grown = (appended.len() as u64, off.len() as u64);
        let next_sn = before.next_sn.checked_add(grown.0).ok_or(ProofError::Position)?;
        let active = before.active.checked_add(grown.0).and_then(|active| active.checked_sub(grown.1));
        let shape = Shape { next_sn, floor: before.floor, active: active.ok_or(ProofError::Position)? };
        let mut step = Self { appended, off, moves: Vec::new(), scanned: 0, shape };
        if grown.0 > 0 {
            step.compact(&params.compaction, before, bitmap)?;
        }
        Ok(step)
    }

    /// Moves the oldest active positions, as [`Compaction`] says.
    fn compact(
        &mut self,
        compaction: &Compaction,
        before: &Shape,
        mut bitmap: impl FnMut(u64) -> Option<Bitmap>,
    ) -> Result<(), ProofError> {
        let cap = compaction.cap(self.appended.len() as u64);
        let (mut sn, mut bits) = (before.floor, [0; BITMAP_BYTES]);
        while (self.moves.len() as u64) < cap
            && compaction.is_due(self.shape.active, self.shape.next_sn - self.shape.floor)
        {
            // The next active position that is older than the block.
            loop {
                if sn >= before.next_sn {
                    return Ok(());
                }
                let twig = twig_of(sn);
                if twig - before.first_twig() >= self.scanned {
                    bits = bitmap(twig).ok_or(ProofError::Other)?;
                    self.clear_off(twig, &mut bits);
                    self.scanned = twig - before.first_twig() + 1;
                }
                if bit(&bits, sn) {
                    break;
                }
                sn += 1;
            }
            self.moves.push(sn);
            sn += 1;
            self.shape.next_sn = self.shape.next_sn.checked_add(1).ok_or(ProofError::Position)?;
            self.shape.floor = sn;
        }
        Ok(())
    }

    /// Clears the bits of a twig's positions that the block deactivates.
    pub(crate) fn clear_off(&self, twig: u64, bits: &mut Bitmap) {
        let begin = self.off.partition_point(|sn| twig_of(*sn) < twig);
        self.off[begin..].iter().take_while(|sn| twig_of(**sn) == twig).for_each(|sn| set_bit(bits, *sn, false));
    }

    /// Positions besides those of `entries` whose leaves the block needs: the moved ones, and the end of the log,
    /// beside which it appends. Ascending.
    pub(crate) fn leaves(&self, before: &Shape, entries: &[(u64, Entry<'a>)]) -> Vec<u64> {
        let edge = before.next_sn.checked_sub(1).filter(|_| !self.appended.is_empty());
        let edge = edge.filter(|edge| self.moves.last() != Some(edge));
        let known = |sn: &u64| entries.binary_search_by_key(sn, |(sn, _)| *sn).is_ok();
        self.moves.iter().copied().chain(edge).filter(|sn| !known(sn)).collect()
    }
}

#[inline]
pub(crate) const fn twig_of(sn: u64) -> u64 {
    sn / TWIG_LEAVES as u64
}

#[inline]
pub(crate) const fn bit(bits: &Bitmap, sn: u64) -> bool {
    let place = (sn % TWIG_LEAVES as u64) as usize;
    bits[place / 8] >> (place % 8) & 1 == 1
}

#[inline]
pub(crate) const fn set_bit(bits: &mut Bitmap, sn: u64, on: bool) {
    let place = (sn % TWIG_LEAVES as u64) as usize;
    let mask = 1 << (place % 8);
    if on { bits[place / 8] |= mask } else { bits[place / 8] &= !mask }
}

/// Key in key order after the block.
struct Node<'a> {
    entry: Entry<'a>,
    /// Index of its entry among the known ones.
    known: Option<usize>,
    changed: bool,
}

/// Entry before the block, in key order.
struct Known<'e, 'a> {
    place: Hash,
    sn: u64,
    entry: &'e Entry<'a>,
    needed: bool,
}

/// Entries that the block changes, in key order, and the positions that it deactivates.
fn relink<'a>(
    params: &Params,
    height: u64,
    entries: &[(u64, Entry<'a>)],
    changes: &[Change<'a>],
) -> Result<(Vec<Entry<'a>>, Vec<u64>), ProofError> {
    if changes.iter().any(|(key, value)| key.len() > MAX_KEY_LEN || value.is_some_and(|v| v.len() > MAX_VALUE_LEN)) {
        return Err(ProofError::TooLong);
    }
    let last: BTreeMap<Hash, Change<'a>> = changes.iter().map(|change| (params.hash.key(change.0), *change)).collect();
    let place = |(sn, entry): &'_ (u64, Entry<'a>)| (entry.key_hash(params.hash), *sn);
    let mut known: Vec<Known<'_, 'a>> = Vec::with_capacity(entries.len());
    known.extend(entries.iter().map(|at| Known { place: place(at).0, sn: at.0, entry: &at.1, needed: false }));
    known.sort_unstable_by_key(|known| known.place);

    let mut ring: Vec<Node<'a>> = Vec::with_capacity(known.len() + last.len());
    let mut off = Vec::new();
    // Entries up to here are linked, or deleted.
    let mut seen = 0;
    for (place, (key, value)) in last {
        while known.get(seen).is_some_and(|known| known.place < place) {
            ring.push(keep(&known, seen));
            seen += 1;
        }
        match (known.get_mut(seen).filter(|known| known.place == place), value) {
            (Some(there), _) if there.entry.sentinel => return Err(ProofError::Other),
            (Some(there), Some(value)) => {
                there.needed = true;
                let mut node = keep(&known, seen);
                node.changed = node.entry.value != value;
                node.entry.value = value;
                ring.push(node);
                seen += 1;
            }
            (Some(there), None) => {
                there.needed = true;
                off.push(there.sn);
                let next = there.entry.next;
                let before = ring.last_mut().filter(|before| before.entry.next == place).ok_or(ProofError::Other)?;
                (before.entry.next, before.changed) = (next, true);
                if let Some(before) = before.known {
                    known[before].needed = true;
                }
                seen += 1;
            }
            (None, value) => {
                // The predecessor's entry says that the key does not exist.
                let covers = known[..seen].last_mut().filter(|covers| place < covers.entry.next);
                covers.ok_or(ProofError::Other)?.needed = true;
                let Some(value) = value else { continue };
                let before = ring.last_mut().filter(|before| place < before.entry.next).ok_or(ProofError::Other)?;
                let next = core::mem::replace(&mut before.entry.next, place);
                before.changed = true;
                let entry = Entry { sentinel: false, key, value, next, previous: None, height };
                ring.push(Node { entry, known: None, changed: true });
            }
        }
    }
    if !known.iter().all(|known| known.needed) {
        return Err(ProofError::Other);
    }
    let changed = ring.into_iter().filter(|node| node.changed);
    let appended = changed.map(|Node { entry, known: at, .. }| {
        let previous = at.map(|at| known[at].sn);
        off.extend(previous);
        Entry { previous, height, ..entry }
    });
    Ok((appended.collect(), off))
}

const fn keep<'a>(known: &[Known<'_, 'a>], at: usize) -> Node<'a> {
    Node { entry: *known[at].entry, known: Some(at), changed: false }
}
