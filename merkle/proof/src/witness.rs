//! Witnesses: the part of a tree that a block touches. The walk is a proof's, with two more places to stop at:
//! positions of which only the leaf matters, and twigs of which only the active bits do.
//!
//! ```text
//! witness = version || next_sn || floor || active || scanned || entries || leaves || sn* || sn*
//!           then along the walk:  digest | bitmap (on entering a twig) | height || entry | digest of a leaf
//! ```
//!
//! The walk descends where one of the positions lies below, and to each of the first `scanned` twigs that are not
//! empty.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    hash::{EMPTY, Hash, HashFn},
    proof::{Bytes, ProofError, Source},
    rules::Entry,
    shape::shift,
    shape::{BITMAP_BYTES, Shape, TWIG_LEAVES, TWIG_LEVEL},
    step::{Bitmap, bit},
};

/// First byte of an encoded witness; no proof begins with it.
const VERSION: u8 = 0x82;

/// Content of a witness.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) shape: Shape,
    /// Number of twigs from the floor's on whose bits are shown.
    pub(crate) scanned: u64,
    /// Positions whose entries are shown, ascending.
    pub(crate) entries: Vec<u64>,
    /// Positions of which only the leaf is shown, ascending.
    pub(crate) leaves: Vec<u64>,
}

/// State of a walk: a node, and the positions that are still to come.
#[derive(Clone, Copy)]
struct Ahead<'p> {
    entries: &'p [u64],
    leaves: &'p [u64],
    /// End of the scanned twigs.
    scanned: u128,
}

impl Ahead<'_> {
    /// Returns true if the walk stops at nothing below a node.
    fn passes(&self, level: u8, index: u64) -> bool {
        let (begin, end) = (u128::from(index) << shift(level), (u128::from(index) + 1) << shift(level));
        let below = |sns: &[u64]| sns.first().is_some_and(|sn| u128::from(*sn) < end);
        let scans = level >= TWIG_LEVEL && begin < self.scanned;
        !(below(self.entries) || below(self.leaves) || scans)
    }
}

impl Opening {
    fn ahead(&self) -> Ahead<'_> {
        let scanned = (u128::from(self.shape.first_twig()) + u128::from(self.scanned)) * TWIG_LEAVES as u128;
        Ahead { entries: &self.entries, leaves: &self.leaves, scanned }
    }

    /// Writes the witness.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` positions.
    pub(crate) fn prove(&self, source: &mut impl Source) -> Bytes {
        let mut out = Bytes::with_capacity(4096);
        out.push(VERSION);
        let Shape { next_sn, floor, active } = self.shape;
        for word in [next_sn, floor, active, self.scanned] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for sns in [&self.entries, &self.leaves] {
            out.extend_from_slice(&u32::try_from(sns.len()).expect("at most u32::MAX positions").to_be_bytes());
        }
        self.entries.iter().chain(&self.leaves).for_each(|sn| out.extend_from_slice(&sn.to_be_bytes()));
        let mut ahead = self.ahead();
        put(&self.shape, source, &mut ahead, self.shape.top_level(), 0, &mut out);
        out
    }
}

fn put(shape: &Shape, source: &mut impl Source, ahead: &mut Ahead<'_>, level: u8, index: u64, out: &mut Bytes) {
    if shape.is_empty(level, index) {
        return;
    }
    if ahead.passes(level, index) {
        return out.extend_from_slice(&source.node(level, index));
    }
    match level {
        0 if ahead.entries.first() == Some(&index) => {
            source.entry(index, out);
            ahead.entries = &ahead.entries[1..];
        }
        0 => {
            out.extend_from_slice(&source.node(0, index));
            ahead.leaves = &ahead.leaves[1..];
        }
        TWIG_LEVEL => {
            out.extend_from_slice(&source.bitmap(index));
            put(shape, source, ahead, level - 1, index, out);
        }
        _ => {
            put(shape, source, ahead, level - 1, 2 * index, out);
            put(shape, source, ahead, level - 1, 2 * index + 1, out);
        }
    }
}

/// Tree under one root, as far as a witness shows it.
pub(crate) struct Opened<'a> {
    pub(crate) shape: Shape,
    pub(crate) scanned: u64,
    /// Ascending, all of them active.
    pub(crate) entries: Vec<(u64, Entry<'a>)>,
    /// Ascending.
    pub(crate) leaves: Vec<u64>,
    pub(crate) bitmaps: BTreeMap<u64, Bitmap>,
    /// Digest of every node on the walk.
    pub(crate) nodes: BTreeMap<(u8, u64), Hash>,
    /// Digest above all twigs.
    pub(crate) top: Hash,
}

impl<'a> Opened<'a> {
    /// Decodes a witness and hashes its content. Nothing is proven until the caller has compared the root.
    ///
    /// Takes time and memory in proportion to the witness's length: counts are compared with the remaining length
    /// first.
    ///
    /// # Errors
    /// A [`ProofError`] for the check that failed.
    pub(crate) fn decode(hash: HashFn, witness: &'a [u8]) -> Result<Self, ProofError> {
        let (version, mut rest) = witness.split_first().ok_or(ProofError::Malformed)?;
        if *version != VERSION {
            return Err(ProofError::Version(*version));
        }
        let mut words = [0; 4];
        for word in &mut words {
            *word = u64::from_be_bytes(*take(&mut rest)?);
        }
        let [next_sn, floor, active, scanned] = words;
        let shape = Shape { next_sn, floor, active };
        let mut counts = [0; 2];
        for count in &mut counts {
            *count = u32::from_be_bytes(*take(&mut rest)?) as usize;
        }
        let [entries, leaves] = counts.map(|count| positions(&shape, count));
        let (entries, leaves) = (entries(&mut rest)?, leaves(&mut rest)?);
        if floor >= next_sn {
            return Err(ProofError::Position);
        }
        let opening = Opening { shape, scanned, entries, leaves };
        let (nodes, bitmaps) = (BTreeMap::new(), BTreeMap::new());
        let mut walk =
            Walk { hash, shape, ahead: opening.ahead(), rest, nodes, bitmaps, entries: Vec::new(), inactive: false };
        let top = walk.digest(shape.top_level(), 0)?;
        if !walk.rest.is_empty() || !walk.ahead.entries.is_empty() || !walk.ahead.leaves.is_empty() {
            return Err(ProofError::Malformed);
        }
        let Walk { nodes, bitmaps, entries, inactive, .. } = walk;
        if inactive {
            return Err(ProofError::Inactive);
        }
        Ok(Self { shape, scanned, entries, leaves: opening.leaves, bitmaps, nodes, top })
    }
}

/// Reads ascending positions of the log.
fn positions(shape: &Shape, count: usize) -> impl FnOnce(&mut &[u8]) -> Result<Vec<u64>, ProofError> {
    let positions = u128::from(shape.first_twig()) * TWIG_LEAVES as u128..u128::from(shape.next_sn);
    move |rest| {
        let len = count.checked_mul(8).ok_or(ProofError::Malformed)?;
        let (sns, after) = rest.split_at_checked(len).ok_or(ProofError::Malformed)?;
        *rest = after;
        let sns: Vec<u64> = sns.as_chunks::<8>().0.iter().map(|sn| u64::from_be_bytes(*sn)).collect();
        let ascend = sns.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = sns.iter().all(|sn| positions.contains(&u128::from(*sn)));
        if ascend && inside { Ok(sns) } else { Err(ProofError::Position) }
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], ProofError> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or(ProofError::Malformed)?;
    *rest = after;
    Ok(taken)
}

struct Walk<'p, 'a> {
    hash: HashFn,
    shape: Shape,
    ahead: Ahead<'p>,
    rest: &'a [u8],
    nodes: BTreeMap<(u8, u64), Hash>,
    bitmaps: BTreeMap<u64, Bitmap>,
    entries: Vec<(u64, Entry<'a>)>,
    /// True if an entry was shown that is not active.
    inactive: bool,
}

impl Walk<'_, '_> {
    fn digest(&mut self, level: u8, index: u64) -> Result<Hash, ProofError> {
        if self.shape.is_empty(level, index) {
            return Ok(EMPTY);
        }
        let digest = self.descend(level, index)?;
        self.nodes.insert((level, index), digest);
        Ok(digest)
    }

    fn descend(&mut self, level: u8, index: u64) -> Result<Hash, ProofError> {
        if self.ahead.passes(level, index) {
            return Ok(*take(&mut self.rest)?);
        }
        match level {
            0 if self.ahead.entries.first() == Some(&index) => {
                self.ahead.entries = &self.ahead.entries[1..];
                let height = u64::from_be_bytes(*take(&mut self.rest)?);
                let (entry, rest) = Entry::decode(self.rest, height).ok_or(ProofError::Malformed)?;
                self.rest = rest;
                self.inactive |= !self.bitmaps.get(&crate::step::twig_of(index)).is_some_and(|bits| bit(bits, index));
                self.entries.push((index, entry));
                Ok(self.hash.leaf(&entry))
            }
            0 => {
                self.ahead.leaves = &self.ahead.leaves[1..];
                Ok(*take(&mut self.rest)?)
            }
            TWIG_LEVEL => {
                let bitmap: &[u8; BITMAP_BYTES] = take(&mut self.rest)?;
                self.bitmaps.insert(index, *bitmap);
                let left = self.digest(level - 1, index)?;
                Ok(self.hash.twig(&left, &self.hash.bits(bitmap)))
            }
            _ => {
                let left = self.digest(level - 1, 2 * index)?;
                let right = self.digest(level - 1, 2 * index + 1)?;
                Ok(self.hash.node(level, &left, &right))
            }
        }
    }
}
