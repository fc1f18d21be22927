//! Finds entries in the cache and in blocks whose writes are pending, and plans reads of the others.

use std::sync::Arc;

use phalanx_memory::PrefetchIterator as _;

use super::{
    cache::Stored,
    entries::pick,
    fetcher::{Ahead, Plan, Wait},
    keys::LOOKAHEAD,
    page::{Frag, frag},
    state::{Paged, Unwritten, missing},
};
use crate::{
    log::{Files, Log, Spot},
    types::Error,
};

/// Number of entries from which a thread waits for others that read some of them already, instead of reading these as well. A
/// thread that wants few entries has them sooner by itself.
pub(super) const MANY: usize = 64;

impl Paged {
    /// Entry of a position that is or was a key's.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the log does not have it, or what the log reports.
    pub(super) fn fetch(&self, log: &dyn Log, sn: u64) -> Result<Stored, Error> {
        if let Some(stored) = self.cached(sn) {
            return Ok(stored);
        }
        let read = self.fetcher.read(log, self.plan(log, &[sn])?, Wait::Blocking)?;
        read.into_iter().next().map(|(_, stored)| stored).ok_or_else(|| missing(log, sn))
    }

    /// Entry of a position, if it is cached. Counts it.
    pub(super) fn cached(&self, sn: u64) -> Option<Stored> {
        let cache = &self.fetcher.cache;
        let cached = cache.part().get(sn);
        cache.count(usize::from(cached.is_some()), usize::from(cached.is_none()));
        cached
    }

    /// Entries of many positions, which may repeat, in order. Many are read at a time of those that the cache misses.
    ///
    /// # Errors
    /// Errors of [`Self::fetch`].
    pub(super) fn fetch_many(&self, log: &dyn Log, sns: &[u64], wait: Wait) -> Result<Vec<Stored>, Error> {
        let cache = &self.fetcher.cache;
        let mut part = cache.part();
        let mut found: Vec<Option<Stored>> = sns.iter().map(|sn| part.get(*sn)).collect();
        drop(part);
        let mut wanted: Vec<u64> =
            sns.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(sn, _)| *sn).collect();
        cache.count(sns.len() - wanted.len(), wanted.len());
        // In the order of the log, and all positions of an extent at once.
        wanted.sort_unstable();
        wanted.dedup();
        let read = self.read(log, wanted, wait)?;
        for (sn, found) in sns.iter().zip(&mut found) {
            if found.is_none() {
                let at = read.binary_search_by_key(sn, |(sn, _)| *sn).map_err(|_| missing(log, *sn))?;
                *found = Some(Arc::clone(&read[at].1));
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads the entries of positions, which ascend, in order.
    fn read(&self, log: &dyn Log, mut wanted: Vec<u64>, wait: Wait) -> Result<Vec<(u64, Stored)>, Error> {
        let fetcher = &self.fetcher;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        if wanted.len() < MANY || !fetcher.cache.keeps() {
            return fetcher.read(log, self.plan(log, &wanted)?, wait);
        }
        let (claim, mut left) = fetcher.claims.batch(&mut wanted);
        let mut read = fetcher.read(log, self.plan(log, &wanted)?, wait)?;
        drop(claim);
        // What is read ahead is in the cache then, unless it was evicted or could not be read.
        fetcher.claims.wait_for(&left);
        let mut part = fetcher.cache.part();
        left.retain(|sn| match part.get(*sn) {
            Some(stored) => {
                read.push((*sn, stored));
                false
            }
            None => true,
        });
        drop(part);
        if !left.is_empty() {
            read.extend(fetcher.read(log, self.plan(log, &left)?, wait)?);
        }
        read.sort_unstable_by_key(|(sn, _)| *sn);
        Ok(read)
    }

    /// Reads the entries of positions, which ascend, and leaves the cache as it is: a pass over all entries would evict what is
    /// in use.
    ///
    /// # Errors
    /// Errors of [`Self::fetch`].
    pub(super) fn read_past_cache(&self, log: &dyn Log, sns: &[u64]) -> Result<Vec<(u64, Stored)>, Error> {
        let read = self.fetcher.read_past_cache(log, self.plan(log, sns)?, Wait::Blocking)?;
        let mut found = read.iter().map(|(sn, _)| sn);
        match sns.iter().find(|sn| found.next() != Some(sn)) {
            Some(lost) => Err(missing(log, *lost)),
            None => Ok(read),
        }
    }

    /// Adds the positions that contain the predecessor of a hash with this fragment, except for rare collisions.
    pub(super) fn likely_before(&self, own: Frag, sns: &mut Vec<u64>) {
        for (frag, sn) in self.keys.down_from(own) {
            if sns.last() != Some(&sn) {
                sns.push(sn);
            }
            if frag != own {
                return;
            }
        }
    }

    /// Plans to read the entries of keys with these prefixes that the cache misses and that no thread reads. A key that is not
    /// there is about to be created, which changes its predecessor.
    ///
    /// # Errors
    /// Errors of [`Self::plan`].
    pub(crate) fn plan_ahead(
        &self,
        log: &dyn Log,
        prefixes: impl Iterator<Item = u64>,
    ) -> Result<Option<Ahead>, Error> {
        if !self.fetcher.cache.keeps() {
            return Ok(None);
        }
        let frags: Vec<Frag> = prefixes.map(frag).collect();
        let mut sns = Vec::with_capacity(frags.len());
        for (frag, ahead) in frags.iter().copied().lookahead(LOOKAHEAD) {
            self.keys.prefetch(ahead);
            let found = sns.len();
            sns.extend(self.keys.find(frag));
            if sns.len() == found {
                self.likely_before(frag, &mut sns);
            }
        }
        sns.sort_unstable();
        sns.dedup();
        let mut part = self.fetcher.cache.part();
        sns.retain(|sn| !part.has(*sn));
        drop(part);
        if sns.is_empty() {
            return Ok(None);
        }
        Ahead::new(&self.fetcher, &mut sns, |sns| self.plan(log, sns)).map(Some)
    }

    /// Plans to read positions, which ascend. What is in memory is in the plan.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the log does not have them, or what the log reports.
    pub(super) fn plan(&self, log: &dyn Log, sns: &[u64]) -> Result<Plan, Error> {
        let mut ready = Vec::new();
        let sentinels = self.params.sentinels;
        // The log begins behind the sentinels.
        let (first, sns) = sns.split_at(sns.partition_point(|sn| *sn < sentinels.count()));
        for sn in first {
            let (name, mut stored) = (sentinels.name(*sn), vec![0; 8]);
            sentinels.entry(*sn, &name).encode(&mut stored);
            ready.push((*sn, stored.into()));
        }
        let fresh_sn = self.fresh.iter().find_map(Unwritten::first_sn).unwrap_or(u64::MAX);
        let (logged, fresh) = sns.split_at(sns.partition_point(|sn| *sn < fresh_sn));
        for sn in fresh {
            let block = self.fresh.iter().rev().find(|block| block.first_sn().is_some_and(|first| first <= *sn));
            let body = block.and_then(|block| block.body(*sn)).ok_or_else(|| missing(log, *sn))?;
            pick(body, &[*sn], &mut |sn, stored| ready.push((sn, stored)));
        }
        let (mut spots, mut ends): (Vec<Spot>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(sn) = logged.get(at) {
            let extent = self.extents.find(*sn).ok_or_else(|| missing(log, *sn))?;
            let part = logged[at..].partition_point(|sn| *sn < extent.end_sn);
            if part == 0 {
                return Err(missing(log, *sn));
            }
            at += part;
            spots.push(extent.spot);
            ends.push(at);
        }
        let files = if spots.is_empty() { Files::default() } else { log.hold(&spots)? };
        Ok(Plan { ready, sns: logged.to_vec(), spots, ends, files, rewinds: self.rewinds() })
    }
}
