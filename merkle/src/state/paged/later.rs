//! A lookup whose entries are read without the store's lock: under the lock it notes what it misses, and it is repeated when that
//! is there.

use std::{
    collections::HashMap,
    hash::BuildHasherDefault,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    cache::{Spread, Stored},
    claims::Claim,
    fetcher::{Fetcher, Plan, Wait},
    read::MANY,
    state::Paged,
};
use crate::{log::Log, types::Error};

/// Entries that a lookup missed, and those that were read for it.
#[derive(Debug, Default)]
pub(crate) struct Later(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    found: HashMap<u64, Stored, BuildHasherDefault<Spread>>,
    /// Rewinds of the state that `found` belongs to: a later one may have given its positions to others.
    rewinds: u64,
    missed: Vec<u64>,
    /// Number of entries that the cache had.
    hits: usize,
    /// True once something was read: what the cache answers was counted before.
    is_repeated: bool,
}

impl Later {
    /// A lookup that is not repeated. What it misses is counted by the lookup that reads it.
    pub(crate) fn once() -> Self {
        Self(Mutex::new(Inner { is_repeated: true, ..Inner::default() }))
    }

    /// Returns true if a lookup of [`Self::once`] missed nothing, and counts what the cache had then.
    pub(crate) fn had_all(&self, paged: &Paged) -> bool {
        let inner = self.inner();
        let had_all = inner.missed.is_empty();
        if had_all {
            paged.fetcher.cache.count(inner.hits, 0);
        }
        had_all
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Entry of a position; if it is not in memory it is noted.
    pub(super) fn get(&self, paged: &Paged, sn: u64) -> Option<Stored> {
        let inner = &mut *self.inner();
        if inner.rewinds != paged.rewinds() {
            inner.found.clear();
            inner.rewinds = paged.rewinds();
        }
        if let Some(found) = inner.found.get(&sn) {
            return Some(Arc::clone(found));
        }
        let cached = if inner.is_repeated { paged.fetcher.cache.part().get(sn) } else { paged.cached(sn) };
        inner.hits += usize::from(cached.is_some());
        match &cached {
            None => inner.missed.push(sn),
            // What is read for this lookup may evict it.
            Some(stored) if !inner.missed.is_empty() => {
                inner.found.insert(sn, Arc::clone(stored));
            }
            Some(_) => {}
        }
        cached
    }

    /// Plans to read what was missed; `None` if that is nothing.
    ///
    /// # Errors
    /// Errors of [`Paged::plan`].
    pub(crate) fn plan(&self, paged: &Paged, log: &dyn Log) -> Result<Option<LaterPlan>, Error> {
        let inner = &mut *self.inner();
        let mut missed = std::mem::take(&mut inner.missed);
        missed.sort_unstable();
        missed.dedup();
        if missed.is_empty() {
            return Ok(None);
        }
        let fetcher = Arc::clone(&paged.fetcher);
        // Once: what was evicted again before it was found is read by this thread.
        let waits = missed.len() >= MANY && fetcher.cache.keeps() && !inner.is_repeated;
        let (claim, awaited) = if waits {
            let (claim, awaited) = fetcher.claims.batch(&mut missed);
            (Some(claim), awaited)
        } else {
            (None, Vec::new())
        };
        let plan = paged.plan(log, &missed)?;
        Ok(Some(LaterPlan { fetcher, plan, claim, awaited }))
    }

    /// Reads what is planned, for the next time that the lookup runs, and waits for what other threads read ahead. Needs no lock of
    /// the store.
    ///
    /// # Errors
    /// Errors of the log.
    pub(crate) fn read(&self, plan: LaterPlan, log: &dyn Log) -> Result<(), Error> {
        let LaterPlan { fetcher, plan, claim, awaited } = plan;
        let read = fetcher.read(log, plan, Wait::Blocking)?;
        drop(claim);
        fetcher.claims.wait_for(&awaited);
        let inner = &mut *self.inner();
        inner.found.extend(read);
        // A rewind since the plan makes the lookup forget all of them. What is not there is missed again.
        let mut part = fetcher.cache.part();
        inner.found.extend(awaited.into_iter().filter_map(|sn| Some((sn, part.get(sn)?))));
        inner.is_repeated = true;
        Ok(())
    }
}

/// Reads that a lookup waits for.
#[derive(Debug)]
pub(crate) struct LaterPlan {
    fetcher: Arc<Fetcher>,
    plan: Plan,
    claim: Option<Claim>,
    /// Positions that other threads read ahead.
    awaited: Vec<u64>,
}
