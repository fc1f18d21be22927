//! Recovered transactions by hash, shared by all threads and bounded in bytes.

use super::RecoveredTx;
use alloy_primitives::{B256, map::B256Map};
use parking_lot::Mutex;
use phalanx_access::Salt;
use std::{collections::VecDeque, sync::Arc};

/// Parts of the cache with a lock each, so that threads rarely meet.
const SHARDS: usize = 64;

/// What an entry takes beside its transaction: its places in map and queue.
const OVERHEAD: usize = 160;

/// Recovered transactions by the hash of their bytes.
///
/// **Nothing can be slipped in.** The key is the Keccak-256 of all bytes that the value was made from, a value is a function
/// of these bytes alone, and only [`Recovery`](super::Recovery) puts values in. What fails is not kept: failures in any
/// number displace nothing.
///
/// **Memory** is bounded in bytes. A full part lets go of the entry that came first, but for those that were asked for since
/// their last turn (second chance); so transactions that are seen once do not displace those that are seen again. To
/// displace anything takes transactions with valid signatures. Which part a hash belongs to is salted, or one part could be
/// chosen for an attack.
///
/// O(1) amortised per operation, one short lock.
#[derive(Debug)]
pub struct RecoveryCache {
    shards: Box<[Mutex<Shard>]>,
    /// Most bytes of one part.
    share: usize,
    salt: Salt,
}

#[derive(Debug, Default)]
struct Shard {
    map: B256Map<Entry>,
    /// The map's keys, each once.
    queue: VecDeque<B256>,
    stats: CacheStats,
}

#[derive(Debug)]
struct Entry {
    tx: Arc<RecoveredTx>,
    /// Asked for since it came or last had its turn.
    used: bool,
}

/// What a cache has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Look-ups that found their transaction: signatures saved.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Transactions let go of.
    pub evicted: u64,
    /// Transactions held.
    pub entries: usize,
    /// Bytes held, overhead included.
    pub bytes: usize,
}

impl RecoveryCache {
    /// An empty cache for at most `max_bytes`, the overhead included. `salt` is to be random in production.
    pub fn new(max_bytes: usize, salt: Salt) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, share: max_bytes / SHARDS, salt }
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

    /// Keeps `tx`, and gives the one value that all who ask for it share. One that exceeds a part's bytes is not kept.
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
            shard.queue.push_back(*tx.hash());
            shard.map.insert(*tx.hash(), Entry { tx: Arc::clone(&tx), used: false });
            shard.stats.bytes += size;
            shard.stats.entries += 1;
        }
        tx
    }

    /// What it has done so far, summed over its parts. O(1).
    pub fn stats(&self) -> CacheStats {
        self.shards.iter().fold(CacheStats::default(), |sum, shard| {
            let CacheStats { hits, misses, evicted, entries, bytes } = shard.lock().stats;
            CacheStats {
                hits: sum.hits + hits,
                misses: sum.misses + misses,
                evicted: sum.evicted + evicted,
                entries: sum.entries + entries,
                bytes: sum.bytes + bytes,
            }
        })
    }

    fn shard(&self, hash: &B256) -> &Mutex<Shard> {
        let words = hash.0.as_chunks::<8>().0;
        let digest = self.salt.digest3([0, 1, 2].map(|word| u64::from_le_bytes(words[word])));
        &self.shards[digest as usize % SHARDS]
    }
}

impl Shard {
    /// The first in the queue leaves, or goes to its end if it was used. Who is passed over is not used any more, so at
    /// the latest the second round lets one go.
    fn give_turn(&mut self) {
        let Some(hash) = self.queue.pop_front() else { return };
        match self.map.get_mut(&hash) {
            Some(entry) if entry.used => {
                entry.used = false;
                self.queue.push_back(hash);
            }
            _ => {
                if let Some(entry) = self.map.remove(&hash) {
                    self.stats.bytes -= entry.tx.size() + OVERHEAD;
                    self.stats.entries -= 1;
                    self.stats.evicted += 1;
                }
            }
        }
    }
}
