//! From one root to the next without a state: a block's changes, and a witness of what they touch.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    BITMAP_BYTES, Bytes, EMPTY, Entry, Hash, HashFn, Params, ProofError, Shape, Source, TWIG_LEAVES, TWIG_LEVEL,
    shape::shift,
    step::{Bitmap, Change, Step, set_bit, twig_of},
    witness::{Opened, Opening},
};

/// Checks that `witness` shows all that the block at `height` needs of the state under `parent`, and returns the root
/// after it. The block makes `changes`, in any order; the last one to a key counts, and one that leaves its key as it was
/// changes nothing.
///
/// Decoding is strict: there is exactly one accepted witness for each parent and set of changed keys and values. Takes
/// time and memory in proportion to witness and changes, besides the levels of the tree.
///
/// # Errors
/// A [`ProofError`] that says which check failed; [`ProofError::Other`] if the witness is sound and not the one that the
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

/// The tree after a block, as far as it differs from the one before.
struct After<'o, 'a> {
    hash: HashFn,
    before: &'o Opened<'a>,
    shape: Shape,
    /// Twigs that changed and are not empty.
    bitmaps: BTreeMap<u64, Bitmap>,
    /// Twigs that changed.
    dirty: BTreeSet<u64>,
    /// The leaves of new positions.
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
        // What falls below the floor changes, too: it is empty from here on.
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

    /// Whether something below a node that is not empty is not what it was.
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

/// What the witness of a block has to show, known before any digest is read.
#[derive(Clone, Debug)]
pub struct Outline(Opening);

impl Outline {
    /// What the block that makes `changes` needs of a log of this shape. `entries` are the active entries that the changes
    /// meet, with their positions, ascending: those of changed keys that exist, of the keys before those that do not, and
    /// of the keys before those that go. `bitmap` gives the active bits of a twig.
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
        // The height is in the new entries, of which the witness shows nothing.
        let step = Step::new(params, shape, 0, entries, changes, |twig| Some(bitmap(twig)))?;
        let (scanned, leaves) = (step.scanned, step.leaves(shape, entries));
        let entries = entries.iter().map(|(sn, _)| *sn).collect();
        Ok(Self(Opening { shape: *shape, scanned, entries, leaves }))
    }

    /// The positions below which [`Source::node`] is asked for digests within their twigs, in no order.
    pub fn positions(&self) -> impl Iterator<Item = u64> {
        self.0.entries.iter().chain(&self.0.leaves).copied()
    }

    /// Writes the witness. [`Source::entry`] appends height and entry. Of twigs without positions nothing below
    /// [`TWIG_LEVEL`] is asked for but the digest right below it.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` positions.
    pub fn prove(&self, source: &mut impl Source) -> Bytes {
        self.0.prove(source)
    }
}
