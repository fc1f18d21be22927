//! Restores the state after a checkpoint's block: a paged state from its index, a resident state from the active
//! entries of the log.

use phalanx_merkle_proof::{Entry, Sentinels, TWIG_LEAVES};
use rayon::prelude::*;

use super::{
    checkpoint::{CheckpointBlock, Ignored, Image, Opened},
    feed::feed,
    recover::{Recovery, genesis},
    replay::Replayer,
};
use crate::{
    log::{BlockRecord, ExtentHead, Kind, Log, extent_head, read_extent},
    parallel::Par,
    state::{Extents, KeyDigester, Keys, Paged, Resident, Run as _, State, slot_of},
    tree::Tree,
    types::{Error, Memory, prefix},
};

impl Recovery {
    /// Restores state and tree of a checkpoint, ready to replay the chain from the next block on.
    ///
    /// # Errors
    /// The reason why the checkpoint cannot be used.
    pub(super) fn restore<'l>(
        &self,
        log: &'l dyn Log,
        chain: &[BlockRecord],
        image: Image,
    ) -> Result<(Replayer<'l>, usize, Opened), Ignored> {
        let Image { of, tree, index } = image;
        let CheckpointBlock { id, height, root, shape } = of;
        let same = |record: &BlockRecord| {
            record.id == id && record.height == height && record.root == root && record.shape == shape
        };
        let at = chain.iter().position(same).ok_or(Ignored::NotInChain)? + 1;
        if chain.len() - at < self.window {
            return Err(Ignored::TooRecent);
        }
        // Entries from the floor on may be current, whole twigs are read, and sentinels that are missing would not be counted.
        let floor = shape.first_twig() * TWIG_LEAVES as u64;
        if chain[0].first_sn > floor.max(self.params.sentinels.count()) {
            return Err(Ignored::Pruned);
        }
        let damaged = || Ignored::Damaged("it does not lead to its root".into());
        let tree = Tree::from_image(self.params, shape, tree).ok_or_else(damaged)?;
        if tree.root() != root {
            return Err(damaged());
        }
        let digester = KeyDigester::new(self.salt);
        let state = match (self.memory, index) {
            (Memory::Cached { bytes }, Some((keys, mut extents))) => {
                extents.prune(chain[0].first_sn);
                State::Paged(Paged::with(&self.params, digester, bytes, keys, extents))
            }
            (Memory::Cached { bytes }, None) => {
                let (keys, extents) = self.keys(log, &chain[..at], &tree)?;
                State::Paged(Paged::with(&self.params, digester, bytes, keys, extents))
            }
            (Memory::Resident, _) => {
                let (mut state, _) = genesis(self.params, self.salt, self.memory);
                if let State::Resident(state) = &mut state {
                    self.fill(log, &chain[..at], &tree, state)?;
                }
                state
            }
        };
        if state.len() as u64 + self.params.sentinels.count() != shape.active {
            return Err(damaged());
        }
        Ok((self.reader(log, state, tree, 0), at, Opened::Checkpoint { height }))
    }

    /// Hands the extents of the log that may have active entries to `visit`, a batch at a time.
    fn each_batch(
        &self,
        log: &dyn Log,
        chain: &[BlockRecord],
        tree: &Tree,
        places: bool,
        mut visit: impl FnMut(&[Run<'_>]) -> bool,
    ) -> Result<(), Ignored> {
        let floor = tree.shape().floor;
        let chain = &chain[chain.partition_point(|record| record.shape.next_sn <= floor)..];
        let mut next_sn = chain.first().map_or(0, |record| record.first_sn);
        let unfit = || Error::Corrupt { path: log.path(), what: "the log has other entries".into() };
        let read = feed(log, chain, places, |batch| {
            let mut runs = Vec::with_capacity(batch.parts.len());
            for extent in batch.extents() {
                let body = batch.body(extent);
                let head = extent_head(body).map(|(head, _)| head).filter(|head| head.first_sn == next_sn);
                let head = head.ok_or_else(unfit)?;
                next_sn += u64::from(head.entries);
                runs.push(Run { head, kind: extent.kind, body, place: extent.place });
            }
            visit(&runs).then_some(()).ok_or_else(unfit)
        });
        read.map_err(|error| Ignored::Damaged(error.to_string()))?;
        let whole = next_sn == chain.last().map_or(0, |record| record.shape.next_sn);
        whole.then_some(()).ok_or_else(|| Ignored::Damaged(unfit().to_string()))
    }

    /// Builds the index of a paged state for a checkpoint that has none.
    fn keys(&self, log: &dyn Log, chain: &[BlockRecord], tree: &Tree) -> Result<(Keys, Extents), Ignored> {
        let (sentinels, hash) = (self.params.sentinels, self.params.hash);
        let is_active = |sn: u64| sn >= tree.shape().floor && tree.is_active(sn);
        let place = |index: u64| prefix(&Sentinels::place(sentinels.name(index)));
        let first = (0..sentinels.count()).filter(|sn| is_active(*sn));
        let mut slots: Vec<_> = first.map(|sn| slot_of(place(sn), sn)).collect();
        let mut extents = Extents::default();
        self.each_batch(log, chain, tree, true, |runs| {
            let active = Par::UNOBSERVED.map(runs, 32 * 100, |run| {
                let (mut slots, mut sn) = (Vec::new(), run.head.first_sn);
                run.each(&mut |entry| {
                    slots.extend(is_active(sn).then(|| slot_of(prefix(&entry.key_hash(hash)), sn)));
                    sn += 1;
                });
                slots
            });
            for (run, active) in runs.iter().zip(active) {
                if let Some(place) = run.place.filter(|_| run.head.entries > 0) {
                    extents.push(run.head.first_sn, place);
                }
                slots.extend(active);
            }
            true
        })?;
        slots.par_sort_unstable();
        let keys = Keys::from_sorted(slots, tree.shape().next_sn);
        keys.map(|keys| (keys, extents)).ok_or_else(|| Ignored::Damaged("its keys are out of order".into()))
    }

    /// Fills a resident state that has sentinels only.
    fn fill(&self, log: &dyn Log, chain: &[BlockRecord], tree: &Tree, state: &mut Resident) -> Result<(), Ignored> {
        let floor = tree.shape().floor;
        let is_active = |sn: u64| sn >= floor && tree.is_active(sn);
        let mut begun = false;
        self.each_batch(log, chain, tree, false, |runs| {
            if let Some(run) = runs.first().filter(|_| !begun) {
                begun = true;
                state.raise_floor(floor);
                if run.head.first_sn > self.params.sentinels.count() {
                    state.begin_at(run.head.first_sn);
                }
            }
            state.load(runs, is_active)
        })?;
        state.raise_floor(floor);
        state.index_all();
        Ok(())
    }
}

/// Extent of the log.
struct Run<'b> {
    head: ExtentHead,
    kind: Kind,
    body: &'b [u8],
    place: Option<u64>,
}

impl crate::state::Run for Run<'_> {
    fn first_sn(&self) -> u64 {
        self.head.first_sn
    }

    fn len(&self) -> u64 {
        u64::from(self.head.entries)
    }

    fn each<'s>(&'s self, visit: &mut dyn FnMut(Entry<'s>)) {
        read_extent(self.kind, self.body, |item| {
            if let Some((entry, _)) = item.entry() {
                visit(entry);
            }
        });
    }
}
