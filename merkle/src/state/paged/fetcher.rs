//! Reads what a plan names, and caches it, without a lock of the store: a plan holds the files, places in the log are never
//! written again, and the cache refuses entries of positions that a rewind has given to others since.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use rayon::prelude::*;

use super::{
    cache::{Cache, Stored},
    claims::{Claim, Claims},
    entries::pick,
};
use crate::{
    log::{Files, Log, Spot},
    types::{Error, ThreadStart},
};

/// Minimum number of extents that a thread reads together where it keeps many reads in flight: at its end the queue runs empty.
const DEEP: usize = 1024;

/// Maximum number of threads that read a batch, each with many reads in flight: as many as the log has rings for, and some left.
const DEEP_READERS: usize = 16;

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
    /// Blocks: it may hold the lock that keeps blocks from being applied, and its next job might apply one.
    Blocking,
}

/// Entries with their positions.
type Entries = Vec<(u64, Stored)>;

/// Places of entries that the cache misses.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Entries that need no read.
    pub(super) ready: Entries,
    /// Positions of the others, ascending.
    pub(super) sns: Vec<u64>,
    /// Extents that have them, each with the end of its part of the positions.
    pub(super) spots: Vec<Spot>,
    pub(super) ends: Vec<usize>,
    /// Files of the extents.
    pub(super) files: Files,
    /// Rewinds of the state that it was made of.
    pub(super) rewinds: u64,
}

/// Entries that are read before they are needed.
#[derive(Debug)]
pub(crate) struct Ahead {
    fetcher: Arc<Fetcher>,
    plan: Plan,
    /// Ends when the entries are in the cache.
    claim: Claim,
}

/// Cache of entries and reader of what it misses.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(super) cache: Cache,
    pub(super) claims: Arc<Claims>,
    readers: OnceLock<Option<rayon::ThreadPool>>,
    /// Callback of threads that read.
    pub(super) thread_start: OnceLock<ThreadStart>,
}

impl Fetcher {
    pub(super) fn new(cache_bytes: usize) -> Self {
        let (claims, readers, thread_start) = (Arc::default(), OnceLock::new(), OnceLock::new());
        Self { cache: Cache::new(cache_bytes), claims, readers, thread_start }
    }

    /// Callback of threads that read.
    pub(crate) fn thread_start(&self) -> ThreadStart {
        self.thread_start.get().cloned().unwrap_or_default()
    }

    /// Reads all entries of a plan, and caches them. Their positions ascend.
    ///
    /// # Errors
    /// Errors of the log.
    pub(super) fn read(&self, log: &dyn Log, plan: Plan, wait: Wait) -> Result<Entries, Error> {
        // What was in memory lies before and behind.
        let logged = plan.sns.first().copied().zip(plan.sns.last().copied()).map(|(first, last)| first..=last);
        let rewinds = plan.rewinds;
        let read = self.read_past_cache(log, plan, wait)?;
        if let Some(logged) = logged.filter(|_| self.cache.keeps()) {
            let mut part = self.cache.part();
            let logged = read.iter().filter(|(sn, _)| logged.contains(sn));
            logged.for_each(|(sn, stored)| part.put(*sn, stored, rewinds));
        }
        Ok(read)
    }

    /// Reads all entries of a plan. Their positions ascend.
    ///
    /// # Errors
    /// Errors of the log.
    pub(super) fn read_past_cache(&self, log: &dyn Log, mut plan: Plan, wait: Wait) -> Result<Entries, Error> {
        let mut read = std::mem::take(&mut plan.ready);
        let all = 0..plan.spots.len();
        let parts = if all.is_empty() { Vec::new() } else { self.read_at_depth(log, &plan, all, wait)? };
        read.extend(parts.into_iter().flatten());
        // Extents come as their reads end.
        read.sort_unstable_by_key(|(sn, _)| *sn);
        Ok(read)
    }

    /// Reads extents with many reads in flight per thread, or on threads where there is no ring for them.
    fn read_at_depth(&self, log: &dyn Log, plan: &Plan, all: Range<usize>, wait: Wait) -> Result<Vec<Entries>, Error> {
        if !log.reads_at_depth() {
            return self.read_on_threads(log, plan, all, wait);
        }
        let deep = |part: Range<usize>| match plan.read(log, part.clone(), true)? {
            Some(read) => Ok(vec![read]),
            None => self.read_on_threads(log, plan, part, wait),
        };
        let each = match wait {
            Wait::Blocking => all.len(),
            Wait::Stealing => all.len().div_ceil(rayon::current_num_threads().min(DEEP_READERS)).max(DEEP),
        };
        if all.len() <= each {
            return deep(all);
        }
        let parts: Vec<Range<usize>> = all.clone().step_by(each).map(|at| at..all.end.min(at + each)).collect();
        let read: Vec<Vec<Entries>> = parts.into_par_iter().map(deep).collect::<Result<_, Error>>()?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Reads extents on threads with one read in flight each.
    fn read_on_threads(
        &self,
        log: &dyn Log,
        plan: &Plan,
        all: Range<usize>,
        wait: Wait,
    ) -> Result<Vec<Entries>, Error> {
        let each = if all.len() < PARALLEL { PARALLEL } else { all.len().div_ceil(READERS).clamp(1, TASK) };
        let tasks: Vec<Range<usize>> = all.clone().step_by(each).map(|at| at..all.end.min(at + each)).collect();
        let start = || {
            let start = self.thread_start();
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(READERS).thread_name(|i| format!("phalanx-read-{i}"));
            pool.start_handler(move |_| start.call()).build().ok()
        };
        let readers = (tasks.len() > 1).then(|| self.readers.get_or_init(start).as_ref()).flatten();
        let one = |task: &Range<usize>| plan.read(log, task.clone(), false).map(Option::unwrap_or_default);
        let read_all = || tasks.par_iter().map(one).collect();
        match (readers, wait) {
            (Some(readers), Wait::Stealing) => readers.install(read_all),
            (Some(readers), Wait::Blocking) => std::thread::scope(|scope| {
                let read = scope.spawn(|| readers.install(read_all)).join();
                read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
            (None, _) => tasks.iter().map(one).collect(),
        }
    }
}

impl Plan {
    /// Reads some of the extents; `None` if there is no ring for them now.
    fn read(&self, log: &dyn Log, part: Range<usize>, deep: bool) -> Result<Option<Entries>, Error> {
        let mut read = Vec::with_capacity(part.len());
        let begin = |at: usize| at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let first = part.start;
        let spots = &self.spots[part];
        let visit = &mut |at: usize, kind, body: &[u8]| {
            let sns = &self.sns[begin(first + at)..self.ends[first + at]];
            pick((kind, body), sns, &mut |sn, stored| read.push((sn, stored)));
        };
        let done = if deep {
            log.read_deep(spots, &self.files, visit)?
        } else {
            log.read(spots, &self.files, visit).map(|()| true)?
        };
        Ok(done.then_some(read))
    }
}

impl Ahead {
    /// Claims positions that no thread reads, and plans to read them.
    ///
    /// # Errors
    /// Errors of `plan`.
    pub(super) fn new(
        fetcher: &Arc<Fetcher>,
        sns: &mut Vec<u64>,
        plan: impl FnOnce(&[u64]) -> Result<Plan, Error>,
    ) -> Result<Self, Error> {
        let claim = fetcher.claims.ahead(sns);
        Ok(Self { fetcher: Arc::clone(fetcher), plan: plan(sns)?, claim })
    }

    /// Reads the entries into the cache.
    ///
    /// # Errors
    /// Errors of the log.
    pub(crate) fn read(self, log: &dyn Log) -> Result<(), Error> {
        let Self { fetcher, plan, claim } = self;
        let read = fetcher.read(log, plan, Wait::Blocking);
        drop(claim);
        read.map(|_| ())
    }
}
