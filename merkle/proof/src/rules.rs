use alloc::{vec, vec::Vec};

use crate::{BITMAP_BYTES, EMPTY, Hash, HashFn, LEFT_LEVELS};

/// Version of the commitment and of everything that encodes it. A change of any preimage changes this number.
pub const FORMAT: u16 = 2;

/// Longest key, in bytes.
pub const MAX_KEY_LEN: usize = u8::MAX as usize;

/// Longest value, in bytes.
pub const MAX_VALUE_LEN: usize = u16::MAX as usize;

/// What the last entry in order of key hash names as its next: the end of the ring. No key hashes to it.
pub const RING_END: Hash = [0xff; 32];

/// One domain byte per kind of preimage: no digest of one kind can be passed off as another.
mod domain {
    pub(super) const LEAF: u8 = 0;
    pub(super) const NODE: u8 = 1;
    pub(super) const BITS: u8 = 2;
    pub(super) const TWIG: u8 = 3;
    pub(super) const ROOT: u8 = 4;
    pub(super) const KEY: u8 = 5;
    pub(super) const PARAMS: u8 = 6;
}

/// What fixes the meaning of a root. Chosen at genesis, bound into every root, never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Params {
    /// The hash function of every digest.
    pub hash: HashFn,
    /// When old entries move up.
    pub compaction: Compaction,
    /// How the ring of keys is seeded.
    pub sentinels: Sentinels,
}

/// When a block moves old entries up to the end of the log, so that the log's beginning can be dropped.
///
/// After its own entries, a block moves the oldest active entries up while fewer than `active` in `of` positions from the
/// floor on are active, at most `per_entry` for each entry that it appended and `extra` more. A block that appends
/// nothing moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compaction {
    /// Numerator of the aimed-at share of active positions; zero never moves anything.
    pub active: u16,
    /// Its denominator.
    pub of: u16,
    /// Most moves per appended entry.
    pub per_entry: u16,
    /// And these per block.
    pub extra: u16,
}

impl Default for Compaction {
    /// Half: a quarter of a move per random update, and a log of twice the state. Two moves per entry reach any aim.
    fn default() -> Self {
        Self { active: 1, of: 2, per_entry: 2, extra: 64 }
    }
}

impl Compaction {
    /// Whether a log of `span` positions from the floor on, `active` of which are active, has moves to make.
    #[inline]
    pub const fn is_due(&self, active: u64, span: u64) -> bool {
        active as u128 * (self.of as u128) < span as u128 * self.active as u128
    }

    /// Most moves of a block that appended `entries`.
    #[inline]
    pub const fn cap(&self, entries: u64) -> u64 {
        entries.saturating_mul(self.per_entry as u64).saturating_add(self.extra as u64)
    }
}

/// Entries that are in the ring from the beginning and never leave it: every key has a predecessor. They are evenly
/// spaced, `2^bits` of them, at the first positions of the log; they are no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sentinels {
    bits: u8,
}

impl Default for Sentinels {
    /// 256: small states have short gaps, and order of key hash splits into even parts.
    fn default() -> Self {
        Self { bits: 8 }
    }
}

impl Sentinels {
    /// `2^bits` sentinels; `None` past 65,536.
    pub const fn new(bits: u8) -> Option<Self> {
        if bits <= 16 { Some(Self { bits }) } else { None }
    }

    /// How many there are, at least one.
    pub const fn count(self) -> u64 {
        1 << self.bits
    }

    /// The name of sentinel `index`: the first two bytes of the hash that it stands at, all others being zero.
    pub const fn name(self, index: u64) -> [u8; 2] {
        ((index << (16 - self.bits)) as u16).to_be_bytes()
    }

    /// The hash that a sentinel's name stands at.
    pub const fn place(name: [u8; 2]) -> Hash {
        let mut hash = [0; 32];
        [hash[0], hash[1]] = name;
        hash
    }

    /// The entry of sentinel `index` before the first block; `name` is [`Self::name`].
    pub const fn entry(self, index: u64, name: &[u8; 2]) -> Entry<'_> {
        let last = index + 1 == self.count();
        let next = if last { RING_END } else { Self::place(self.name(index + 1)) };
        Entry { sentinel: true, key: name, value: &[], next, previous: None, height: 0 }
    }
}

impl Params {
    /// Bytes of [`Self::encode`].
    pub const LEN: usize = 13;

    /// Default parameters with another hash function.
    pub fn with_hash(hash: HashFn) -> Self {
        Self { hash, ..Self::default() }
    }

    /// The canonical bytes: format, hash function, levels of a twig, sentinels, compaction.
    pub const fn encode(&self) -> [u8; Self::LEN] {
        let [a, b] = FORMAT.to_be_bytes();
        let Compaction { active, of, per_entry, extra } = self.compaction;
        let ([c, d], [e, f]) = (active.to_be_bytes(), of.to_be_bytes());
        let ([g, h], [i, j]) = (per_entry.to_be_bytes(), extra.to_be_bytes());
        [a, b, self.hash as u8, LEFT_LEVELS as u8, self.sentinels.bits, c, d, e, f, g, h, i, j]
    }

    /// The parameters that encode to `bytes`, if this version of the crate knows them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [_, _, hash, _, bits, c, d, e, f, g, h, i, j] = *bytes.first_chunk::<{ Self::LEN }>()?;
        let word = |hi, lo| u16::from_be_bytes([hi, lo]);
        let compaction = Compaction { active: word(c, d), of: word(e, f), per_entry: word(g, h), extra: word(i, j) };
        let params = Self { hash: HashFn::from_id(hash)?, compaction, sentinels: Sentinels::new(bits)? };
        (params.encode() == bytes && params.compaction.of > 0).then_some(params)
    }

    /// The digest that stands for these parameters in a root.
    pub fn id(&self) -> Hash {
        self.hash.digest(&[&[domain::PARAMS], &self.encode()])
    }

    /// The root: it binds the shape, so that no two states share a root. `top` is the digest above all twigs.
    pub fn root(&self, shape: &Shape, top: &Hash) -> Hash {
        let Shape { next_sn, floor, active } = shape;
        let [next_sn, floor, active] = [next_sn, floor, active].map(|word| word.to_be_bytes());
        self.hash.digest(&[&[domain::ROOT], &self.id(), &next_sn, &floor, &active, top])
    }
}

/// What a root says of the log besides its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Positions that were ever used.
    pub next_sn: u64,
    /// No position below it is active. Twigs that lie below it wholly are empty, whatever they held.
    pub floor: u64,
    /// Active positions, sentinels included.
    pub active: u64,
}

/// The content of one position of the log: a key got a value, or a new next key, at a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Whether it is a sentinel's.
    pub sentinel: bool,
    /// The key, at most [`MAX_KEY_LEN`] bytes; of a sentinel its name.
    pub key: &'a [u8],
    /// The value, at most [`MAX_VALUE_LEN`] bytes; empty is a value.
    pub value: &'a [u8],
    /// The hash of the next key in order of key hash: there is none in between. [`RING_END`] after the last.
    pub next: Hash,
    /// The position that held the key before; `None` if it was not there.
    pub previous: Option<u64>,
    /// The block that wrote it.
    pub height: u64,
}

impl<'a> Entry<'a> {
    /// Bytes of an encoded entry besides key and value: flags, key length, value length, next, previous.
    pub const HEADER: usize = 44;

    /// Where the entry stands in the ring.
    #[inline]
    pub fn key_hash(&self, hash: HashFn) -> Hash {
        match (self.sentinel, self.key.first_chunk()) {
            (true, Some(name)) => Sentinels::place(*name),
            _ => hash.key(self.key),
        }
    }

    /// Appends the canonical encoding without the height: `flags || key_len || key || value_len || value || next ||
    /// previous`, integers big endian; `previous` is zero for none and else the position plus one. The height is left
    /// out because neighbours in the log share it.
    ///
    /// # Panics
    /// If key or value is longer than its maximum.
    #[inline]
    pub fn encode(&self, out: &mut impl for<'b> Extend<&'b u8>) {
        let (key_len, value_len) = self.lengths();
        out.extend(&[u8::from(self.sentinel), key_len]);
        // Of a length that is known, bytes are copied without a call.
        match self.key.as_array::<20>() {
            Some(account) => out.extend(account),
            None => out.extend(self.key),
        }
        out.extend(&value_len);
        out.extend(self.value);
        out.extend(&self.next);
        out.extend(&self.previous_word());
    }

    /// Splits one canonical encoding off the front of `bytes`: the entry, and what follows it. `None` if `bytes` does
    /// not start with one.
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
    /// The digest that places a key in the ring.
    #[inline]
    pub fn key(self, key: &[u8]) -> Hash {
        self.digest(&[&[domain::KEY], key])
    }

    /// The digest of an entry. With SHA-256 it takes two compressions up to 66 bytes of key and value together.
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

    /// Appends the digests of entries, each given by its canonical encoding ([`Entry::encode`]), written by blocks of these
    /// heights; faster than one after the other.
    #[inline]
    pub fn leaves<'a>(self, entries: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8; 8])>, out: &mut Vec<Hash>) {
        let first = out.len();
        out.resize(first + entries.len(), EMPTY);
        let message =
            |(at, (entry, height)): (usize, (&'a [u8], &'a [u8; 8]))| (at, [&[domain::LEAF][..], entry, &height[..]]);
        self.digest_many(entries.enumerate().map(message), |at, digest| out[first + at] = digest);
    }

    /// The digest of an inner node at `level`, its children being one below. Empty if both children are.
    #[inline]
    pub fn node(self, level: u8, left: &Hash, right: &Hash) -> Hash {
        if *left == EMPTY && *right == EMPTY {
            return EMPTY;
        }
        self.digest(&[&[domain::NODE, level], left, right])
    }

    /// The digests of neighbouring nodes at `level`: `parents[i]` of `children[2 i]` and `children[2 i + 1]`; a missing
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

    /// The digest of a twig's active bits; position `i` is bit `i % 8` of byte `i / 8`.
    #[inline]
    pub fn bits(self, bitmap: &[u8; BITMAP_BYTES]) -> Hash {
        self.digest(&[&[domain::BITS], bitmap])
    }

    /// Appends the digests of twigs, each given as [`Self::twig`] and [`Self::bits`] take it; faster than one after the other.
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

    /// The digest of a twig: what its positions hold, and which of them are active.
    #[inline]
    pub fn twig(self, left: &Hash, bits: &Hash) -> Hash {
        self.digest(&[&[domain::TWIG], left, bits])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twigs_at_a_time_equal_one_at_a_time() {
        let of = |at: u8| ([at; 32], [at.wrapping_mul(37) ^ 0x5a; BITMAP_BYTES]);
        let all: Vec<(Hash, [u8; BITMAP_BYTES])> = (0..70).map(of).collect();
        for hash in [HashFn::Sha256, HashFn::Keccak256, HashFn::Blake3] {
            for count in [0, 1, 2, 9, 16, 31, 32, 33, 65, 70] {
                let some = &all[..count];
                // Behind what is there.
                let mut digests = vec![[7; 32]];
                hash.twigs(some.iter().map(|(left, bits)| (left, bits)), &mut digests);
                let each = some.iter().map(|(left, bits)| hash.twig(left, &hash.bits(bits)));
                let expected: Vec<Hash> = core::iter::once([7; 32]).chain(each).collect();
                assert_eq!(digests, expected, "{hash:?}, {count}");
            }
        }
    }
}
