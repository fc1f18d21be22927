//! Addresses and secret keys of a load, derived from its seed.

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_consensus::crypto::secp256k1::public_key_to_address;
use alloy_primitives::{Address, B256, keccak256};
use rayon::prelude::*;
use secp256k1::{PublicKey, SECP256K1, SecretKey};

use crate::{per_account::DENSE, rng::mix};

/// Accounts of a load: addresses in lexicographic order and, with signatures on, the origin of their secret keys.
///
/// An account takes 20 bytes, 24 with keys: a key is derived again for every signature, from the index it came from. Without keys
/// more than 2^22 accounts take no memory: an address is computed from its position.
#[derive(Clone)]
pub struct Accounts {
    seed: u64,
    addresses: Addresses,
    /// `origins[i]` is the index whose key owns address `i`. Empty without signatures.
    origins: Vec<u32>,
}

/// Addresses by position.
///
/// # Invariants
/// Strictly rising.
#[derive(Clone)]
enum Addresses {
    Listed(Vec<Address>),
    /// This many, each computed.
    Computed(u32),
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts")
            .field("seed", &self.seed)
            .field("len", &self.len())
            .field("has_keys", &self.has_keys())
            .finish()
    }
}

/// Number of keys between two progress reports.
const REPORT_EVERY: u64 = 4096;

impl Accounts {
    /// Bytes per account with keys. The pairs that are sorted during derivation take as much again, and are freed
    /// before a genesis.
    pub(crate) const BYTES_PER_ACCOUNT: usize = size_of::<Address>() + size_of::<u32>();

    /// Derives addresses as hashes of their index, without keys. Sorting dominates: about 0.1 µs per account. Beyond
    /// [`DENSE`] accounts nothing is derived before its use.
    pub(crate) fn unsigned(seed: u64, count: u32) -> Self {
        if count as usize > DENSE {
            return Self { seed, addresses: Addresses::Computed(count), origins: Vec::new() };
        }
        let prefix = |index| mix(seed ^ ADDRESSES, u64::from(index));
        let mut addresses: Vec<_> = (0..count).into_par_iter().map(|index| address_of(prefix(index))).collect();
        addresses.par_sort_unstable();
        Self { seed, addresses: Addresses::Listed(addresses), origins: Vec::new() }
    }

    /// Derives addresses of secp256k1 keys in parallel in the current rayon pool, about 20 µs of a core per account.
    /// `progress` receives the number of finished keys, from any thread and not always in order.
    pub(crate) fn keyed(seed: u64, count: u32, progress: &(dyn Fn(u64) + Sync)) -> Self {
        let done = AtomicU64::new(0);
        let mut owned: Vec<_> = (0..count)
            .into_par_iter()
            .map(|index| {
                let (key, _) = secret(seed, index);
                let address = public_key_to_address(PublicKey::from_secret_key(SECP256K1, &key));
                // The counter is for display alone: it orders no memory.
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if done.is_multiple_of(REPORT_EVERY) || done == u64::from(count) {
                    progress(done);
                }
                (address, index)
            })
            .collect();
        owned.par_sort_unstable();
        let (addresses, origins) = owned.into_iter().unzip();
        Self { seed, addresses: Addresses::Listed(addresses), origins }
    }

    /// Address at a position of the lexicographic order: the first γ are the hot ones. O(1).
    ///
    /// # Panics
    /// If the load has fewer accounts.
    #[inline]
    pub fn address(&self, position: usize) -> Address {
        match &self.addresses {
            Addresses::Listed(addresses) => addresses[position],
            Addresses::Computed(count) => {
                assert!(position < *count as usize, "account {position} of {count}");
                self.computed(position as u32, *count)
            }
        }
    }

    /// Addresses in lexicographic order.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = Address> + Clone + '_ {
        (0..self.len()).map(|position| self.address(position))
    }

    /// Addresses in lexicographic order, for the current rayon pool.
    pub(crate) fn par_addresses(&self) -> impl IndexedParallelIterator<Item = Address> + '_ {
        (0..self.len()).into_par_iter().map(|position| self.address(position))
    }

    /// Number of accounts.
    pub const fn len(&self) -> usize {
        match &self.addresses {
            Addresses::Listed(addresses) => addresses.len(),
            Addresses::Computed(count) => *count as usize,
        }
    }

    /// True if there is no account; a load has at least two.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position of `address` in the order, if it belongs to the load. O(log accounts), or O(1) if addresses are computed.
    pub fn position(&self, address: &Address) -> Option<usize> {
        match &self.addresses {
            Addresses::Listed(addresses) => addresses.binary_search(address).ok(),
            Addresses::Computed(count) => {
                let prefix = address.first_chunk().map_or(0, |prefix| u64::from_be_bytes(*prefix));
                // No more than 32 bits are left.
                let position = (prefix >> rest_bits(*count)) as u32;
                (position < *count && self.computed(position, *count) == *address).then_some(position as usize)
            }
        }
    }

    /// Address whose first bits are its position, so that addresses rise, and whose others are hashed.
    #[inline]
    fn computed(&self, position: u32, count: u32) -> Address {
        let (bits, hashed) = (rest_bits(count), mix(self.seed ^ ADDRESSES, u64::from(position)));
        address_of((u64::from(position) << bits) | (hashed & ((1 << bits) - 1)))
    }

    /// True if the accounts have secret keys.
    pub const fn has_keys(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Secret key of the account at `position`, if the accounts have keys.
    pub(crate) fn secret(&self, position: usize) -> Option<B256> {
        self.origins.get(position).map(|origin| secret(self.seed, *origin).1)
    }
}

/// Stream of the random words that addresses are made of.
const ADDRESSES: u64 = 0x6164_6472_6573_7300;

/// Bits of the first eight bytes of a computed address below its position: 32 to 63.
const fn rest_bits(count: u32) -> u32 {
    // A load of one account has a bit for its position as well.
    32 + (count.saturating_sub(1) | 1).leading_zeros()
}

/// Address with a prefix of its own, so that no two accounts share one.
fn address_of(prefix: u64) -> Address {
    let mut address = Address::ZERO;
    address[..8].copy_from_slice(&prefix.to_be_bytes());
    address[8..16].copy_from_slice(&mix(prefix, 1).to_be_bytes());
    address[16..].copy_from_slice(&mix(prefix, 2).to_be_bytes()[..4]);
    address
}

/// Secret key `index` of a seed: a hash of both. The key is public knowledge, so these accounts must never hold real
/// value.
fn secret(seed: u64, index: u32) -> (SecretKey, B256) {
    let mut attempt = 0u64;
    loop {
        let mut preimage = *b"phalanx-workloads/key/--------------------";
        let at = preimage.len() - 20;
        preimage[at..at + 8].copy_from_slice(&seed.to_be_bytes());
        preimage[at + 8..at + 12].copy_from_slice(&index.to_be_bytes());
        preimage[at + 12..].copy_from_slice(&attempt.to_be_bytes());
        let hash = keccak256(preimage);
        // One hash in 2^128 is zero or not below the curve's order.
        if let Ok(key) = SecretKey::from_slice(hash.as_slice()) {
            return (key, hash);
        }
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinct_sorted_and_found() {
        let hits = AtomicU64::new(0);
        for accounts in [
            Accounts::unsigned(1, 20_000),
            Accounts { seed: 1, addresses: Addresses::Computed(20_000), origins: Vec::new() },
            Accounts::keyed(1, 500, &|done| {
                hits.fetch_max(done, Ordering::Relaxed);
            }),
        ] {
            assert!(accounts.addresses().is_sorted_by(|a, b| a < b));
            assert!(accounts.addresses().eq(accounts.par_addresses().collect::<Vec<_>>()));
            for position in [0, 17, accounts.len() - 1] {
                assert_eq!(accounts.position(&accounts.address(position)), Some(position));
                assert_eq!(accounts.secret(position).is_some(), accounts.has_keys());
            }
            assert_eq!(accounts.position(&Address::ZERO), None);
            assert_eq!(accounts.position(&Address::repeat_byte(0xff)), None);
        }
        assert_eq!(hits.into_inner(), 500, "progress reaches the end");
    }

    #[test]
    fn a_large_load_computes_its_addresses() {
        for (count, bits) in [(DENSE as u32 + 1, 41), (1 << 28, 36), ((1 << 28) + 1, 35), (u32::MAX, 32)] {
            let accounts = Accounts::unsigned(7, count);
            assert!(matches!(accounts.addresses, Addresses::Computed(_)) && rest_bits(count) == bits);
            assert_eq!(accounts.len(), count as usize);
            for position in [0, 1, 12_345, count as usize - 1] {
                let address = accounts.address(position);
                assert_eq!(accounts.position(&address), Some(position));
                assert_eq!(accounts.position(&Address::from_word(keccak256(address))), None);
                assert_eq!(Accounts::unsigned(8, count).position(&address), None, "another seed");
            }
        }
    }

    #[test]
    fn seeds_share_no_account() {
        let (a, b) = (Accounts::unsigned(1, 1_000), Accounts::unsigned(2, 1_000));
        assert!(a.addresses().all(|address| b.position(&address).is_none()));
        assert_ne!(secret(1, 7).1, secret(2, 7).1);
        assert_ne!(secret(1, 7).1, secret(1, 8).1);
    }
}
