use crate::{BITMAP_BYTES, EMPTY, Hash, HashFn, LEFT_LEVELS};

/// Version of the commitment and of everything that encodes it. A change of any preimage changes this number.
pub const FORMAT: u16 = 1;

/// Longest key, in bytes.
pub const MAX_KEY_LEN: usize = u8::MAX as usize;

/// Longest value, in bytes.
pub const MAX_VALUE_LEN: usize = u16::MAX as usize;

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
}

impl Params {
    /// The canonical bytes: format, hash function, levels of a twig.
    pub const fn encode(&self) -> [u8; 4] {
        let [hi, lo] = FORMAT.to_be_bytes();
        [hi, lo, self.hash as u8, LEFT_LEVELS as u8]
    }

    /// The parameters that encode to `bytes`, if this version of the crate knows them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let params = Self { hash: HashFn::from_id(*bytes.get(2)?)? };
        (params.encode() == bytes).then_some(params)
    }

    /// The digest that stands for these parameters in a root.
    pub fn id(&self) -> Hash {
        self.hash.digest(&[&[domain::PARAMS], &self.encode()])
    }

    /// The root: it binds the shape (`next_sn` positions, of which `active_count` hold current values), so that no two
    /// states share a root.
    pub fn root(&self, next_sn: u64, active_count: u64, upper: &Hash) -> Hash {
        self.hash.digest(&[&[domain::ROOT], &self.id(), &next_sn.to_be_bytes(), &active_count.to_be_bytes(), upper])
    }
}

/// A key that got a value at a height: the content of one position of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key, at most [`MAX_KEY_LEN`] bytes.
    pub key: &'a [u8],
    /// The value, at most [`MAX_VALUE_LEN`] bytes; empty is a value.
    pub value: &'a [u8],
    /// The block that wrote it.
    pub height: u64,
}

impl<'a> Entry<'a> {
    /// Bytes of an encoded entry besides key and value: flags, key length, value length.
    pub const HEADER: usize = 4;

    /// Appends the canonical encoding without the height: `flags || key_len || key || value_len || value`, integers big
    /// endian. The height is left out because neighbours in the log share it.
    ///
    /// # Panics
    /// If key or value is longer than its maximum.
    #[inline]
    pub fn encode(&self, out: &mut impl for<'b> Extend<&'b u8>) {
        let (key_len, value_len) = self.lengths();
        out.extend(&[0, key_len]);
        out.extend(self.key);
        out.extend(&value_len);
        out.extend(self.value);
    }

    /// Splits one canonical encoding off the front of `bytes`: the entry, and what follows it. `None` if `bytes` does
    /// not start with one.
    #[inline]
    pub fn decode(bytes: &'a [u8], height: u64) -> Option<(Self, &'a [u8])> {
        let ([flags, key_len], rest) = bytes.split_first_chunk::<2>()?;
        if *flags != 0 {
            return None;
        }
        let (key, rest) = rest.split_at_checked(usize::from(*key_len))?;
        let (value_len, rest) = rest.split_first_chunk::<2>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*value_len)))?;
        Some((Self { key, value, height }, rest))
    }

    #[inline]
    fn lengths(&self) -> (u8, [u8; 2]) {
        let key_len = u8::try_from(self.key.len()).expect("keys are at most MAX_KEY_LEN bytes");
        let value_len = u16::try_from(self.value.len()).expect("values are at most MAX_VALUE_LEN bytes");
        (key_len, value_len.to_be_bytes())
    }
}

impl HashFn {
    /// The digest that places a key in the order of a block's delta.
    #[inline]
    pub fn key(self, key: &[u8]) -> Hash {
        self.digest(&[&[domain::KEY], key])
    }

    /// The digest of an entry. With SHA-256 it takes two compressions up to 106 bytes of key and value together.
    ///
    /// # Panics
    /// If key or value is longer than its maximum.
    #[inline]
    pub fn leaf(self, entry: &Entry<'_>) -> Hash {
        let (key_len, value_len) = entry.lengths();
        let head = [domain::LEAF, 0, key_len];
        self.digest(&[&head, entry.key, &value_len, entry.value, &entry.height.to_be_bytes()])
    }

    /// Appends the digests of entries in their canonical encoding ([`Entry::encode`]), two at a time.
    #[inline]
    pub fn leaves<'a>(self, mut entries: impl Iterator<Item = &'a [u8]>, height: u64, out: &mut impl Extend<Hash>) {
        let height = height.to_be_bytes();
        while let Some(first) = entries.next() {
            let first: [&[u8]; 3] = [&[domain::LEAF], first, &height];
            match entries.next() {
                Some(second) => out.extend(self.digest_two([&first, &[&[domain::LEAF], second, &height]])),
                None => out.extend([self.digest(&first)]),
            }
        }
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
        let tag: &[u8] = &[domain::NODE, level];
        let (quads, rest) = children.as_chunks::<4>();
        let (pairs, last) = parents.split_at_mut(quads.len() * 2);
        for (pair, [a, b, c, d]) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(quads) {
            // Subtrees fill from the left, so an empty one ends what is worth pairing.
            *pair = if *c == EMPTY {
                [self.node(level, a, b), self.node(level, c, d)]
            } else {
                self.digest_two([&[tag, a, b], &[tag, c, d]])
            };
        }
        for (parent, pair) in last.iter_mut().zip(rest.chunks(2)) {
            *parent = self.node(level, &pair[0], pair.get(1).unwrap_or(&EMPTY));
        }
    }

    /// The digest of a twig's active bits; position `i` is bit `i % 8` of byte `i / 8`.
    #[inline]
    pub fn bits(self, bitmap: &[u8; BITMAP_BYTES]) -> Hash {
        self.digest(&[&[domain::BITS], bitmap])
    }

    /// The digest of a twig: what its positions hold, and which of them are active.
    #[inline]
    pub fn twig(self, left: &Hash, bits: &Hash) -> Hash {
        self.digest(&[&[domain::TWIG], left, bits])
    }
}
