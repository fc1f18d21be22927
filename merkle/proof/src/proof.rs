//! Proofs as one walk over the tree, from the top down and from left to right, which prover and verifier share. The
//! walk descends where a proven position lies below; elsewhere one digest stands for the subtree. So a proof of many
//! positions shares their common paths, and has one encoding.
//!
//! ```text
//! proof = version || next_sn || floor || active || count || sn*      (integers big endian, positions ascending)
//!         then along the walk:  digest | bitmap (on entering a twig) | height || entry
//! ```

use core::fmt;

use crate::{
    hash::{EMPTY, Hash, HashFn},
    rules::{Entry, Params},
    shape::shift,
    shape::{BITMAP_BYTES, LEFT_LEVELS, Shape, TWIG_LEAVES, TWIG_LEVEL},
};

/// First byte of an encoded proof.
const VERSION: u8 = 2;

/// Reason why bytes do not prove a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofError {
    /// The proof has a version that this verifier does not know.
    Version(u8),
    /// The bytes end early, continue after the end, or are not the canonical encoding.
    Malformed,
    /// A position is beyond the end of the log or below its floor, or positions do not ascend.
    Position,
    /// The position holds an old value: its active bit is off.
    Inactive,
    /// The proof is sound, but does not prove the claim.
    Other,
    /// The digests do not lead to the root.
    Root,
    /// A signature is not that of the replicas that the client trusts.
    Signature,
    /// A change has a key or value beyond its maximum length.
    TooLong,
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "unknown proof version {version}"),
            Self::Malformed => f.write_str("not the canonical encoding of a proof"),
            Self::Position => f.write_str("position outside of the log, or out of order"),
            Self::Inactive => f.write_str("the entry is not the key's current value"),
            Self::Other => f.write_str("the proof is about something else"),
            Self::Root => f.write_str("the digests do not lead to the root"),
            Self::Signature => f.write_str("the signature is not that of the trusted replicas"),
            Self::TooLong => f.write_str("a key or value is too long"),
        }
    }
}

impl core::error::Error for ProofError {}

/// Position that a proof proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven<'a> {
    /// Position in the log.
    pub sn: u64,
    /// True if it holds the key's current value.
    pub active: bool,
    /// Entry at the position.
    pub entry: Entry<'a>,
}

/// Tree that a prover reads.
pub trait Source {
    /// Digest of a node that is not empty; indices below [`TWIG_LEVEL`] count nodes of the whole log.
    fn node(&mut self, level: u8, index: u64) -> Hash;
    /// Active bits of a twig.
    fn bitmap(&mut self, twig: u64) -> [u8; BITMAP_BYTES];
    /// Appends the height and the canonical encoding of the entry at a position.
    fn entry(&mut self, sn: u64, out: &mut Bytes);
}

/// Buffer of a proof.
pub type Bytes = alloc::vec::Vec<u8>;

/// Proves the positions `sns`, which ascend and lie in the log.
///
/// # Panics
/// If there are more than `u32::MAX` positions.
pub fn prove(shape: &Shape, sns: &[u64], source: &mut impl Source) -> Bytes {
    let mut out = Bytes::with_capacity(1024);
    out.push(VERSION);
    for word in [shape.next_sn, shape.floor, shape.active] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&u32::try_from(sns.len()).expect("at most u32::MAX positions").to_be_bytes());
    sns.iter().for_each(|sn| out.extend_from_slice(&sn.to_be_bytes()));
    put(shape, source, shape.top_level(), 0, sns, &mut out);
    out
}

fn put(shape: &Shape, source: &mut impl Source, level: u8, index: u64, sns: &[u64], out: &mut Bytes) {
    if shape.is_empty(level, index) {
        return;
    }
    if sns.is_empty() {
        return out.extend_from_slice(&source.node(level, index));
    }
    match level {
        0 => source.entry(index, out),
        TWIG_LEVEL => {
            out.extend_from_slice(&source.bitmap(index));
            put(shape, source, level - 1, index, sns, out);
        }
        _ => {
            let middle = (2 * index + 1) << shift(level - 1);
            let (left, right) = sns.split_at(sns.partition_point(|sn| *sn < middle));
            put(shape, source, level - 1, 2 * index, left, out);
            put(shape, source, level - 1, 2 * index + 1, right, out);
        }
    }
}

/// Verifies a proof of any number of positions, hands each to `see` in order, and returns the shape of the log. Nothing
/// is proven before it returns `Ok`.
///
/// Decoding is strict: exactly one encoding per root and positions is accepted. Takes time and stack in proportion to
/// the proof's length and the tree's height, and allocates nothing.
///
/// # Errors
/// A [`ProofError`] for the check that failed.
pub fn verify_positions<'a>(
    params: &Params,
    root: &Hash,
    proof: &'a [u8],
    see: impl FnMut(Proven<'a>),
) -> Result<Shape, ProofError> {
    let (version, rest) = proof.split_first().ok_or(ProofError::Malformed)?;
    if *version != VERSION {
        return Err(ProofError::Version(*version));
    }
    let (next_sn, rest) = word(rest)?;
    let (floor, rest) = word(rest)?;
    let (active, rest) = word(rest)?;
    let (count, rest) = rest.split_first_chunk::<4>().ok_or(ProofError::Malformed)?;
    let count = u32::from_be_bytes(*count) as usize;
    let len = count.checked_mul(8).ok_or(ProofError::Malformed)?;
    let (sns, rest) = rest.split_at_checked(len).ok_or(ProofError::Malformed)?;
    let (sns, _) = sns.as_chunks::<8>();
    let shape = Shape { next_sn, floor, active };
    let first = shape.first_twig() * TWIG_LEAVES as u64;
    let ascend = sns.windows(2).all(|pair| pair[0] < pair[1]);
    let inside = |sn: &[u8; 8]| (first..next_sn).contains(&u64::from_be_bytes(*sn));
    if !ascend || floor >= next_sn || !sns.first().is_none_or(inside) || !sns.last().is_none_or(inside) {
        return Err(ProofError::Position);
    }
    let mut walk = Walk { hash: params.hash, shape, sns, rest, bitmap: None, see };
    let top = walk.digest(shape.top_level(), 0)?;
    if !walk.rest.is_empty() {
        return Err(ProofError::Malformed);
    }
    if params.root(&shape, &top) == *root { Ok(shape) } else { Err(ProofError::Root) }
}

struct Walk<'a, F> {
    hash: HashFn,
    shape: Shape,
    /// Positions that are still to come.
    sns: &'a [[u8; 8]],
    rest: &'a [u8],
    /// Active bits of the current twig.
    bitmap: Option<&'a [u8; BITMAP_BYTES]>,
    see: F,
}

impl<'a, F: FnMut(Proven<'a>)> Walk<'a, F> {
    fn digest(&mut self, level: u8, index: u64) -> Result<Hash, ProofError> {
        if self.shape.is_empty(level, index) {
            return Ok(EMPTY);
        }
        let end = (u128::from(index) + 1) << shift(level);
        if self.sns.first().is_none_or(|sn| u128::from(u64::from_be_bytes(*sn)) >= end) {
            return Ok(*self.take::<32>()?);
        }
        match level {
            0 => self.leaf(index),
            TWIG_LEVEL => {
                let bitmap = self.take::<BITMAP_BYTES>()?;
                self.bitmap = Some(bitmap);
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

    fn leaf(&mut self, sn: u64) -> Result<Hash, ProofError> {
        let height = u64::from_be_bytes(*self.take::<8>()?);
        let (entry, rest) = Entry::decode(self.rest, height).ok_or(ProofError::Malformed)?;
        self.rest = rest;
        self.sns = self.sns.get(1..).unwrap_or_default();
        let place = (sn % TWIG_LEAVES as u64) as usize;
        let active = self.bitmap.is_some_and(|bitmap| bitmap[place / 8] >> (place % 8) & 1 == 1);
        (self.see)(Proven { sn, active, entry });
        Ok(self.hash.leaf(&entry))
    }

    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], ProofError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ProofError::Malformed)?;
        self.rest = rest;
        Ok(taken)
    }
}

fn word(bytes: &[u8]) -> Result<(u64, &[u8]), ProofError> {
    let (word, rest) = bytes.split_first_chunk::<8>().ok_or(ProofError::Malformed)?;
    Ok((u64::from_be_bytes(*word), rest))
}

const _: () = assert!(TWIG_LEVEL as usize == LEFT_LEVELS + 1);
