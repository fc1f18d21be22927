//! Recovered transactions by hash, shared by all threads and bounded in bytes.

use super::{RecoveredTx, Recovery};
use alloy_primitives::{B256, map::B256Map};
use parking_lot::Mutex;
use phalanx_access::Salt;
use std::{collections::VecDeque, sync::Arc};

/// Number of shards, with a lock each, so that threads rarely contend.
const SHARDS: usize = 64;

/// Places for digests of blobs whose proofs hold. A new one takes the place of one before.
const PROVEN: usize = 1 << 10;

/// Number of turns of dropped entries that a shard keeps in any case.
const TURNS: usize = 32;

/// Overhead of an entry beside its transaction, in bytes: its places in map and queue.
const OVERHEAD: usize = 160;

/// Recovered transactions by the hash of their bytes.
///
/// **No false entry.** The key is the Keccak-256 of all bytes that the value was decoded from, a value is a function
/// of these bytes alone, and only [`Recovery`](super::Recovery) inserts values. Failures are not kept, so they evict
/// nothing in any number.
///
/// **Memory** is bounded in bytes. A service drops the transactions of blocks that it keeps whole no more: what is left are those that
/// may come again. A full shard evicts its oldest entry, except entries that were read since their
/// last turn (second chance). So transactions that are seen once do not evict transactions that are seen again. To
/// evict an entry takes transactions with valid signatures. A hash finds its shard through a secret salt, so no shard
/// can be chosen for an attack.
///
/// O(1) amortised per operation, one short lock.
#[derive(Debug)]
pub struct RecoveryCache {
    shards: Box<[Mutex<Shard>]>,
    proven: Mutex<Proven>,
    /// Maximum size of one shard, in bytes.
    share: usize,
    salt: Salt,
}

/// Digests of encodings with blobs whose proofs hold.
#[derive(Debug)]
struct Proven {
    places: Box<[B256]>,
    hits: u64,
}

#[derive(Debug, Default)]
struct Shard {
    map: B256Map<Entry>,
    /// Keys of the map, each once in the turn that its entry names, and turns of dropped entries.
    queue: VecDeque<(u64, B256)>,
    /// Number of turns so far.
    turns: u64,
    stats: CacheStats,
}

#[derive(Debug)]
struct Entry {
    tx: Arc<RecoveredTx>,
    /// Turn of the queue that is the entry's.
    turn: u64,
    /// True if the entry was read since it was inserted or had its last turn.
    used: bool,
}

/// Counters of a cache since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Look-ups that found their transaction: signatures saved.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Blob transactions whose proofs were not checked anew, as the same bytes came before.
    pub proven: u64,
    /// Transactions evicted.
    pub evicted: u64,
    /// Number of transactions in the cache.
    pub entries: usize,
    /// Bytes in the cache, overhead included.
    pub bytes: usize,
}

impl RecoveryCache {
    /// Creates an empty cache for at most `max_bytes`, overhead included. `salt` must be random in production.
    pub fn new(max_bytes: usize, salt: Salt) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let proven = Proven { places: vec![B256::ZERO; PROVEN].into(), hits: 0 };
        Self { shards, proven: Mutex::new(proven), share: max_bytes / SHARDS, salt }
    }

    /// The transaction whose bytes have this hash.
    pub fn get(&self, hash: &B256) -> Option<Arc<RecoveredTx>> {
        let Shard { map, stats, .. } = &mut *self.shard(hash).lock();
        let found = map.get_mut(hash).map(|entry| {
            entry.used = true;
            Arc::clone(&entry.tx)
        });
        *if found.is_some() { &mut stats.hits } else { &mut stats.misses } += 1;
        found
    }

    /// Inserts `tx` and returns the shared value, which is the first one inserted. A transaction above a shard's size
    /// is not kept.
    pub(super) fn keep(&self, tx: Arc<RecoveredTx>) -> Arc<RecoveredTx> {
        let shard = &mut *self.shard(tx.hash()).lock();
        if let Some(entry) = shard.map.get(tx.hash()) {
            return Arc::clone(&entry.tx);
        }
        let size = tx.size() + OVERHEAD;
        if size <= self.share {
            while shard.stats.bytes + size > self.share {
                shard.give_turn();
            }
            let turn = shard.next_turn(*tx.hash());
            shard.map.insert(*tx.hash(), Entry { tx: Arc::clone(&tx), turn, used: false });
            shard.stats.bytes += size;
            shard.stats.entries += 1;
        }
        tx
    }

    /// Drops these transactions.
    fn forget(&self, hashes: &[B256]) {
        for hash in hashes {
            self.shard(hash).lock().remove(hash);
        }
    }

    /// Sums the counters of all shards. O(1).
    pub fn stats(&self) -> CacheStats {
        let first = CacheStats { proven: self.proven.lock().hits, ..CacheStats::default() };
        self.shards.iter().fold(first, |sum, shard| {
            let CacheStats { hits, misses, proven, evicted, entries, bytes } = shard.lock().stats;
            CacheStats {
                proven: sum.proven + proven,
                hits: sum.hits + hits,
                misses: sum.misses + misses,
                evicted: sum.evicted + evicted,
                entries: sum.entries + entries,
                bytes: sum.bytes + bytes,
            }
        })
    }

    /// Checks proofs of blobs by `check`, unless the same bytes were checked before. `digest` is their Keccak-256.
    pub(super) fn prove<E>(&self, digest: B256, check: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let place = self.salted(&digest) as usize % PROVEN;
        {
            let proven = &mut *self.proven.lock();
            if proven.places[place] == digest {
                proven.hits += 1;
                return Ok(());
            }
        }
        check()?;
        self.proven.lock().places[place] = digest;
        Ok(())
    }

    fn shard(&self, hash: &B256) -> &Mutex<Shard> {
        &self.shards[self.salted(hash) as usize % SHARDS]
    }

    fn salted(&self, hash: &B256) -> u64 {
        let words = hash.0.as_chunks::<8>().0;
        self.salt.digest3([0, 1, 2].map(|word| u64::from_le_bytes(words[word])))
    }
}

impl Recovery {
    /// Drops transactions from the cache that need not be recovered again.
    pub(crate) fn forget(&self, hashes: &[B256]) {
        if let Some(cache) = &self.cache {
            cache.forget(hashes);
        }
    }

    /// Counters of the cache; zeros without one.
    pub(crate) fn cache_stats(&self) -> CacheStats {
        self.cache.as_ref().map(|cache| cache.stats()).unwrap_or_default()
    }
}

impl Shard {
    fn next_turn(&mut self, hash: B256) -> u64 {
        self.turns += 1;
        self.queue.push_back((self.turns, hash));
        self.turns
    }

    /// Evicts the first entry of the queue, or moves it to the end if it was used and marks it unused: the second
    /// round at the latest evicts one.
    fn give_turn(&mut self) {
        let Some((turn, hash)) = self.queue.pop_front() else { return };
        let Some(entry) = self.map.get_mut(&hash).filter(|entry| entry.turn == turn) else { return };
        if core::mem::take(&mut entry.used) {
            entry.turn = self.turns + 1;
            self.next_turn(hash);
        } else {
            self.remove(&hash);
            self.stats.evicted += 1;
        }
    }

    fn remove(&mut self, hash: &B256) {
        let Some(entry) = self.map.remove(hash) else { return };
        self.stats.bytes -= entry.tx.size() + OVERHEAD;
        self.stats.entries -= 1;
        // Turns of dropped entries are at most as many as the others.
        if self.queue.len() > 2 * self.map.len() + TURNS {
            let Self { map, queue, .. } = self;
            queue.retain(|(turn, hash)| map.get(hash).is_some_and(|entry| entry.turn == *turn));
            queue.shrink_to(2 * map.len() + TURNS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::ChainSpec;
    use crate::recovery::Form;
    use alloy_consensus::{SignableTransaction as _, TxEip1559, TxEnvelope};
    use alloy_eips::Encodable2718 as _;
    use alloy_primitives::Signature;
    use revm::primitives::hardfork::SpecId;

    #[test]
    fn turns_of_dropped_transactions_take_no_memory() {
        let cache = Arc::new(RecoveryCache::new(64 << 20, Salt::new(5)));
        let recovery = Recovery::new(ChainSpec::mainnet(), SpecId::OSAKA).with_cache(Arc::clone(&cache));
        let recover = |nonce| {
            let tx = TxEip1559 { chain_id: 1, nonce, gas_limit: 21_000, ..TxEip1559::default() };
            let tx = TxEnvelope::Eip1559(tx.into_signed(Signature::test_signature()));
            *recovery.recover(Form::Block, &tx.encoded_2718()).expect("valid").hash()
        };
        let kept = recover(0);
        // The same again and again, and others.
        for round in 0..20 {
            let hashes: Vec<B256> = (1..500).chain(500 * (round + 1)..500 * (round + 2)).map(recover).collect();
            assert_eq!(cache.stats().entries, 1_000);
            cache.forget(&hashes);
        }
        let stats = cache.stats();
        assert_eq!((stats.entries, stats.evicted, stats.hits), (1, 0, 0));
        assert!(stats.bytes < 2_000, "{stats:?}");
        let turns: usize = cache.shards.iter().map(|shard| shard.lock().queue.len()).sum();
        assert!(turns <= SHARDS * TURNS + 2, "{turns} turns");
        assert_eq!((recover(0), cache.stats().hits), (kept, 1));
    }
}
