//! Blocks that are not committed yet, and perhaps never will be.
//!
//! ```text
//!  prepare_on(parent) ──► Prepared ──hold──► block ──stage──► block in the log ──promote──► tip
//!                                              │                  │                          │
//!                                           discard            discard                     rewind
//! ```

use std::sync::{Arc, PoisonError};

use phalanx_merkle_proof::Hash;

use crate::{
    commit::{Layer, Overlaid, Overlay},
    log::{BlockRecord, ExtentItem, Pending, Write, read_extent},
    state::State,
    store::commit::check_note,
    store::forks::{Fork, ForkState},
    store::handle::Store,
    store::prepared::Prepared,
    tree::TreeView,
    types::{BlockId, Delta, Error},
};

/// Most uncommitted blocks on top of each other: far more than a pipeline has under way.
const MAX_DEPTH: usize = 64;

impl Store {
    /// Hashes the block that `delta` makes on top of the tip or of a held block. Changes nothing and does no I/O.
    ///
    /// # Errors
    /// [`Error::Gone`], and those of [`Self::prepare`].
    pub fn prepare_on(&self, parent: BlockId, delta: Delta) -> Result<Prepared, Error> {
        self.shared.check()?;
        let core = self.core();
        let tip = core.tip_id();
        if parent.0 == tip {
            return self.prepare(delta, core.height().map_or(0, |height| height + 1));
        }
        let fork = self.forks.get(&parent.0).ok_or(Error::Gone { block: parent })?;
        let overlay = match fork.overlay.base_id == tip {
            true => Arc::clone(&fork.overlay),
            false => Arc::new(fork.overlay.above(tip, &core.state)),
        };
        let tree = TreeView::new(&core.tree, &overlay.layers).observed_by(core.fork_join.par());
        let (hash, log) = (core.params.hash, &*self.shared.log);
        let effect = core.state.compute(log, Some(&*overlay), tree, hash, delta, fork.height + 1)?;
        Ok(Prepared { ground: Some(overlay), ..self.prepared(parent.0, effect) })
    }

    /// Keeps a prepared block beside the chain: it can be read ([`Self::view`]), built upon ([`Self::prepare_on`]),
    /// written ([`Self::stage`]), made the tip ([`Self::apply_fork`]) or dropped ([`Self::discard_fork`]). The committed state
    /// does not change. Nothing reaches the log.
    ///
    /// Takes time and memory in proportion to the block and to the held blocks below it.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was prepared by another store, [`Error::Gone`] if its parent is not the tip or a held block,
    /// [`Error::TooDeep`], [`Error::Poisoned`].
    pub fn add_fork(&mut self, prepared: Prepared) -> Result<BlockId, Error> {
        self.shared.check()?;
        if !Arc::ptr_eq(&prepared.shared, &self.shared) {
            return Err(Error::Stale { height: prepared.height() });
        }
        let id = self.new_id();
        self.add_fork_as(id, prepared, false)
    }

    fn add_fork_as(&mut self, id: u64, prepared: Prepared, staged: bool) -> Result<BlockId, Error> {
        let Prepared { parent_id, ground, effect, payload, .. } = prepared;
        let core = self.core();
        let tip = core.tip_id();
        let mut overlay = match self.forks.get(&parent_id) {
            Some(parent) if parent.overlay.base_id == tip => (*parent.overlay).clone(),
            Some(parent) => parent.overlay.above(tip, &core.state),
            None if parent_id == tip => Overlay::new(tip, core.params.hash, &core.state),
            None => return Err(Error::Gone { block: BlockId(parent_id) }),
        };
        if overlay.layers.len() >= MAX_DEPTH {
            return Err(Error::TooDeep { max: MAX_DEPTH });
        }
        let height = effect.height;
        let layer = Layer::new(id, &core.state, &*self.shared.log, ground, effect);
        overlay.push(Arc::new(layer));
        drop(core);
        let overlay = Arc::new(overlay);
        self.forks.insert(id, ForkState { overlay, parent_id, height, payload, staged });
        Ok(BlockId(id))
    }

    /// All held blocks, in the order in which they were made.
    pub fn forks(&self) -> Vec<Fork> {
        let mut held: Vec<Fork> = self
            .forks
            .iter()
            .map(|(id, fork)| Fork {
                block: BlockId(*id),
                parent: BlockId(fork.parent_id),
                height: fork.height,
                root: fork.overlay.own().map_or([0; 32], |layer| layer.tree.root),
                payload: fork.payload.clone(),
                staged: fork.staged,
            })
            .collect();
        held.sort_by_key(|held| held.block);
        held
    }

    /// Whether a block is held beside the chain.
    pub fn is_fork(&self, block: BlockId) -> bool {
        self.forks.contains_key(&block.0)
    }

    /// Hands the keys that a held block writes to `visit`, with their values, `None` for those that it deletes. Some are
    /// rewritten as they were.
    ///
    /// # Errors
    /// [`Error::Gone`], and those of `visit`.
    pub fn fork_changes<E: From<Error>>(
        &self,
        block: BlockId,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let layer = self.forks.get(&block.0).and_then(|fork| fork.overlay.own());
        layer.ok_or(Error::Gone { block })?.items().try_for_each(|(key, value)| visit(key, value))
    }

    fn parent_root(&self, parent_id: u64) -> Hash {
        let parent = self.forks.get(&parent_id).and_then(|fork| fork.overlay.own());
        parent.map_or_else(|| self.root(), |layer| layer.tree.root)
    }

    /// Brings a held block to the log, where it stays invisible until it is promoted. Once the write is done the block
    /// survives `kill -9` (unless the durability is `None`); the promotion's write makes it survive power loss. `None` if
    /// it is staged already.
    ///
    /// Its parent, unless committed, must have been staged before.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Stale`] if its parent is not staged, [`Error::Poisoned`].
    pub fn stage(&mut self, block: BlockId) -> Result<Option<Pending>, Error> {
        self.shared.check()?;
        let fork = self.forks.get(&block.0).ok_or(Error::Gone { block })?;
        if fork.staged {
            return Ok(None);
        }
        if self.forks.get(&fork.parent_id).is_some_and(|parent| !parent.staged) {
            return Err(Error::Stale { height: fork.height });
        }
        let pending = self.write_fork(block, false)?;
        Ok(Some(pending))
    }

    fn write_fork(&mut self, block: BlockId, committed: bool) -> Result<Pending, Error> {
        let gone = || Error::Gone { block };
        let fork = self.forks.get_mut(&block.0).ok_or_else(gone)?;
        fork.staged = true;
        let (parent_id, payload) = (fork.parent_id, fork.payload.clone());
        let layer = Arc::clone(fork.overlay.own().ok_or_else(gone)?);
        let mut effect = layer.effect.lock().unwrap_or_else(PoisonError::into_inner);
        let effect = effect.as_mut().ok_or_else(gone)?;
        let parent = self.parent_root(parent_id);
        let batch = self.batch(effect, block.0, parent_id, parent, payload, committed);
        Ok(Pending::new(Arc::clone(&self.shared), Write::Block(Box::new(batch))))
    }

    /// Makes a held block, whose parent is the tip, the tip in memory. If it was staged, all that is left to write is
    /// which block is the tip. Blocks that do not stand on it are gone.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Stale`] if its parent is not the tip, [`Error::Poisoned`]. Nothing has changed then.
    pub fn apply_fork(&mut self, block: BlockId) -> Result<Pending, Error> {
        self.apply_fork_noted(block, Vec::new())
    }

    /// [`Self::apply_fork`] for a staged block, with a note that comes back with the tip ([`Self::note`]).
    ///
    /// # Errors
    /// Those of [`Self::apply_fork`]; [`Error::Stale`] if the block is not staged, [`Error::TooLong`] for a note past 16 MiB.
    pub fn apply_fork_noted(&mut self, block: BlockId, note: Vec<u8>) -> Result<Pending, Error> {
        self.shared.check()?;
        check_note(&note)?;
        let gone = || Error::Gone { block };
        let fork = self.forks.get(&block.0).ok_or_else(gone)?;
        let (height, staged, parent_id) = (fork.height, fork.staged, fork.parent_id);
        if parent_id != self.tip().0 || !(staged || note.is_empty()) {
            return Err(Error::Stale { height });
        }
        let overlay = Arc::clone(&fork.overlay);
        let layer = overlay.own().ok_or_else(gone)?;
        let payload = fork.payload.clone();
        let effect = layer.effect.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut effect = effect.ok_or_else(gone)?;
        if let (Some(overlay), State::Resident(state)) = (&layer.ground, &self.core().state) {
            effect.lower(&Overlaid { state, overlay });
        }
        let next_seq = self.next_seq;
        let parent = self.root();
        let batch = self.batch(&mut effect, block.0, parent_id, parent, payload.clone(), true);
        self.advance(effect, &batch, payload);
        if staged {
            // The row was written before; the tip takes its place in the sequence.
            self.next_seq = next_seq;
            return self.write_tip(block.0, height, note);
        }
        Ok(Pending::new(Arc::clone(&self.shared), Write::Block(Box::new(batch))))
    }

    /// Drops a held block and all that stand on it; returns how many. What is in the log of them is never read again;
    /// until something else is committed, reopening the store brings staged ones back.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn discard_fork(&mut self, block: BlockId) -> Result<usize, Error> {
        if !self.forks.contains_key(&block.0) {
            return Err(Error::Gone { block });
        }
        let before = self.forks.len();
        self.forks.retain(|_, fork| !fork.overlay.layers.iter().any(|layer| layer.id == block.0));
        Ok(before - self.forks.len())
    }

    /// Takes the chain back to an earlier height. Held blocks are gone.
    ///
    /// # Errors
    /// [`Error::Rewind`] if that is further back than the store can undo, [`Error::Poisoned`], or what reading the log
    /// reports; nothing has changed then.
    pub fn rewind(&mut self, height: Option<u64>) -> Result<Pending, Error> {
        self.rewind_noted(height, Vec::new())
    }

    /// [`Self::rewind`] with a note that comes back with the tip ([`Self::note`]).
    ///
    /// # Errors
    /// Those of [`Self::rewind`], and [`Error::TooLong`] for a note past 16 MiB.
    pub fn rewind_noted(&mut self, height: Option<u64>, note: Vec<u8>) -> Result<Pending, Error> {
        self.shared.check()?;
        check_note(&note)?;
        let core = self.core();
        let blocks = |height: Option<u64>| height.map_or(0, |height| height + 1);
        let (now, wanted) = (blocks(core.height()), blocks(height));
        let steps = now.checked_sub(wanted).and_then(|steps| usize::try_from(steps).ok());
        let steps = steps.filter(|steps| *steps <= core.history.len());
        // Before genesis there is no block that the log could name.
        let target = height.and_then(|height| Some((steps?, *core.at(height)?)));
        let Some((steps, target)) = target else {
            let earliest = (now.max(1) - 1).checked_sub(core.history.len() as u64).or(Some(0)).filter(|_| now > 0);
            return Err(Error::Rewind { height, earliest });
        };
        drop(core);
        // Before anything changes: the log still names the old tip, so what fails here has done nothing.
        let payload = self.shared.log.block(target.id)?.map(|record| record.payload).unwrap_or_default();
        let mut core = self.core.write();
        (0..steps).for_each(|_| _ = core.roll_back());
        drop(core);
        self.forks.clear();
        self.job.forget();
        self.set_payload(payload);
        self.write_tip(target.id, target.height, note)
    }

    /// Holds the blocks again that were staged on top of the tip. Their rows come by ascending id.
    pub(crate) fn restore(&mut self, staged: Vec<BlockRecord>) -> Result<(), Error> {
        for record in staged {
            if record.parent_id != self.tip().0 && !self.forks.contains_key(&record.parent_id) {
                continue;
            }
            let mut delta = Delta::new();
            self.shared.log.extents(record.id, None, &mut |kind, body| {
                read_extent(kind, body, |item| match item {
                    // Keys that only got another next key have their old values here, which changes nothing.
                    ExtentItem::Entry(entry, _) if !entry.sentinel => delta.put(entry.key, entry.value),
                    ExtentItem::Delete(_, key) => delta.delete(key),
                    ExtentItem::Entry(..) | ExtentItem::Moved(..) => {}
                });
                Ok(true)
            })?;
            let prepared = self.prepare_on(BlockId(record.parent_id), delta)?;
            let fits = prepared.root() == record.root && prepared.height() == record.height;
            if !fits {
                let what = format!("entries of the staged block {} do not lead to its root", record.height);
                return Err(Error::Corrupt { path: self.shared.log.path(), what });
            }
            let mut prepared = Prepared { payload: record.payload, ..prepared };
            // They are in the log.
            prepared.effect.kept = Some(Arc::new(std::mem::take(&mut prepared.effect.records)));
            self.add_fork_as(record.id, prepared, true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
