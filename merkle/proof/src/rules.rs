//! The hashing rules: parameters, preimages of every digest, and the encoding of an entry.

use alloc::{vec, vec::Vec};

use crate::{
    hash::{EMPTY, Hash, HashFn},
    shape::{BITMAP_BYTES, LEFT_LEVELS, Shape},
};

/// Version of the commitment and of all its encodings. A change of any preimage changes it.
pub const FORMAT: u16 = 2;

/// Maximum length of a key, in bytes.
pub const MAX_KEY_LEN: usize = u8::MAX as usize;

/// Maximum length of a value, in bytes.
pub const MAX_VALUE_LEN: usize = u16::MAX as usize;

/// Next key of the last entry in key order. No key hashes to it.
pub const RING_END: Hash = [0xff; 32];

/// Domain bytes, one per kind of preimage: no digest of one kind passes for another.
pub(crate) mod domain {
    pub(super) const LEAF: u8 = 0;
    pub(super) const NODE: u8 = 1;
    pub(super) const BITS: u8 = 2;
    pub(super) const TWIG: u8 = 3;
    pub(super) const ROOT: u8 = 4;
    pub(super) const KEY: u8 = 5;
    pub(super) const PARAMS: u8 = 6;
    pub(crate) const FATE: u8 = 7;
    pub(crate) const FATES: u8 = 8;
    pub(crate) const TRANSACTIONS: u8 = 9;
    pub(crate) const OUTCOME: u8 = 10;
}

/// Genesis parameters, which fix the meaning of a root. Bound into every root, and never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Params {
    /// Hash function of every digest.
    pub hash: HashFn,
    /// Compaction rule.
    pub compaction: Compaction,
    /// Sentinels in key order.
    pub sentinels: Sentinels,
}

/// Compaction rule: when a block moves old entries to the end of the log, so that the log's beginning can be dropped.
///
/// Behind its own entries a block appends the oldest active entries anew while fewer than `active` in `of` positions
/// from the floor on are active. It moves at most `per_entry` for each appended entry, and `extra` more. A block that
/// appends nothing moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compaction {
    /// Numerator of the target share of active positions; zero turns compaction off.
    pub active: u16,
    /// Denominator of the target share.
    pub of: u16,
    /// Maximum number of moves per appended entry.
    pub per_entry: u16,
    /// Maximum number of moves per block beyond these.
    pub extra: u16,
}

impl Default for Compaction {
    /// Half: a quarter of a move per random update, and a log of twice the state. Two moves per entry reach any target.
    fn default() -> Self {
        Self { active: 1, of: 2, per_entry: 2, extra: 64 }
    }
}

impl Compaction {
    /// Returns true if a log of `span` positions from the floor on, of which `active` are active, has moves to make.
    #[inline]
    pub const fn is_due(&self, active: u64, span: u64) -> bool {
        active as u128 * (self.of as u128) < span as u128 * self.active as u128
    }

    /// Maximum number of moves of a block that appended `entries`.
    #[inline]
    pub const fn cap(&self, entries: u64) -> u64 {
        entries.saturating_mul(self.per_entry as u64).saturating_add(self.extra as u64)
    }
}

/// Sentinels: entries that are in key order from the beginning and never leave it, so that every key has a predecessor.
/// There are `2^bits`, evenly spaced, at the first positions of the log; they are no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sentinels {
    bits: u8,
}

impl Default for Sentinels {
    /// 256: small states have short gaps, and key order splits into even parts.
    fn default() -> Self {
        Self { bits: 8 }
    }
}

impl Sentinels {
    /// Creates `2^bits` sentinels; `None` past 65,536.
    pub const fn new(bits: u8) -> Option<Self> {
        if bits <= 16 { Some(Self { bits }) } else { None }
    }

    /// Number of sentinels, at least one.
    pub const fn count(self) -> u64 {
        1 << self.bits
    }

    /// Name of sentinel `index`: the first two bytes of its hash, whose other bytes are zero.
    pub const fn name(self, index: u64) -> [u8; 2] {
        ((index << (16 - self.bits)) as u16).to_be_bytes()
    }

    /// Hash of a sentinel's name.
    pub const fn place(name: [u8; 2]) -> Hash {
        let mut hash = [0; 32];
        [hash[0], hash[1]] = name;
        hash
    }

    /// Entry of sentinel `index` before the first block; `name` is [`Self::name`].
    pub const fn entry(self, index: u64, name: &[u8; 2]) -> Entry<'_> {
        let last = index + 1 == self.count();
        let next = if last { RING_END } else { Self::place(self.name(index + 1)) };
        Entry { sentinel: true, key: name, value: &[], next, previous: None, height: 0 }
    }
}

impl Params {
    /// Length of [`Self::encode`], in bytes.
    pub const LEN: usize = 13;

    /// Default parameters with another hash function.
    pub fn with_hash(hash: HashFn) -> Self {
        Self { hash, ..Self::default() }
    }

    /// Canonical encoding: format, hash function, levels of a twig, sentinels, compaction.
    pub const fn encode(&self) -> [u8; Self::LEN] {
        let [a, b] = FORMAT.to_be_bytes();
        let Compaction { active, of, per_entry, extra } = self.compaction;
        let ([c, d], [e, f]) = (active.to_be_bytes(), of.to_be_bytes());
        let ([g, h], [i, j]) = (per_entry.to_be_bytes(), extra.to_be_bytes());
        [a, b, self.hash as u8, LEFT_LEVELS as u8, self.sentinels.bits, c, d, e, f, g, h, i, j]
    }

    /// Decodes parameters; `None` if this version of the crate does not know them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [_, _, hash, _, bits, c, d, e, f, g, h, i, j] = *bytes.first_chunk::<{ Self::LEN }>()?;
        let word = |hi, lo| u16::from_be_bytes([hi, lo]);
        let compaction = Compaction { active: word(c, d), of: word(e, f), per_entry: word(g, h), extra: word(i, j) };
        let params = Self { hash: HashFn::from_id(hash)?, compaction, sentinels: Sentinels::new(bits)? };
        (params.encode() == bytes && params.compaction.of > 0).then_some(params)
    }

    /// Digest of the parameters in a root.
    pub fn id(&self) -> Hash {
        self.hash.digest(&[&[domain::PARAMS], &self.encode()])
    }

    /// Root of a tree. It binds the shape, so that no two states share a root. `top` is the digest above all twigs.
    pub fn root(&self, shape: &Shape, top: &Hash) -> Hash {
        let Shape { next_sn, floor, active } = shape;
        let [next_sn, floor, active] = [next_sn, floor, active].map(|word| word.to_be_bytes());
        self.hash.digest(&[&[domain::ROOT], &self.id(), &next_sn, &floor, &active, top])
    }
}

/// Entry at a position of the log: a key got a value, or a new next key, at a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// True if it is a sentinel's.
    pub sentinel: bool,
    /// Key, at most [`MAX_KEY_LEN`] bytes; of a sentinel the name.
    pub key: &'a [u8],
    /// Value, at most [`MAX_VALUE_LEN`] bytes; empty is a value.
    pub value: &'a [u8],
    /// Hash of the next key in key order, without any key between; [`RING_END`] after the last.
    pub next: Hash,
    /// Previous position of the key; `None` if it did not exist.
    pub previous: Option<u64>,
    /// Height of the block that wrote it.
    pub height: u64,
}

impl<'a> Entry<'a> {
    /// Length of an encoded entry without key and value, in bytes: flags, key length, value length, next, previous.
    pub const HEADER: usize = 44;

    /// Hash of the entry's place in key order.
    #[inline]
    pub fn key_hash(&self, hash: HashFn) -> Hash {
        match (self.sentinel, self.key.first_chunk()) {
            (true, Some(name)) => Sentinels::place(*name),
            _ => hash.key(self.key),
        }
    }

    /// Appends the canonical encoding without the height: `flags || key_len || key || value_len || value || next ||
    /// previous`, integers big endian.
    ///
    /// `previous` is the position plus one, or zero for none. The height is left out because neighbours in the log
    /// share it.
    ///
    /// # Panics
    /// If key or value is longer than its maximum.
    #[inline]
    pub fn encode(&self, out: &mut impl for<'b> Extend<&'b u8>) {
        let (key_len, value_len) = self.lengths();
        out.extend(&[u8::from(self.sentinel), key_len]);
        // Bytes of a known length are copied without a call.
        match self.key.as_array::<20>() {
            Some(account) => out.extend(account),
            None => out.extend(self.key),
        }
        out.extend(&value_len);
        out.extend(self.value);
        out.extend(&self.next);
        out.extend(&self.previous_word());
    }

    /// Splits one canonical encoding off the front of `bytes`: the entry and the rest. `None` if `bytes` does not start
    /// with one.
    #[inline]
    pub fn decode(bytes: &'a [u8], height: u64) -> Option<(Self, &'a [u8])> {
        let ([flags, key_len], rest) = bytes.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(*key_len))?;
        let (value_len, rest) = rest.split_first_chunk::<2>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*value_len)))?;
        let (next, rest) = rest.split_first_chunk::<32>()?;
        let (previous, rest) = rest.split_first_chunk::<8>()?;
        let sentinel = match flags {
            0 => false,
            1 if key.len() == 2 && value.is_empty() => true,
            _ => return None,
        };
        let previous = u64::from_be_bytes(*previous).checked_sub(1);
        Some((Self { sentinel, key, value, next: *next, previous, height }, rest))
    }

    #[inline]
    fn lengths(&self) -> (u8, [u8; 2]) {
        let key_len = u8::try_from(self.key.len()).expect("keys are at most MAX_KEY_LEN bytes");
        let value_len = u16::try_from(self.value.len()).expect("values are at most MAX_VALUE_LEN bytes");
        (key_len, value_len.to_be_bytes())
    }

    #[inline]
    fn previous_word(&self) -> [u8; 8] {
        self.previous.map_or(0, |sn| sn + 1).to_be_bytes()
    }
}

impl HashFn {
    /// Digest that places a key in key order.
    #[inline]
    pub fn key(self, key: &[u8]) -> Hash {
        self.digest(&[&[domain::KEY], key])
    }

    /// Digest of an entry. With SHA-256 it takes two compressions up to 66 bytes of key and value together.
    ///
    /// # Panics
    /// If key or value is longer than its maximum.
    #[inline]
    pub fn leaf(self, entry: &Entry<'_>) -> Hash {
        let (key_len, value_len) = entry.lengths();
        let head = [domain::LEAF, u8::from(entry.sentinel), key_len];
        let (previous, height) = (entry.previous_word(), entry.height.to_be_bytes());
        self.digest(&[&head, entry.key, &value_len, entry.value, &entry.next, &previous, &height])
    }

    /// Appends the digests of entries, given by their canonical encodings ([`Entry::encode`]) and heights. Faster than
    /// one at a time.
    #[inline]
    pub fn leaves<'a>(self, entries: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8; 8])>, out: &mut Vec<Hash>) {
        let first = out.len();
        out.resize(first + entries.len(), EMPTY);
        let message =
            |(at, (entry, height)): (usize, (&'a [u8], &'a [u8; 8]))| (at, [&[domain::LEAF][..], entry, &height[..]]);
        self.digest_many(entries.enumerate().map(message), |at, digest| out[first + at] = digest);
    }

    /// Digest of an inner node at `level` with children one level below. Empty if both children are.
    #[inline]
    pub fn node(self, level: u8, left: &Hash, right: &Hash) -> Hash {
        if *left == EMPTY && *right == EMPTY {
            return EMPTY;
        }
        self.digest(&[&[domain::NODE, level], left, right])
    }

    /// Digests of neighbouring nodes at `level`: `parents[i]` of `children[2 i]` and `children[2 i + 1]`; a missing
    /// last child is empty.
    ///
    /// # Panics
    /// If there are not half as many parents as children, rounded up.
    pub fn nodes(self, level: u8, children: &[Hash], parents: &mut [Hash]) {
        assert_eq!(parents.len(), children.len().div_ceil(2));
        let tag = [domain::NODE, level];
        let pairs = children.chunks(2).map(|pair| [&pair[0], pair.get(1).unwrap_or(&EMPTY)]);
        let full = pairs.enumerate().filter(|(_, pair)| *pair != [&EMPTY; 2]);
        parents.fill(EMPTY);
        self.digest_many(full.map(|(at, [left, right])| (at, [&tag[..], left, right])), |at, digest| {
            parents[at] = digest
        });
    }

    /// Digest of a twig's active bits; position `i` is bit `i % 8` of byte `i / 8`.
    #[inline]
    pub fn bits(self, bitmap: &[u8; BITMAP_BYTES]) -> Hash {
        self.digest(&[&[domain::BITS], bitmap])
    }

    /// Appends the digests of twigs, given as to [`Self::twig`] and [`Self::bits`]. Faster than one at a time.
    pub fn twigs<'a>(
        self,
        twigs: impl ExactSizeIterator<Item = (&'a Hash, &'a [u8; BITMAP_BYTES])> + Clone,
        out: &mut Vec<Hash>,
    ) {
        let first = out.len();
        out.resize(first + twigs.len(), EMPTY);
        let mut bits = vec![EMPTY; twigs.len()];
        let bitmaps = twigs.clone().map(|(_, bitmap)| [&[domain::BITS][..], bitmap]);
        self.digest_many(bitmaps.enumerate(), |at, digest| bits[at] = digest);
        let pairs = twigs.zip(&bits).map(|((left, _), bits)| [&[domain::TWIG][..], left, bits]);
        self.digest_many(pairs.enumerate(), |at, digest| out[first + at] = digest);
    }

    /// Digest of a twig: of its leaves, and of its active bits.
    #[inline]
    pub fn twig(self, left: &Hash, bits: &Hash) -> Hash {
        self.digest(&[&[domain::TWIG], left, bits])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batched_twig_hashes_equal_single_ones() {
        let of = |at: u8| ([at; 32], [at.wrapping_mul(37) ^ 0x5a; BITMAP_BYTES]);
        let all: Vec<(Hash, [u8; BITMAP_BYTES])> = (0..70).map(of).collect();
        for hash in [HashFn::Sha256, HashFn::Keccak256, HashFn::Blake3] {
            for count in [0, 1, 2, 9, 16, 31, 32, 33, 65, 70] {
                let some = &all[..count];
                // Appended behind the present content.
                let mut digests = vec![[7; 32]];
                hash.twigs(some.iter().map(|(left, bits)| (left, bits)), &mut digests);
                let each = some.iter().map(|(left, bits)| hash.twig(left, &hash.bits(bits)));
                let expected: Vec<Hash> = core::iter::once([7; 32]).chain(each).collect();
                assert_eq!(digests, expected, "{hash:?}, {count}");
            }
        }
    }
}
