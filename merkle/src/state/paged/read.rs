//! Reads entries from the cache, from blocks whose writes are pending, and from the log, many at a time.

use std::sync::Arc;

use rayon::prelude::*;

use super::{
    cache::Stored,
    entries::pick,
    keys::frag,
    state::{Paged, Unwritten, missing},
};
use crate::{
    log::{Log, Spot},
    types::Error,
};

/// Maximum number of extents that a thread reads together where it keeps many reads in flight.
const DEEP: usize = 1024;

/// Maximum number of reads in flight where each thread has one: disks answer many at once much sooner than one after the other.
const READERS: usize = 16;

/// Number of missing extents from which several threads read.
const PARALLEL: usize = 8;

/// Maximum number of extents that one task reads.
const TASK: usize = 16;

/// Behaviour of a worker while other threads read for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Runs other jobs of its pool: no block is applied while one is prepared.
    Stealing,
    /// Blocks: it holds the lock that keeps blocks from being applied, and its next job might apply one.
    Blocking,
}

impl Paged {
    /// Entry of a position that is or was a key's.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the log does not have it, or what the log reports.
    pub(super) fn fetch(&self, log: &dyn Log, sn: u64) -> Result<Stored, Error> {
        let cached = self.cache.part().get(sn);
        self.cache.count(usize::from(cached.is_some()), usize::from(cached.is_none()));
        if let Some(stored) = cached {
            return Ok(stored);
        }
        let read = self.read(log, &[sn])?;
        read.into_iter().next().map(|(_, stored)| stored).ok_or_else(|| missing(log, sn))
    }

    /// Entries of many positions, which may repeat, in order. Several threads read what the cache misses.
    ///
    /// # Errors
    /// Errors of [`Self::fetch`].
    pub(super) fn fetch_many(&self, log: &dyn Log, sns: &[u64], wait: Wait) -> Result<Vec<Stored>, Error> {
        let mut part = self.cache.part();
        let mut found: Vec<Option<Stored>> = sns.iter().map(|sn| part.get(*sn)).collect();
        drop(part);
        let mut wanted: Vec<u64> =
            sns.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(sn, _)| *sn).collect();
        self.cache.count(sns.len() - wanted.len(), wanted.len());
        wanted.sort_unstable();
        wanted.dedup();
        // In the order of the log, and all positions of an extent at once.
        let read = if log.reads_at_depth() {
            self.read_at_depth(log, &wanted, wait)
        } else {
            self.read_on_threads(log, &wanted, wait)
        };
        let read: Vec<(u64, Stored)> = read?.into_iter().flatten().collect();
        for (sn, found) in sns.iter().zip(&mut found) {
            if found.is_none() {
                let at = read.binary_search_by_key(sn, |(sn, _)| *sn).map_err(|_| missing(log, *sn))?;
                *found = Some(Arc::clone(&read[at].1));
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads the entries of keys with these prefixes that the cache misses, and caches them.
    ///
    /// # Errors
    /// Errors of [`Self::fetch`].
    pub(crate) fn prefetch(&self, log: &dyn Log, prefixes: impl Iterator<Item = u64>) -> Result<(), Error> {
        if !self.cache.keeps() {
            return Ok(());
        }
        let mut sns: Vec<u64> = prefixes.flat_map(|prefix| self.keys.find(frag(prefix))).collect();
        sns.sort_unstable();
        sns.dedup();
        let mut part = self.cache.part();
        sns.retain(|sn| !part.has(*sn));
        drop(part);
        let read = if log.reads_at_depth() {
            self.read_at_depth(log, &sns, Wait::Blocking)
        } else {
            self.read_on_threads(log, &sns, Wait::Blocking)
        };
        read.map(|_| ())
    }

    /// Reads positions (ascending) with many reads in flight per thread.
    fn read_at_depth(&self, log: &dyn Log, sns: &[u64], wait: Wait) -> Result<Vec<Vec<(u64, Stored)>>, Error> {
        if sns.len() <= DEEP || matches!(wait, Wait::Blocking) {
            return Ok(vec![self.read(log, sns)?]);
        }
        self.tasks(sns, |_| DEEP).par_iter().map(|task| self.read(log, task)).collect()
    }

    /// Reads positions (ascending) on threads with one read in flight each.
    fn read_on_threads(&self, log: &dyn Log, sns: &[u64], wait: Wait) -> Result<Vec<Vec<(u64, Stored)>>, Error> {
        let tasks = self
            .tasks(sns, |extents| if extents < PARALLEL { PARALLEL } else { extents.div_ceil(READERS).clamp(1, TASK) });
        let readers = || {
            let start = self.thread_start.clone();
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(READERS).thread_name(|i| format!("phalanx-read-{i}"));
            pool.start_handler(move |_| start.call()).build().ok()
        };
        let readers = (tasks.len() > 1).then(|| self.readers.get_or_init(readers).as_ref()).flatten();
        let all = || tasks.par_iter().map(|task| self.read(log, task)).collect();
        match (readers, wait) {
            (Some(readers), Wait::Stealing) => readers.install(all),
            (Some(readers), Wait::Blocking) => std::thread::scope(|scope| {
                let read = scope.spawn(|| readers.install(all)).join();
                read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
            (None, _) => tasks.iter().map(|task| self.read(log, task)).collect(),
        }
    }

    /// Divides positions (ascending) into tasks of at most as many extents as `most` says for the number of all; each
    /// extent belongs to one task.
    fn tasks<'s>(&self, sns: &'s [u64], most: impl Fn(usize) -> usize) -> Vec<&'s [u64]> {
        let first = |sn: &u64| self.extents.find(*sn).map(|spot| spot.first_sn);
        let ends = sns.iter().map(first).collect::<Vec<_>>();
        let extents: Vec<usize> = ends.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
        let most = most(extents.len());
        let mut rest = sns;
        let mut take = |lens: &[usize]| {
            let (task, others) = rest.split_at(lens.iter().sum());
            rest = others;
            task
        };
        extents.chunks(most).map(&mut take).collect()
    }

    /// Reads the entries of positions (ascending) in order, and caches them.
    fn read(&self, log: &dyn Log, sns: &[u64]) -> Result<Vec<(u64, Stored)>, Error> {
        let mut read = Vec::with_capacity(sns.len());
        let mut visit = |sn: u64, stored: Stored| read.push((sn, stored));
        let sentinels = self.params.sentinels;
        // The log begins behind the sentinels.
        let (first, sns) = sns.split_at(sns.partition_point(|sn| *sn < sentinels.count()));
        for sn in first {
            let (name, mut stored) = (sentinels.name(*sn), vec![0; 8]);
            sentinels.entry(*sn, &name).encode(&mut stored);
            visit(*sn, stored.into());
        }
        let fresh_sn = self.fresh.iter().find_map(Unwritten::first_sn).unwrap_or(u64::MAX);
        let (logged, fresh) = sns.split_at(sns.partition_point(|sn| *sn < fresh_sn));
        let (mut spots, mut parts): (Vec<Spot>, Vec<&[u64]>) = (Vec::new(), Vec::new());
        let mut rest = logged;
        while let Some(sn) = rest.first() {
            let extent = self.extents.find(*sn).ok_or_else(|| missing(log, *sn))?;
            let (part, others) = rest.split_at(rest.partition_point(|sn| *sn < extent.end_sn));
            if part.is_empty() {
                return Err(missing(log, *sn));
            }
            rest = others;
            spots.push(extent.spot);
            parts.push(part);
        }
        if !spots.is_empty() {
            log.read(&spots, &mut |at, kind, body| pick((kind, body), parts[at], &mut visit))?;
        }
        // Extents come as their reads end.
        read.sort_unstable_by_key(|(sn, _)| *sn);
        let mut visit = |sn: u64, stored: Stored| read.push((sn, stored));
        for sn in fresh {
            let block = self.fresh.iter().rev().find(|block| block.first_sn().is_some_and(|first| first <= *sn));
            let body = block.and_then(|block| block.body(*sn)).ok_or_else(|| missing(log, *sn))?;
            pick(body, &[*sn], &mut visit);
        }
        if self.cache.keeps() {
            let mut part = self.cache.part();
            read.iter().for_each(|(sn, stored)| part.put(*sn, Arc::clone(stored)));
        }
        Ok(read)
    }
}
