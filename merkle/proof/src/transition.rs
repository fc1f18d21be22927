//! From one root to the next without a state: a block's changes, and a witness of the entries that they touch.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    hash::{EMPTY, Hash, HashFn},
    proof::{Bytes, ProofError, Source},
    rules::{Entry, Params},
    shape::shift,
    shape::{BITMAP_BYTES, Shape, TWIG_LEAVES, TWIG_LEVEL},
    step::{Bitmap, Change, Step, set_bit, twig_of},
    witness::{Opened, Opening},
};

/// Verifies that `witness` shows what the block at `height` needs of the state under `parent`, and returns the root
/// after it.
///
/// The block makes `changes`, in any order; the last change of a key counts, and a change that leaves its key as it was
/// counts for nothing. Decoding is strict: exactly one witness per parent and changes is accepted. Takes time and
/// memory in proportion to witness and changes, besides the levels of the tree.
///
/// # Errors
/// A [`ProofError`] for the check that failed; [`ProofError::Other`] if the witness is sound and not the one that the
/// changes need; [`ProofError::TooLong`].
pub fn verify_transition(
    params: &Params,
    parent: &Hash,
    height: u64,
    changes: &[Change<'_>],
    witness: &[u8],
) -> Result<Hash, ProofError> {
    let opened = Opened::decode(params.hash, witness)?;
    if params.root(&opened.shape, &opened.top) != *parent {
        return Err(ProofError::Root);
    }
    let bitmap = |twig| opened.bitmaps.get(&twig).copied();
    let step = Step::new(params, &opened.shape, height, &opened.entries, changes, bitmap)?;
    if step.scanned != opened.scanned || step.leaves(&opened.shape, &opened.entries) != opened.leaves {
        return Err(ProofError::Other);
    }
    if step.appended.is_empty() {
        return Ok(*parent);
    }
    let after = After::new(params.hash, &opened, &step)?;
    let top = after.digest(step.shape.top_level(), 0)?;
    Ok(params.root(&step.shape, &top))
}

/// Tree after a block, as far as it differs from the tree before.
struct After<'o, 'a> {
    hash: HashFn,
    before: &'o Opened<'a>,
    shape: Shape,
    /// Twigs that changed and are not empty.
    bitmaps: BTreeMap<u64, Bitmap>,
    /// Twigs that changed.
    dirty: BTreeSet<u64>,
    /// Leaves of new positions.
    leaves: Vec<Hash>,
}

impl<'o, 'a> After<'o, 'a> {
    fn new(hash: HashFn, before: &'o Opened<'a>, step: &Step<'a>) -> Result<Self, ProofError> {
        let mut leaves: Vec<Hash> = step.appended.iter().map(|entry| hash.leaf(entry)).collect();
        for from in &step.moves {
            leaves.push(*before.nodes.get(&(0, *from)).ok_or(ProofError::Other)?);
        }
        let shape = step.shape;
        let mut bitmaps: BTreeMap<u64, Bitmap> = BTreeMap::new();
        let mut set = |sn: u64, on: bool| -> Result<(), ProofError> {
            let twig = twig_of(sn);
            let bits = match bitmaps.entry(twig) {
                alloc::collections::btree_map::Entry::Occupied(bits) => bits.into_mut(),
                alloc::collections::btree_map::Entry::Vacant(place) => {
                    let fresh = twig >= before.shape.twigs();
                    let bits = if fresh { Some([0; BITMAP_BYTES]) } else { before.bitmaps.get(&twig).copied() };
                    place.insert(bits.ok_or(ProofError::Other)?)
                }
            };
            set_bit(bits, sn, on);
            Ok(())
        };
        step.off.iter().chain(&step.moves).try_for_each(|sn| set(*sn, false))?;
        (before.shape.next_sn..shape.next_sn).try_for_each(|sn| set(sn, true))?;
        // Twigs that fall below the floor change, too: they become empty.
        let dirty = bitmaps.keys().copied().chain(before.shape.first_twig()..shape.first_twig()).collect();
        Ok(Self { hash, before, shape, bitmaps, dirty, leaves })
    }

    fn digest(&self, level: u8, index: u64) -> Result<Hash, ProofError> {
        if self.shape.is_empty(level, index) {
            return Ok(EMPTY);
        }
        if !self.changed(level, index) {
            return self.before.nodes.get(&(level, index)).copied().ok_or(ProofError::Other);
        }
        match level {
            0 => {
                let rank = index.checked_sub(self.before.shape.next_sn).and_then(|rank| usize::try_from(rank).ok());
                rank.and_then(|rank| self.leaves.get(rank)).copied().ok_or(ProofError::Other)
            }
            TWIG_LEVEL => {
                let left = self.digest(level - 1, index)?;
                let bits = self.bitmaps.get(&index).ok_or(ProofError::Other)?;
                Ok(self.hash.twig(&left, &self.hash.bits(bits)))
            }
            _ => {
                let left = self.digest(level - 1, 2 * index)?;
                let right = self.digest(level - 1, 2 * index + 1)?;
                Ok(self.hash.node(level, &left, &right))
            }
        }
    }

    /// Returns true if a non-empty node has a change below it.
    fn changed(&self, level: u8, index: u64) -> bool {
        let end = (u128::from(index) + 1) << shift(level);
        if level < TWIG_LEVEL {
            return end > u128::from(self.before.shape.next_sn);
        }
        let first = u128::from(index) << (level - TWIG_LEVEL);
        let twigs = u64::try_from(first).unwrap_or(u64::MAX)..;
        self.dirty.range(twigs).next().is_some_and(|twig| u128::from(*twig) * (TWIG_LEAVES as u128) < end)
    }
}

/// Outline of a witness, known before any digest is read.
#[derive(Clone, Debug)]
pub struct Outline(Opening);

impl Outline {
    /// Computes the outline for the block that makes `changes` on a log of this shape.
    ///
    /// `entries` are the active entries that the changes meet, with their positions, ascending: of changed keys that
    /// exist, of the predecessors of new keys, and of the predecessors of deleted keys. `bitmap` gives the active bits
    /// of a twig.
    ///
    /// # Errors
    /// [`ProofError::Other`] if the entries are not exactly those, [`ProofError::TooLong`].
    pub fn new<'a>(
        params: &Params,
        shape: &Shape,
        entries: &[(u64, Entry<'a>)],
        changes: &[Change<'a>],
        mut bitmap: impl FnMut(u64) -> [u8; BITMAP_BYTES],
    ) -> Result<Self, ProofError> {
        // The height is only in new entries, which a witness does not show.
        let step = Step::new(params, shape, 0, entries, changes, |twig| Some(bitmap(twig)))?;
        let (scanned, leaves) = (step.scanned, step.leaves(shape, entries));
        let entries = entries.iter().map(|(sn, _)| *sn).collect();
        Ok(Self(Opening { shape: *shape, scanned, entries, leaves }))
    }

    /// Positions whose twigs [`Source::node`] is asked about below the twig's own level, in no order.
    pub fn positions(&self) -> impl Iterator<Item = u64> {
        self.0.entries.iter().chain(&self.0.leaves).copied()
    }

    /// Writes the witness. Of twigs without positions it reads no node below [`TWIG_LEVEL`] except the one right below.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` positions.
    pub fn prove(&self, source: &mut impl Source) -> Bytes {
        self.0.prove(source)
    }
}
