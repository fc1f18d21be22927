//! Interns the keys of a planned block: on one thread in order of first appearance, or on many in shards.
//!
//! Sharded interning takes three rounds. Threads gather the predictions, which framing has scattered, and sort the
//! digests of each chunk of the block by shard. Then each shard is interned by one thread, all chunks in order, so that
//! its ids do not depend on timing. Then the chunks are joined, a shard's ids behind those of the shards before it.

use crate::{
    model::{Observer, Stage, observe_fork},
    plan::SourceCounts,
};
use phalanx_access::{Access, AccessSets, Interner, Key as _, KeyId, Salt};
use phalanx_memory::{PrefetchIterator as _, prefetch};
use phalanx_paralyze::{Batch, Preimage, Preimages, StateKey};
use rayon::prelude::*;

/// Number of transactions whose predictions are prefetched at a time.
pub(crate) const WAVE: usize = 32;

/// Minimum number of threads for shards: fewer have enough to do with the execution beside it, and shards take up to a
/// third more work.
const SHARED_THREADS: usize = 8;

/// Minimum size of a block that is interned in shards, in transactions.
const SHARED_FROM: usize = 4096;

/// Returns true if a planned block of `txs` transactions is interned in shards.
pub(crate) const fn interns_in_shards(threads: usize, txs: usize) -> bool {
    threads >= SHARED_THREADS && txs >= SHARED_FROM
}

/// Number of transactions of a chunk.
const PIECE: usize = 512;

/// Number of bits of a digest that select its shard: bits that an [`Interner`] does not use as a place in a table of
/// usual size.
const SHARD_BITS: u32 = 4;
const SHARD_SHIFT: u32 = 28;
const SHARDS: usize = 1 << SHARD_BITS;

/// Distance at which a shard's loop prefetches a key and its place in the table, in keys.
const KEY_LOOKAHEAD: usize = 12;

/// Distances at which a single thread prefetches a prediction, and then the places of its keys, in transactions.
const PREDICTION_LOOKAHEAD: [usize; 2] = [24, 12];

const fn shard(digest: u64) -> usize {
    (digest >> SHARD_SHIFT) as usize % SHARDS
}

/// Place of a transaction's prediction.
pub(crate) type Place<'b> = (&'b Batch, usize);

/// Interned predictions of a block.
#[derive(Debug)]
pub(crate) struct Interned<'i> {
    pub(crate) keys: &'i mut Vec<StateKey>,
    pub(crate) sets: &'i mut AccessSets<KeyId>,
    pub(crate) preimages: &'i mut Preimages<KeyId>,
}

/// Appends the prediction of transaction `index` of `batch` to `sets`, with ids from `interner`.
#[inline(always)]
pub(crate) fn intern(
    interner: &mut Interner<StateKey>,
    batch: &Batch,
    index: usize,
    sets: &mut AccessSets<KeyId>,
    preimages: &mut Preimages<KeyId>,
) {
    for ((key, access), (digest, _)) in batch.sets().get(index).iter().zip(batch.digests(index)) {
        sets.add(interner.intern_digested(key, *digest), *access);
    }
    for (place, preimage) in batch.preimages(index) {
        preimages.copy(sets.open_set()[*place as usize].0, preimage);
    }
    sets.close();
    preimages.close();
}

/// Tables that are reused from block to block.
#[derive(Debug)]
pub(crate) struct Interning {
    salt: Salt,
    whole: Interner<StateKey>,
    /// Interners of the shards, created on first use.
    shards: Vec<Interner<StateKey>>,
}

impl Interning {
    /// Creates tables of digests under this salt.
    pub(crate) fn new(salt: Salt) -> Self {
        Self { salt, whole: Interner::new(salt), shards: Vec::new() }
    }

    /// Interns a block on the calling thread, given the place of each transaction's prediction. `out` must be empty.
    /// Returns the sources of the predictions, and the id of `wanted` if it is among the keys.
    pub(crate) fn one<'b>(
        &mut self,
        places: impl Fn(usize) -> Place<'b>,
        len: usize,
        wanted: &StateKey,
        out: Interned<'_>,
    ) -> (SourceCounts, Option<KeyId>) {
        let mut sources = SourceCounts::default();
        let Interned { keys, sets, preimages } = out;
        let interner = &mut self.whole;
        // Framing has scattered the predictions: prefetch first the prediction, then the places of its keys in the table.
        let prefetch = |interner: &Interner<StateKey>, [far, near]: [Option<usize>; 2]| {
            if let Some((batch, index)) = far.map(&places) {
                batch.prefetch(index);
            }
            if let Some((batch, index)) = near.map(&places) {
                batch.digests(index).iter().for_each(|(digest, _)| interner.prefetch(*digest));
            }
        };
        let steps = (0..len).lookahead(PREDICTION_LOOKAHEAD).primed(|ahead| prefetch(interner, ahead));
        for (at, ahead) in steps {
            prefetch(interner, ahead);
            let (batch, index) = places(at);
            intern(interner, batch, index, sets, preimages);
            sources.count(batch.source(index));
        }
        let found = interner.find(wanted);
        interner.take_keys(keys);
        (sources, found)
    }

    /// Interns like [`Self::one`], on all threads of the current rayon pool.
    pub(crate) fn many<'b>(
        &mut self,
        places: impl Fn(usize) -> Place<'b> + Sync,
        len: usize,
        wanted: &StateKey,
        out: Interned<'_>,
        observer: &dyn Observer,
    ) -> (SourceCounts, Option<KeyId>) {
        let salt = self.salt;
        self.shards.resize_with(SHARDS, || Interner::new(salt));
        let count = len.div_ceil(PIECE);
        let pieces: Vec<Piece<'b>> = observe_fork(observer, Stage::Intern, count, || {
            let gather = |at: usize| Piece::gather((at * PIECE..len.min((at + 1) * PIECE)).map(&places));
            (0..count).into_par_iter().map(gather).collect()
        });
        let ids: Vec<Vec<u32>> = observe_fork(observer, Stage::Intern, SHARDS, || {
            let shards = self.shards.par_iter_mut().enumerate();
            shards.map(|(shard, interner)| intern_shard(interner, &pieces, shard)).collect()
        });
        let shared = Shared { first_ids: first_ids(&self.shards), pieces, ids, shards: &self.shards };
        observe_fork(observer, Stage::Intern, count, || shared.put_together(out));
        let mut sources = SourceCounts::default();
        shared.pieces.iter().for_each(|piece| sources.add(&piece.sources));
        let at = shard(wanted.digest(&salt));
        (sources, self.shards[at].find(wanted).map(|KeyId(id)| KeyId(shared.first_ids[at] + id)))
    }
}

/// A chunk: neighbouring transactions of a block.
struct Piece<'b> {
    /// All accesses in order, each with the shard of its key and the key's rank among the chunk's keys in that shard.
    accesses: Vec<(Access, u8, u32)>,
    /// End of each transaction's accesses.
    ends: Vec<u32>,
    /// Digests and keys by shard.
    keys: Vec<(u64, &'b StateKey)>,
    /// End of each shard's keys.
    shard_ends: [u32; SHARDS],
    /// All preimages in order, each with the index of its access.
    preimages: Vec<(u32, &'b Preimage)>,
    /// End of each transaction's preimages.
    preimage_ends: Vec<u32>,
    sources: SourceCounts,
}

impl<'b> Piece<'b> {
    fn gather(places: impl ExactSizeIterator<Item = Place<'b>> + Clone) -> Self {
        let len = places.len();
        let prefetch = |[ahead]: [Option<Place<'b>>; 1]| {
            ahead.into_iter().for_each(|(batch, index)| batch.prefetch(index));
        };
        let (mut keys, mut accesses) = (Vec::with_capacity(3 * len), Vec::with_capacity(3 * len));
        let (mut ends, mut preimage_ends) = (Vec::with_capacity(len), Vec::with_capacity(len));
        let mut preimages = Vec::new();
        let mut counts = [0u32; SHARDS];
        let mut sources = SourceCounts::default();
        for ((batch, index), ahead) in places.lookahead([WAVE]).primed(prefetch) {
            prefetch(ahead);
            let first = keys.len() as u32;
            for (key, (digest, access)) in batch.sets().get(index).iter().map(|(key, _)| key).zip(batch.digests(index))
            {
                let shard = shard(*digest);
                accesses.push((*access, shard as u8, counts[shard]));
                counts[shard] += 1;
                keys.push((*digest, key));
            }
            preimages.extend(batch.preimages(index).iter().map(|(place, preimage)| (first + place, preimage)));
            ends.push(keys.len() as u32);
            preimage_ends.push(preimages.len() as u32);
            sources.count(batch.source(index));
        }
        let mut begins = [0; SHARDS];
        let mut shard_ends = [0; SHARDS];
        let mut end = 0;
        for (shard, count) in counts.into_iter().enumerate() {
            (begins[shard], end) = (end, end + count);
            shard_ends[shard] = end;
        }
        let mut sorted = keys.clone();
        for ((_, shard, rank), key) in accesses.iter().zip(keys) {
            sorted[(begins[usize::from(*shard)] + rank) as usize] = key;
        }
        Self { accesses, ends, keys: sorted, shard_ends, preimages, preimage_ends, sources }
    }

    fn shard(&self, shard: usize) -> &[(u64, &'b StateKey)] {
        let begin = if shard == 0 { 0 } else { self.shard_ends[shard - 1] };
        &self.keys[begin as usize..self.shard_ends[shard] as usize]
    }
}

/// Ids, within the shard, of all keys of one shard in order.
fn intern_shard(interner: &mut Interner<StateKey>, pieces: &[Piece<'_>], shard: usize) -> Vec<u32> {
    interner.clear();
    let keys = pieces.iter().flat_map(|piece| piece.shard(shard)).lookahead([KEY_LOOKAHEAD]);
    let mut ids = Vec::with_capacity(pieces.iter().map(|piece| piece.shard(shard).len()).sum());
    for ((digest, key), [ahead]) in keys {
        if let Some((digest, key)) = ahead {
            interner.prefetch(*digest);
            prefetch(*key);
        }
        ids.push(interner.intern_digested(key, *digest).0);
    }
    ids
}

/// Id of each shard's first key.
fn first_ids(shards: &[Interner<StateKey>]) -> [u32; SHARDS] {
    let mut first = 0;
    core::array::from_fn(|shard| {
        first += shards[shard].len();
        u32::try_from(first).expect("fewer than 2^32 keys") - shards[shard].len() as u32
    })
}

/// A block whose keys have ids within their shards.
struct Shared<'b, 's> {
    pieces: Vec<Piece<'b>>,
    /// Ids of all keys by shard, in order.
    ids: Vec<Vec<u32>>,
    shards: &'s [Interner<StateKey>],
    first_ids: [u32; SHARDS],
}

impl Shared<'_, '_> {
    fn put_together(&self, out: Interned<'_>) {
        let Interned { keys, sets, preimages } = out;
        let n_keys = self.shards.iter().map(Interner::len).sum::<usize>();
        let key = |id: usize| {
            let shard = self.first_ids.partition_point(|first| *first as usize <= id) - 1;
            self.shards[shard].keys()[id - self.first_ids[shard] as usize]
        };
        (0..n_keys).into_par_iter().with_min_len(PIECE).map(key).collect_into_vec(keys);

        sets.refill(ends(&self.pieces, |piece| &piece.ends), |entries| {
            entries.resize(self.pieces.iter().map(|piece| piece.accesses.len()).sum(), (KeyId(0), Access::Read));
            let (mut rest, mut known) = (&mut entries[..], [0u32; SHARDS]);
            let mut parts = Vec::with_capacity(self.pieces.len());
            for piece in &self.pieces {
                let (part, later) = rest.split_at_mut(piece.accesses.len());
                parts.push((piece, part, known));
                rest = later;
                known.iter_mut().enumerate().for_each(|(shard, known)| *known += piece.shard(shard).len() as u32);
            }
            parts.into_par_iter().for_each(|(piece, part, known)| {
                for ((access, shard, rank), entry) in piece.accesses.iter().zip(part) {
                    let shard = usize::from(*shard);
                    let id = self.ids[shard][(known[shard] + rank) as usize];
                    *entry = (KeyId(self.first_ids[shard] + id), *access);
                }
            });
        });

        let sizes = |size: fn(&Piece<'_>) -> usize| {
            let mut first = 0;
            let begin = |piece| {
                first += size(piece);
                first - size(piece)
            };
            self.pieces.iter().map(begin).collect::<Vec<usize>>()
        };
        let (entries_from, preimages_from) =
            (sizes(|piece| piece.accesses.len()), sizes(|piece| piece.preimages.len()));
        let all = self.pieces.iter().map(|piece| piece.preimages.len()).sum::<usize>();
        let preimage = |index: usize| {
            let at = preimages_from.partition_point(|from| *from <= index) - 1;
            let (entry, preimage) = self.pieces[at].preimages[index - preimages_from[at]];
            (sets.entries()[entries_from[at] + entry as usize].0, *preimage)
        };
        preimages.refill(ends(&self.pieces, |piece| &piece.preimage_ends), |preimages| {
            (0..all).into_par_iter().with_min_len(PIECE).map(preimage).collect_into_vec(preimages);
        });
    }
}

/// Ends of transactions in the whole block, from their ends in the chunks.
fn ends<'p>(pieces: &'p [Piece<'_>], of: fn(&'p Piece<'_>) -> &'p Vec<u32>) -> impl Iterator<Item = u32> + 'p {
    let mut begin = 0;
    pieces.iter().flat_map(move |piece| {
        let ends = of(piece);
        let from = begin;
        begin += ends.last().copied().unwrap_or(0);
        ends.iter().map(move |end| from + end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Unobserved;
    use alloy_primitives::{Address, U256};
    use phalanx_paralyze::Source;
    use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

    /// Batches of random sets in which about one key in `repeat` occurs again.
    fn batches(seed: u64, txs: usize, repeat: u64) -> Vec<Batch> {
        let mut rng = StdRng::seed_from_u64(seed);
        let salt = Salt::new(1);
        let mut one = |batch: &mut Batch| {
            let mut set: Vec<(StateKey, Access)> = Vec::new();
            for _ in 0..rng.random_range(0..6) {
                let number = rng.random_range(0..1 + 6 * txs as u64 / repeat);
                let address = Address::from_word(U256::from(number / 3).into());
                let key = match number % 3 {
                    0 => StateKey::Basic(address),
                    1 => StateKey::Code(address),
                    _ => StateKey::Slot(address, U256::from(number)),
                };
                if set.iter().all(|(held, _)| *held != key) {
                    set.push((key, [Access::Read, Access::Credit, Access::Write][rng.random_range(0..3)]));
                }
            }
            let source = if set.len().is_multiple_of(2) { Source::Native } else { Source::Template };
            batch.push(set, source, &salt);
        };
        (0..txs.div_ceil(100))
            .map(|_| {
                let mut batch = Batch::new();
                (0..100).for_each(|_| one(&mut batch));
                batch
            })
            .collect()
    }

    #[test]
    fn shards_name_the_same_keys_whoever_does_them() {
        let salt = Salt::new(1);
        let mut interning = Interning::new(salt);
        for (seed, txs, repeat) in [(1, 0, 1), (2, 1, 1), (3, 700, 9), (4, 5_000, 2), (5, 5_000, 100)] {
            let batches = batches(seed, txs, repeat);
            // In another order than that of prediction.
            let place = |at: usize| {
                let at = at * 7_919 % txs;
                (&batches[at / 100], at % 100)
            };
            let wanted = StateKey::Basic(Address::ZERO);
            let mut outcomes = Vec::new();
            for threads in [0, 1, 3] {
                let (mut keys, mut sets, mut preimages) = Default::default();
                let out = Interned { keys: &mut keys, sets: &mut sets, preimages: &mut preimages };
                let (sources, found) = match threads {
                    0 => interning.one(place, txs, &wanted, out),
                    _ => {
                        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                        pool.install(|| interning.many(place, txs, &wanted, out, &Unobserved))
                    }
                };
                assert_eq!(sets.len(), txs);
                for (at, set) in sets.iter().enumerate() {
                    let (batch, index) = place(at);
                    let named: Vec<_> = set.iter().map(|(id, access)| (keys[id.index()], *access)).collect();
                    assert_eq!(named, batch.sets().get(index), "seed {seed}, transaction {at}");
                }
                assert_eq!(found, (0..).zip(&keys).find(|(_, key)| **key == wanted).map(|(id, _)| KeyId(id)));
                let distinct: std::collections::HashSet<_> = keys.iter().collect();
                assert_eq!(distinct.len(), keys.len(), "no key has two ids");
                outcomes.push((sources, keys, sets));
            }
            assert_eq!(outcomes[0].0, outcomes[1].0);
            assert_eq!(outcomes[1], outcomes[2], "threads do not matter");
        }
    }
}
