//! Interns the keys of a block: gives each a dense id.

use crate::digest::{Key, Salt};
use phalanx_memory::prefetch;

/// Id of a key in one block, dense from zero. Meaningful only with the [`Interner`] that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

impl KeyId {
    /// The id as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Gives every distinct key of a block a dense [`KeyId`], in order of first appearance.
///
/// Open addressing over words of a digest tag and an id. A tag match is confirmed by a comparison of the full keys, so two
/// keys with equal digests get two ids. Expected O(1) per key.
#[derive(Debug)]
pub struct Interner<K> {
    salt: Salt,
    /// `tag << 32 | id + 1`, zero when free. Length is a power of two.
    table: Vec<u64>,
    keys: Vec<K>,
}

const TAG: u64 = 0xffff_ffff_0000_0000;

impl<K: Key> Interner<K> {
    /// Creates an interner whose digests are keyed by `salt`.
    pub fn new(salt: Salt) -> Self {
        Self { salt, table: vec![0; 1024], keys: Vec::new() }
    }

    /// Salt of this interner's digests.
    pub const fn salt(&self) -> &Salt {
        &self.salt
    }

    /// Returns the id of `key`, and adds the key if it is new. Computes its digest.
    ///
    /// # Panics
    /// If the block has 2^32 - 1 distinct keys.
    #[inline]
    pub fn intern(&mut self, key: &K) -> KeyId {
        self.intern_digested(key, key.digest(&self.salt))
    }

    /// Interns like [`Self::intern`], for a caller that has the digest under this interner's salt.
    #[inline]
    pub fn intern_digested(&mut self, key: &K, digest: u64) -> KeyId {
        match self.probe(key, digest) {
            Ok(id) => id,
            Err(at) => self.insert(key, digest, at),
        }
    }

    /// Prefetches the place of the table at which a lookup of this digest begins.
    #[inline]
    pub fn prefetch(&self, digest: u64) {
        prefetch(&self.table[digest as usize & (self.table.len() - 1)]);
    }

    /// Returns the id of `key`, if it was interned.
    #[inline]
    pub fn find(&self, key: &K) -> Option<KeyId> {
        self.probe(key, key.digest(&self.salt)).ok()
    }

    /// Returns the id of `key`, or the index of the free place for it.
    #[inline]
    fn probe(&self, key: &K, digest: u64) -> Result<KeyId, usize> {
        let mask = self.table.len() - 1;
        let mut at = digest as usize & mask;
        loop {
            let word = self.table[at];
            if word == 0 {
                return Err(at);
            }
            if (word ^ digest) & TAG == 0 {
                let id = (word as u32) - 1;
                if self.keys[id as usize] == *key {
                    return Ok(KeyId(id));
                }
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, key: &K, digest: u64, at: usize) -> KeyId {
        let id = u32::try_from(self.keys.len()).ok().filter(|id| *id < u32::MAX).expect("fewer than 2^32 - 1 keys");
        self.keys.push(*key);
        self.table[at] = (digest & TAG) | u64::from(id + 1);
        if self.keys.len() * 2 > self.table.len() {
            self.rebuild(self.table.len() * 2);
        }
        KeyId(id)
    }

    #[cold]
    fn rebuild(&mut self, len: usize) {
        self.table.clear();
        self.table.resize(len, 0);
        let mask = len - 1;
        for (id, key) in self.keys.iter().enumerate() {
            let digest = key.digest(&self.salt);
            let mut at = digest as usize & mask;
            while self.table[at] != 0 {
                at = (at + 1) & mask;
            }
            self.table[at] = (digest & TAG) | (id as u64 + 1);
        }
    }

    /// The keys by id.
    #[inline]
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// Number of distinct keys.
    #[inline]
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if no key was interned.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Removes all keys and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.table.fill(0);
    }

    /// Moves the keys, by id, to `keys`, and empties the interner for the next block. That block uses the old memory of `keys`.
    pub fn take_keys(&mut self, keys: &mut Vec<K>) {
        keys.clear();
        core::mem::swap(&mut self.keys, keys);
        self.table.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dense_stable_and_survive_growth() {
        let mut interner = Interner::new(Salt::new(9));
        for round in 0..3 {
            for key in 0..5_000u64 {
                assert_eq!(interner.intern(&(key * 7)), KeyId(key as u32), "round {round}");
            }
        }
        assert_eq!(interner.len(), 5_000);
        assert_eq!(interner.find(&7), Some(KeyId(1)));
        assert_eq!(interner.find(&8), None);
        let mut keys = Vec::new();
        interner.take_keys(&mut keys);
        assert_eq!(keys.len(), 5_000);
        assert!(interner.is_empty());
        assert_eq!(interner.find(&7), None);
        assert_eq!(interner.intern(&8), KeyId(0));
    }

    /// A key whose digests all collide.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Colliding(u32);

    impl Key for Colliding {
        fn digest(&self, _: &Salt) -> u64 {
            42
        }
    }

    #[test]
    fn equal_digests_never_merge_keys() {
        let mut interner = Interner::new(Salt::new(0));
        let ids: Vec<_> = (0..600).map(|k| interner.intern(&Colliding(k))).collect();
        assert_eq!(ids, (0..600).map(KeyId).collect::<Vec<_>>());
        assert_eq!(interner.intern(&Colliding(599)), KeyId(599));
    }
}
