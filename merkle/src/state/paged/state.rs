//! The paged state: applies blocks, rolls them back, and keeps the entries of unwritten blocks until the log has them.

use std::{collections::VecDeque, sync::Arc};

use phalanx_memory::PrefetchIterator as _;
use phalanx_merkle_proof::{Params, Sentinels};
use rayon::prelude::*;

use super::{
    entries::each,
    extents::Extents,
    fetcher::Fetcher,
    keys::{Keys, LOOKAHEAD},
    page::frag,
};
use crate::{
    log::{FRAME_HEADER, Kind, Log, Marks, Records, extent_head, frame_body},
    parallel::Par,
    state::digester::KeyDigester,
    types::{Error, Locator, MemoryUse, ThreadStart, prefix},
};

/// Positions that one task evicts from the cache.
const CHUNK: usize = 4096;

/// Maximum number of rewinds for which earlier locators are told apart.
const EPOCHS: usize = u32::MAX as usize;

/// Change of one key's position by a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionChange {
    /// Prefix of the key's hash.
    pub(crate) prefix: u64,
    pub(crate) before: Option<u64>,
    pub(crate) after: Option<u64>,
}

/// Entries of an applied block that the log does not have yet.
#[derive(Debug)]
pub(super) struct Unwritten {
    id: u64,
    /// Sequence number of the write that brings them to the log.
    seq: u64,
    records: Arc<Vec<Records>>,
    /// First position of each extent with entries, and its place in `records` and in the block.
    extents: Vec<UnwrittenExtent>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct UnwrittenExtent {
    first_sn: u64,
    records: u32,
    start: usize,
    end: usize,
    offset: u64,
    index: u64,
}

/// Paged state: about eleven bytes of memory per key, and the cache.
#[derive(Debug)]
pub(crate) struct Paged {
    pub(super) params: Params,
    digester: KeyDigester,
    pub(crate) keys: Keys,
    pub(crate) extents: Extents,
    pub(super) fresh: VecDeque<Unwritten>,
    /// Cache, and reader of what it misses, which needs no lock of the store.
    pub(super) fetcher: Arc<Fetcher>,
    /// Per rewind, the position below which nothing was rewound since.
    epochs: Vec<u64>,
}

impl Paged {
    /// Creates the state before the first block: sentinels only.
    pub(crate) fn new(params: &Params, digester: KeyDigester, cache_bytes: usize) -> Self {
        let mut keys = Keys::new();
        keys.advance(params.sentinels.count());
        for index in 0..params.sentinels.count() {
            keys.insert(frag(prefix(&Sentinels::place(params.sentinels.name(index)))), index);
        }
        Self::with(params, digester, cache_bytes, keys, Extents::default())
    }

    /// Creates the state of these keys and extents.
    pub(crate) fn with(
        params: &Params,
        digester: KeyDigester,
        cache_bytes: usize,
        keys: Keys,
        extents: Extents,
    ) -> Self {
        let (fetcher, fresh, epochs) = (Arc::new(Fetcher::new(cache_bytes)), VecDeque::new(), Vec::new());
        Self { params: *params, digester, keys, extents, fresh, fetcher, epochs }
    }

    /// Sets the callback that runs first on threads that read.
    pub(crate) fn set_thread_start(&self, start: ThreadStart) {
        // A state is opened once.
        let _ = self.fetcher.thread_start.set(start);
    }

    /// Callback that runs first on threads that read.
    pub(crate) fn thread_start(&self) -> ThreadStart {
        self.fetcher.thread_start()
    }

    /// Number of rewinds so far.
    pub(super) fn rewinds(&self) -> u64 {
        self.fetcher.cache.rewinds()
    }

    /// Number of keys.
    pub(crate) const fn len(&self) -> usize {
        (self.keys.len() - self.params.sentinels.count()) as usize
    }

    /// Hash function that overlays find keys with.
    pub(crate) const fn digester(&self) -> KeyDigester {
        self.digester
    }

    /// Locator of the key whose entry is at `sn`.
    pub(crate) const fn locator(&self, sn: u64) -> Locator {
        Locator::of_position(sn, self.epochs.len() as u32)
    }

    /// Position of a locator, unless the entry there was rewound or pruned, or never existed.
    pub(crate) fn position(&self, locator: Locator) -> Option<u64> {
        let (sn, epoch) = locator.position();
        let first_sn = self.extents.first_sn().or_else(|| self.fresh.iter().find_map(Unwritten::first_sn))?;
        let first_taken = self.epochs.get(epoch as usize).copied().unwrap_or(u64::MAX);
        let known = epoch as usize <= self.epochs.len() && self.epochs.len() < EPOCHS && sn < first_taken;
        (known && (first_sn..self.keys.next_sn()).contains(&sn)).then_some(sn)
    }

    /// Applies a block.
    ///
    /// `records` are empty if the entries can be read from the log already.
    pub(crate) fn apply(
        &mut self,
        steps: &[PositionChange],
        next_sn: u64,
        id: u64,
        seq: u64,
        records: Arc<Vec<Records>>,
    ) {
        self.keys.advance(next_sn);
        let fits = self.step(steps);
        debug_assert!(fits, "a block is computed from the state that it is applied to");
        self.fresh.push_back(Unwritten::new(id, seq, records));
    }

    /// Positions that a block deactivates, sorted; empty if the cache is off.
    pub(crate) fn gone(&self, steps: &[PositionChange]) -> Vec<u64> {
        let steps = if self.fetcher.cache.keeps() { steps } else { &[] };
        let mut gone: Vec<u64> = steps.iter().filter_map(|step| step.before).collect();
        gone.par_sort_unstable();
        gone
    }

    /// Caches the entries of the last applied block, and evicts those that it deactivated. The cache changes no result,
    /// so readers go on meanwhile.
    pub(crate) fn cache_block(&self, gone: &[u64]) {
        let Some(fresh) = self.fresh.back().filter(|_| self.fetcher.cache.keeps()) else { return };
        let rewinds = self.rewinds();
        Par::UNOBSERVED.map_range(gone.len().div_ceil(CHUNK), CHUNK * 100, |chunk| {
            let mut part = self.fetcher.cache.part();
            gone.iter().skip(chunk * CHUNK).take(CHUNK).for_each(|sn| part.remove(*sn));
        });
        Par::UNOBSERVED.map(&fresh.extents, 5000, |extent| {
            let Some((kind, body)) = fresh.frame(extent) else { return };
            let mut part = self.fetcher.cache.part();
            each(kind, body, &mut |sn, stored| part.put(sn, &stored, rewinds));
        });
    }

    /// Changes positions; false if a key was not at its position before.
    #[must_use]
    pub(crate) fn step(&mut self, steps: &[PositionChange]) -> bool {
        let mut fits = true;
        for (step, ahead) in steps.iter().lookahead(LOOKAHEAD) {
            self.keys.prefetch(ahead.map(|step| step.map(|step| frag(step.prefix))));
            let frag = frag(step.prefix);
            match (step.before, step.after) {
                (Some(before), Some(after)) => fits &= self.keys.set(frag, before, after),
                (None, Some(after)) => self.keys.insert(frag, after),
                (Some(before), None) => fits &= self.keys.remove(frag, before),
                (None, None) => {}
            }
        }
        fits
    }

    /// Rolls the state back to where it ended at `next_sn`.
    pub(crate) fn roll_back(&mut self, steps: &[PositionChange], next_sn: u64) {
        self.fetcher.cache.rewind();
        for step in steps.iter().rev() {
            let back = PositionChange { before: step.after, after: step.before, ..*step };
            let fits = self.step(&[back]);
            debug_assert!(fits, "what a block did can be taken back");
            step.after.into_iter().for_each(|sn| self.fetcher.cache.part().remove(sn));
        }
        self.keys.advance(next_sn);
        self.extents.truncate(next_sn);
        self.fresh.retain(|fresh| fresh.first_sn().is_none_or(|first| first < next_sn));
        // Other entries get these positions.
        self.epochs.iter_mut().for_each(|first_taken| *first_taken = next_sn.min(*first_taken));
        self.epochs.push(next_sn);
    }

    /// Records the places of extents whose writes are below `next_seq`.
    pub(crate) fn release(&mut self, log: &dyn Log, next_seq: u64) {
        while self.fresh.front().is_some_and(|fresh| fresh.seq < next_seq)
            && let Some(fresh) = self.fresh.pop_front()
        {
            settle(log, fresh.id, &fresh.extents, &mut self.extents);
        }
    }

    /// Adds the memory of the state.
    pub(crate) fn memory(&self, to: &mut MemoryUse) {
        to.index = self.keys.memory() + self.extents.memory();
        to.cache = self.fetcher.cache.memory();
    }

    /// Cache hits and misses so far.
    pub(crate) fn cache_counts(&self) -> (u64, u64) {
        self.fetcher.cache.counts()
    }

    /// Extents whose places [`Self::release`] has not recorded yet.
    pub(crate) fn unwritten_extents(&self) -> UnwrittenExtents {
        UnwrittenExtents(self.fresh.iter().map(|fresh| (fresh.id, fresh.extents.clone())).collect())
    }
}

/// Extents whose places are not known yet, by block.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenExtents(Vec<(u64, Vec<UnwrittenExtent>)>);

impl UnwrittenExtents {
    /// Records the places of written extents.
    pub(crate) fn settle(&self, log: &dyn Log, extents: &mut Extents) {
        self.0.iter().for_each(|(id, fresh)| settle(log, *id, fresh, extents));
    }
}

fn settle(log: &dyn Log, id: u64, fresh: &[UnwrittenExtent], extents: &mut Extents) {
    if let Some(begin) = log.begin(id) {
        fresh.iter().for_each(|extent| extents.push(extent.first_sn, begin.place(extent.offset, extent.index)));
    }
}

impl Unwritten {
    fn new(id: u64, seq: u64, records: Arc<Vec<Records>>) -> Self {
        let (mut extents, mut offset, mut index) = (Vec::new(), 0, 0);
        for (at, part) in records.iter().enumerate() {
            let mut start = 0;
            for frame in part.iter() {
                let head = extent_head(&frame[FRAME_HEADER..]).map(|(head, _)| head);
                if let Some(head) = head.filter(|head| head.entries > 0) {
                    let (records, end) = (at as u32, start + frame.len());
                    extents.push(UnwrittenExtent { first_sn: head.first_sn, records, start, end, offset, index });
                }
                start += frame.len();
                offset += frame.len() as u64;
                index += 1;
            }
        }
        Self { id, seq, records, extents }
    }

    /// First position, if there is one.
    pub(super) fn first_sn(&self) -> Option<u64> {
        self.extents.first().map(|extent| extent.first_sn)
    }

    fn frame(&self, extent: &UnwrittenExtent) -> Option<(Kind, &[u8])> {
        frame_body(&self.records[extent.records as usize].bytes[extent.start..extent.end], &Marks::PLAIN)
    }

    /// Extent of a position.
    pub(super) fn body(&self, sn: u64) -> Option<(Kind, &[u8])> {
        let at = self.extents.partition_point(|extent| extent.first_sn <= sn).checked_sub(1)?;
        self.frame(&self.extents[at])
    }
}

pub(super) fn missing(log: &dyn Log, sn: u64) -> Error {
    Error::Corrupt { path: log.path(), what: format!("no entry of position {sn}") }
}
