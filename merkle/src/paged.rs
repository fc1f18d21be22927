//! The current state on disk: memory holds which position each key has and where positions are, about eleven bytes per
//! key; keys, values and links are read from the log, and kept up to a number of bytes.
//!
//! Entries are never changed where they are, so the state after a block is nothing but the positions of its keys. What
//! leads back from a block is the positions before it, and what a key was then is still in the log.

mod arena;
mod cache;
mod extents;
mod keys;
mod past;
mod session;

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use phalanx_merkle_proof::{Params, Sentinels};
use rayon::prelude::*;

use crate::{
    Error, Locator,
    ground::Ground,
    keyed::Keyed,
    log::Log,
    memory::MemoryUse,
    prepare::Effect,
    resolve::Who,
    ring::prefix,
    row::{ExtentItem, FRAME_HEADER, Kind, Rows, extent_head, frame_body, read_extent},
};
use cache::{Cache, Stored};
pub(crate) use extents::Extents;
pub(crate) use keys::{Keys, frag, slot_of};
pub(crate) use past::{Past, Steps};
pub(crate) use session::{Arena, Session};

/// Reads that are under way at a time: disks answer many at once much sooner than one after the other.
const READERS: usize = 16;

/// How many entries must be missing for them to be read by several threads.
const PARALLEL: usize = 8;

/// Most rewinds after which locators of before are still told apart.
const EPOCHS: usize = 1 << 24;

/// How a block changes the position of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The first bytes of the key's hash.
    pub(crate) prefix: u64,
    pub(crate) before: Option<u64>,
    pub(crate) after: Option<u64>,
}

/// The entries of an applied block that cannot be read from the log yet.
#[derive(Debug)]
struct Fresh {
    id: u64,
    /// The sequence number of the write that brings them to the log.
    seq: u64,
    rows: Arc<Vec<Rows>>,
    /// Per extent with entries: its first position, and where it is in `rows` and in the block.
    extents: Vec<FreshExtent>,
}

#[derive(Clone, Copy, Debug)]
struct FreshExtent {
    first_sn: u64,
    rows: u32,
    start: usize,
    end: usize,
    offset: u64,
    index: u64,
}

/// The state: about eleven bytes of memory per key, and the cache.
#[derive(Debug)]
pub(crate) struct Paged {
    params: Params,
    keyed: Keyed,
    pub(crate) keys: Keys,
    pub(crate) extents: Extents,
    fresh: VecDeque<Fresh>,
    cache: Cache,
    /// Per rewind, below which position nothing was taken back since.
    epochs: Vec<u64>,
    readers: OnceLock<Option<rayon::ThreadPool>>,
}

impl Paged {
    /// The state before the first block: sentinels only.
    pub(crate) fn new(params: &Params, keyed: Keyed, cache_bytes: usize) -> Self {
        let mut keys = Keys::new();
        keys.advance(params.sentinels.count());
        for index in 0..params.sentinels.count() {
            keys.insert(frag(prefix(&Sentinels::place(params.sentinels.name(index)))), index);
        }
        Self::with(params, keyed, cache_bytes, keys, Extents::default())
    }

    /// The state that keys and extents say.
    pub(crate) fn with(params: &Params, keyed: Keyed, cache_bytes: usize, keys: Keys, extents: Extents) -> Self {
        let (cache, readers) = (Cache::new(cache_bytes), OnceLock::new());
        Self { params: *params, keyed, keys, extents, fresh: VecDeque::new(), cache, epochs: Vec::new(), readers }
    }

    /// Number of keys.
    pub(crate) const fn len(&self) -> usize {
        (self.keys.len() - self.params.sentinels.count()) as usize
    }

    /// What speculative blocks find keys by.
    pub(crate) const fn keyed(&self) -> Keyed {
        self.keyed
    }

    /// A name for the key whose entry is at `sn`.
    pub(crate) const fn locator(&self, sn: u64) -> Locator {
        Locator::of_position(sn, self.epochs.len() as u32)
    }

    /// The position that a locator names, unless what was there was taken back.
    pub(crate) fn position(&self, locator: Locator) -> Option<u64> {
        let (low, epoch) = locator.position();
        let sn = self.keys.near(low);
        let first_taken = self.epochs.get(epoch as usize).copied().unwrap_or(u64::MAX);
        (epoch as usize <= self.epochs.len() && self.epochs.len() < EPOCHS && sn < first_taken).then_some(sn)
    }

    /// The entry of a position that is or was a key's.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the log does not give it, or what the log reports.
    fn fetch(&self, log: &dyn Log, sn: u64) -> Result<Stored, Error> {
        let cached = self.cache.part().get(sn);
        self.cache.count(usize::from(cached.is_some()), usize::from(cached.is_none()));
        if let Some(stored) = cached {
            return Ok(stored);
        }
        let mut found = None;
        self.read(log, &[sn], &mut |_, stored| found = Some(stored))?;
        found.ok_or_else(|| missing(log, sn))
    }

    /// The entries of many positions, which may repeat, in order. What is missing is read by several threads.
    ///
    /// # Errors
    /// Those of [`Self::fetch`].
    fn fetch_many(&self, log: &dyn Log, sns: &[u64]) -> Result<Vec<Stored>, Error> {
        let mut part = self.cache.part();
        let mut found: Vec<Option<Stored>> = sns.iter().map(|sn| part.get(*sn)).collect();
        drop(part);
        let mut wanted: Vec<u64> =
            sns.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(sn, _)| *sn).collect();
        self.cache.count(sns.len() - wanted.len(), wanted.len());
        wanted.sort_unstable();
        wanted.dedup();
        // Positions of one extent are read at once.
        let extents: Vec<Option<(u64, u64)>> = wanted.iter().map(|sn| self.extents.find(*sn)).collect();
        let mut rest = &wanted[..];
        let parts: Vec<&[u64]> = extents
            .chunk_by(|a, b| a == b)
            .map(|same| {
                let (part, others) = rest.split_at(same.len());
                rest = others;
                part
            })
            .collect();
        let read = |part: &&[u64]| {
            let mut read = Vec::with_capacity(part.len());
            self.read(log, part, &mut |sn, stored| read.push((sn, stored))).map(|()| read)
        };
        let readers = || {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(READERS).thread_name(|i| format!("phalanx-read-{i}"));
            pool.build().ok()
        };
        let readers = (parts.len() >= PARALLEL).then(|| self.readers.get_or_init(readers).as_ref()).flatten();
        let read: Result<Vec<_>, Error> = match readers {
            Some(readers) => readers.install(|| parts.par_iter().with_min_len(4).map(read).collect()),
            None => parts.iter().map(read).collect(),
        };
        let mut read: Vec<(u64, Stored)> = read?.into_iter().flatten().collect();
        read.sort_unstable_by_key(|(sn, _)| *sn);
        for (sn, found) in sns.iter().zip(&mut found) {
            if found.is_none() {
                let at = read.binary_search_by_key(sn, |(sn, _)| *sn).map_err(|_| missing(log, *sn))?;
                *found = Some(Arc::clone(&read[at].1));
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads entries (ascending), of one extent as far as they are in the log, and keeps them.
    fn read(&self, log: &dyn Log, sns: &[u64], see: &mut dyn FnMut(u64, Stored)) -> Result<(), Error> {
        let mut see = |sn: u64, stored: Stored| {
            if self.cache.keeps() {
                self.cache.part().put(sn, Arc::clone(&stored));
            }
            see(sn, stored);
        };
        let sentinels = self.params.sentinels;
        // The log begins after them.
        let (first, sns) = sns.split_at(sns.partition_point(|sn| *sn < sentinels.count()));
        for sn in first {
            let (name, mut stored) = (sentinels.name(*sn), vec![0; 8]);
            sentinels.entry(*sn, &name).encode(&mut stored);
            see(*sn, stored.into());
        }
        let fresh_sn = self.fresh.iter().find_map(Fresh::first_sn).unwrap_or(u64::MAX);
        let (logged, fresh) = sns.split_at(sns.partition_point(|sn| *sn < fresh_sn));
        for sn in fresh {
            let block = self.fresh.iter().rev().find(|block| block.first_sn().is_some_and(|first| first <= *sn));
            let body = block.and_then(|block| block.body(*sn)).ok_or_else(|| missing(log, *sn))?;
            pick(body, &[*sn], &mut see);
        }
        let Some(first) = logged.first() else { return Ok(()) };
        let (_, place) = self.extents.find(*first).ok_or_else(|| missing(log, *first))?;
        log.read(place, &mut |kind, body| pick((kind, body), logged, &mut see))
    }

    /// Brings the state up to date with a block.
    ///
    /// `rows` are the block's, unless they can be read from the log.
    pub(crate) fn apply(&mut self, steps: &[Step], next_sn: u64, id: u64, seq: u64, rows: Arc<Vec<Rows>>) {
        self.keys.advance(next_sn);
        let fits = self.step(steps);
        debug_assert!(fits, "a block is computed from the state that it is applied to");
        let fresh = Fresh::new(id, seq, rows);
        if self.cache.keeps() {
            let mut part = self.cache.part();
            steps.iter().filter_map(|step| step.before).for_each(|sn| part.remove(sn));
            for extent in &fresh.extents {
                let Some((kind, body)) = fresh.frame(extent) else { continue };
                each(kind, body, &mut |sn, stored| part.put(sn, stored()));
            }
        }
        self.fresh.push_back(fresh);
    }

    /// Moves keys to other positions. False if one was not where it should have been.
    #[must_use]
    pub(crate) fn step(&mut self, steps: &[Step]) -> bool {
        let mut fits = true;
        for step in steps {
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

    /// Leads the state back to where it ended at `next_sn`.
    pub(crate) fn unfold(&mut self, steps: &[Step], next_sn: u64) {
        for step in steps.iter().rev() {
            let back = Step { before: step.after, after: step.before, ..*step };
            let fits = self.step(&[back]);
            debug_assert!(fits, "what a block did can be taken back");
            step.after.into_iter().for_each(|sn| self.cache.part().remove(sn));
        }
        self.keys.advance(next_sn);
        self.extents.truncate(next_sn);
        self.fresh.retain(|fresh| fresh.first_sn().is_none_or(|first| first < next_sn));
        // The positions are given to other entries.
        self.epochs.iter_mut().for_each(|first_taken| *first_taken = next_sn.min(*first_taken));
        self.epochs.push(next_sn);
    }

    /// Notes where the entries are of blocks whose writes are below `next_seq`.
    pub(crate) fn release(&mut self, log: &dyn Log, next_seq: u64) {
        while self.fresh.front().is_some_and(|fresh| fresh.seq < next_seq)
            && let Some(fresh) = self.fresh.pop_front()
        {
            settle(log, fresh.id, &fresh.extents, &mut self.extents);
        }
    }

    /// Notes what the state takes.
    pub(crate) fn memory(&self, to: &mut MemoryUse) {
        to.index = self.keys.memory() + self.extents.memory();
        to.cache = self.cache.memory();
    }

    /// How often an entry was asked for that was cached, and that was not.
    pub(crate) fn cache_counts(&self) -> (u64, u64) {
        self.cache.counts()
    }

    /// What [`Self::release`] has not noted yet.
    pub(crate) fn fresh_extents(&self) -> FreshExtents {
        FreshExtents(self.fresh.iter().map(|fresh| (fresh.id, fresh.extents.clone())).collect())
    }

    /// Hands all keys with their values to `see`, in order of position.
    ///
    /// # Errors
    /// Those of [`Self::fetch`].
    pub(crate) fn each(&self, log: &dyn Log, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let mut sns: Vec<u64> = self.keys.up_from([0; 5]).map(|(_, sn)| sn).collect();
        sns.par_sort_unstable();
        for part in sns.chunks(1 << 12) {
            for (sn, stored) in part.iter().zip(self.fetch_many(log, part)?) {
                let item = session::Item::new(&self.params, *sn, stored).ok_or_else(|| missing(log, *sn))?;
                if !item.sentinel {
                    see(item.key(), item.value());
                }
            }
        }
        Ok(())
    }
}

/// Extents whose places are not known yet, by block.
#[derive(Debug, Default)]
pub(crate) struct FreshExtents(Vec<(u64, Vec<FreshExtent>)>);

impl FreshExtents {
    /// Adds their places, once they are written.
    pub(crate) fn settle(&self, log: &dyn Log, extents: &mut Extents) {
        self.0.iter().for_each(|(id, fresh)| settle(log, *id, fresh, extents));
    }
}

fn settle(log: &dyn Log, id: u64, fresh: &[FreshExtent], extents: &mut Extents) {
    if let Some(begin) = log.begin(id) {
        fresh.iter().for_each(|extent| extents.push(extent.first_sn, begin.place(extent.offset, extent.index)));
    }
}

impl Fresh {
    fn new(id: u64, seq: u64, rows: Arc<Vec<Rows>>) -> Self {
        let (mut extents, mut offset, mut index) = (Vec::new(), 0, 0);
        for (at, part) in rows.iter().enumerate() {
            let mut start = 0;
            for frame in part.iter() {
                let head = extent_head(&frame[FRAME_HEADER..]).map(|(head, _)| head);
                if let Some(head) = head.filter(|head| head.entries > 0) {
                    let (rows, end) = (at as u32, start + frame.len());
                    extents.push(FreshExtent { first_sn: head.first_sn, rows, start, end, offset, index });
                }
                start += frame.len();
                offset += frame.len() as u64;
                index += 1;
            }
        }
        Self { id, seq, rows, extents }
    }

    /// The first position, if there is any.
    fn first_sn(&self) -> Option<u64> {
        self.extents.first().map(|extent| extent.first_sn)
    }

    fn frame(&self, extent: &FreshExtent) -> Option<(Kind, &[u8])> {
        frame_body(&self.rows[extent.rows as usize].bytes[extent.start..extent.end])
    }

    /// The extent of a position.
    fn body(&self, sn: u64) -> Option<(Kind, &[u8])> {
        let at = self.extents.partition_point(|extent| extent.first_sn <= sn).checked_sub(1)?;
        self.frame(&self.extents[at])
    }
}

/// Hands the entries of an extent to `see`, with their positions.
fn each(kind: Kind, body: &[u8], see: &mut dyn FnMut(u64, &mut dyn FnMut() -> Stored)) {
    let Some((head, _)) = extent_head(body) else { return };
    let (mut sn, mut both) = (head.first_sn, Vec::new());
    read_extent(kind, body, |item| {
        if let ExtentItem::Entry(entry, encoded) | ExtentItem::Moved(_, entry, encoded) = item {
            see(sn, &mut || {
                both.clear();
                both.extend_from_slice(&entry.height.to_be_bytes());
                both.extend_from_slice(encoded);
                both.as_slice().into()
            });
            sn += 1;
        }
    });
}

/// Picks the entries of some positions (ascending) out of an extent.
fn pick((kind, body): (Kind, &[u8]), sns: &[u64], see: &mut dyn FnMut(u64, Stored)) {
    let mut wanted = sns.iter().peekable();
    each(kind, body, &mut |sn, stored| {
        if wanted.next_if(|wanted| **wanted == sn).is_some() {
            see(sn, stored());
        }
    });
}

fn missing(log: &dyn Log, sn: u64) -> Error {
    Error::Corrupt { path: log.path(), what: format!("no entry of position {sn}") }
}

/// How a block changes the positions of keys.
pub(crate) fn steps_of(state: &impl Ground, effect: &Effect) -> Vec<Step> {
    let Effect { linked, moves, first_sn, .. } = effect;
    let deletes = linked.deletes.iter().map(|id| Step {
        prefix: state.prefix(*id),
        before: Some(state.written(*id).sn),
        after: None,
    });
    let appends = (0..linked.len()).map(|rank| {
        let after = Some(first_sn + rank as u64);
        match linked.get(rank) {
            (_, Who::Known(id)) => Step { prefix: state.prefix(id), before: Some(state.written(id).sn), after },
            (op, Who::New(new)) => {
                Step { prefix: prefix(linked.digest(op.unwrap_or_default(), new)), before: None, after }
            }
        }
    });
    let moves = moves.iter().enumerate().map(|(rank, (id, from))| Step {
        prefix: state.prefix(*id),
        before: Some(*from),
        after: Some(first_sn + (linked.len() + rank) as u64),
    });
    deletes.chain(appends).chain(moves).collect()
}
