//! Forks: blocks that are not committed yet, and perhaps never will be.
//!
//! ```text
//!  prepare_on(parent) ──► Prepared ──add_fork──► fork ──stage──► fork in the log ──apply_fork──► tip
//!                                                 │                   │                          │
//!                                           discard_fork        discard_fork                  rewind
//! ```

use std::sync::{Arc, PoisonError};

use phalanx_merkle_proof::Hash;

use crate::{
    commit::{Layer, MAX_DEPTH, Overlaid, Overlay, Unapplied},
    log::{BlockRecord, ExtentItem, Pending, Write, read_extent},
    state::State,
    store::commit::check_note,
    store::forks::{Fork, ForkState},
    store::handle::Store,
    store::prepared::Prepared,
    tree::TreeView,
    types::{BlockId, Delta, Error},
};

impl Store {
    /// Prepares the block that `delta` makes on top of the tip or of a fork, without I/O and without changing the
    /// store.
    ///
    /// # Errors
    /// [`Error::Gone`], and errors of [`Self::prepare`].
    pub fn prepare_on(&self, parent: BlockId, delta: Delta) -> Result<Prepared, Error> {
        self.shared.check()?;
        let core = self.core();
        let tip = core.tip_id();
        if parent.0 == tip {
            return self.prepare(delta, core.next_height());
        }
        let fork = self.forks.get(&parent.0).ok_or(Error::Gone { block: parent })?;
        let overlay = Arc::clone(&fork.overlay);
        let tree = TreeView::new(&core.tree, &*overlay).observed_by(core.fork_join.par());
        let (hash, log) = (core.params.hash, &*self.shared.log);
        let effect = core.state.compute(log, Some(&*overlay), tree, hash, delta, fork.height + 1)?;
        Ok(Prepared { base: Some(overlay), ..self.prepared(parent.0, effect) })
    }

    /// Keeps a prepared block as a fork. It can be read ([`Self::snapshot`]), built upon ([`Self::prepare_on`]),
    /// written ([`Self::stage`]), made the tip ([`Self::apply_fork`]) or dropped ([`Self::discard_fork`]).
    ///
    /// The committed state does not change, and nothing reaches the log. Takes time and memory in proportion to the
    /// block, however much the forks below it change ([`Self::fork_memory`]).
    ///
    /// # Errors
    /// [`Error::Stale`] if another store prepared it, [`Error::Gone`] if its parent is neither the tip nor a fork,
    /// [`Error::TooDeep`], [`Error::TooLong`] past 8 million keys, [`Error::Poisoned`].
    pub fn add_fork(&mut self, prepared: Prepared) -> Result<BlockId, Error> {
        self.shared.check()?;
        if !Arc::ptr_eq(&prepared.shared, &self.shared) {
            return Err(Error::Stale { height: prepared.height() });
        }
        let id = self.new_id();
        self.add_fork_as(id, prepared, false)
    }

    fn add_fork_as(&mut self, id: u64, prepared: Prepared, staged: bool) -> Result<BlockId, Error> {
        let Prepared { parent_id, base, effect, payload, .. } = prepared;
        let core = self.core();
        let tip = core.tip_id();
        let mut overlay = match self.forks.get(&parent_id) {
            Some(parent) => parent.overlay.above(tip),
            None if parent_id == tip => Overlay::new(tip, core.params.hash, &core.state),
            None => return Err(Error::Gone { block: BlockId(parent_id) }),
        };
        if overlay.depth_above(tip).is_none_or(|depth| depth >= MAX_DEPTH) {
            return Err(Error::TooDeep { max: MAX_DEPTH });
        }
        let height = effect.height;
        let layer = Layer::new(id, &core, base, effect);
        overlay.push(Arc::new(layer))?;
        drop(core);
        let overlay = Arc::new(overlay);
        self.forks.insert(id, ForkState { overlay, parent_id, height, payload, staged });
        Ok(BlockId(id))
    }

    /// All forks, in the order in which they were added.
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

    /// Returns true if the block is a fork.
    pub fn is_fork(&self, block: BlockId) -> bool {
        self.forks.contains_key(&block.0)
    }

    /// Bytes that a fork takes in memory, beside what it shares with the forks below it; `None` if there is no such fork.
    pub fn fork_memory(&self, block: BlockId) -> Option<usize> {
        let fork = self.forks.get(&block.0)?;
        Some(fork.overlay.own()?.memory() + fork.payload.capacity())
    }

    /// Returns true if the block is a fork, and is staged or being staged.
    pub fn is_staged(&self, block: BlockId) -> bool {
        self.forks.get(&block.0).is_some_and(|fork| fork.staged)
    }

    /// Hands the keys that a fork writes, or a committed block that a rewind can reach, to `visit`, with their values; `None` for
    /// deleted keys. Some values may be unchanged.
    ///
    /// The log of a committed block has its changes, and must be there. A store in memory has none.
    ///
    /// # Errors
    /// [`Error::Gone`], errors of `visit`, or what reading the log reports.
    pub fn changes_of<E: From<Error>>(
        &self,
        block: BlockId,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let gone = Error::Gone { block };
        if let Some(fork) = self.forks.get(&block.0) {
            let layer = fork.overlay.own().ok_or(gone)?;
            return layer.items().try_for_each(|(key, value)| visit(key, value));
        }
        self.core().depth_of(block.0).ok_or(gone)?;
        let mut visited = Ok(());
        self.logged_changes(block.0, |key, value| {
            if visited.is_ok() {
                visited = visit(key, value);
            }
        })?;
        visited
    }

    /// Hands the keys that a block writes, by its records in the log, to `visit`.
    fn logged_changes(&self, id: u64, mut visit: impl FnMut(&[u8], Option<&[u8]>)) -> Result<(), Error> {
        self.shared.log.extents(id, None, &mut |kind, body| {
            read_extent(kind, body, |item| match item {
                // Marks with only a new next key have their old values here, which changes nothing.
                ExtentItem::Entry(entry, _) if !entry.sentinel => visit(entry.key, Some(entry.value)),
                ExtentItem::Delete(_, key) => visit(key, None),
                ExtentItem::Entry(..) | ExtentItem::Moved(..) | ExtentItem::Kept(..) => {}
            });
            Ok(true)
        })
    }

    fn parent_root(&self, parent_id: u64) -> Hash {
        let parent = self.forks.get(&parent_id).and_then(|fork| fork.overlay.own());
        parent.map_or_else(|| self.root(), |layer| layer.tree.root)
    }

    /// Stages a fork: its write brings it to the log, where it is invisible until it is applied. `None` if it is staged
    /// already.
    ///
    /// A staged block survives `kill -9`, unless the durability is `None`; the write of [`Self::apply_fork`] makes it
    /// durable. Its parent must be committed or staged.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Stale`] if its parent is not staged, [`Error::Poisoned`].
    pub fn stage(&mut self, block: BlockId) -> Result<Option<Pending>, Error> {
        self.shared.check_writable()?;
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
        let mut unapplied = layer.unapplied.lock().unwrap_or_else(PoisonError::into_inner);
        let effect = &mut unapplied.as_mut().ok_or_else(gone)?.effect;
        let parent = self.parent_root(parent_id);
        let batch = self.batch(effect, block.0, parent_id, parent, payload, committed);
        Ok(Pending::new(Arc::clone(&self.shared), Write::Block(Box::new(batch))))
    }

    /// Makes a fork on the tip the tip in memory, and returns its write. For a staged fork only the change of the tip
    /// is written. Forks on other blocks are gone.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Stale`] if its parent is not the tip, [`Error::Poisoned`]. Nothing has changed then.
    pub fn apply_fork(&mut self, block: BlockId) -> Result<Pending, Error> {
        self.apply_fork_noted(block, Vec::new())
    }

    /// Applies a staged fork with a note, which is stored with the tip ([`Self::note`]).
    ///
    /// # Errors
    /// Errors of [`Self::apply_fork`]; [`Error::Stale`] if the fork is not staged, [`Error::TooLong`] for a note past
    /// 16 MiB.
    pub fn apply_fork_noted(&mut self, block: BlockId, note: Vec<u8>) -> Result<Pending, Error> {
        self.shared.check_writable()?;
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
        let unapplied = layer.unapplied.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Unapplied { mut effect, base } = unapplied.ok_or_else(gone)?;
        if let (Some(overlay), State::Resident(state)) = (&base, &self.core().state) {
            effect.lower(&Overlaid { state, overlay });
        }
        let next_seq = self.next_seq;
        let parent = self.root();
        let batch = self.batch(&mut effect, block.0, parent_id, parent, payload.clone(), true);
        self.advance(effect, &batch, payload);
        if staged {
            // The block record is written; the tip's record takes its place in the sequence.
            self.next_seq = next_seq;
            return self.write_tip(block.0, height, note);
        }
        Ok(Pending::new(Arc::clone(&self.shared), Write::Block(Box::new(batch))))
    }

    /// Drops a fork and all forks on top of it; returns their number.
    ///
    /// Their log records are never read again. Until another block is committed, reopening the store restores staged
    /// forks.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn discard_fork(&mut self, block: BlockId) -> Result<usize, Error> {
        if !self.forks.contains_key(&block.0) {
            return Err(Error::Gone { block });
        }
        let before = self.forks.len();
        self.forks.retain(|_, fork| !fork.overlay.has(block.0));
        Ok(before - self.forks.len())
    }

    /// Rewinds the chain to an earlier height. All forks are gone.
    ///
    /// # Errors
    /// [`Error::Rewind`] if that is beyond the history, [`Error::Poisoned`], or what reading the log reports; nothing
    /// has changed then.
    pub fn rewind(&mut self, height: Option<u64>) -> Result<Pending, Error> {
        self.rewind_noted(height, Vec::new())
    }

    /// Rewinds with a note, which is stored with the tip ([`Self::note`]).
    ///
    /// # Errors
    /// Errors of [`Self::rewind`], and [`Error::TooLong`] for a note past 16 MiB.
    pub fn rewind_noted(&mut self, height: Option<u64>, note: Vec<u8>) -> Result<Pending, Error> {
        self.shared.check_writable()?;
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
            let earliest = earliest.map(|height| height.max(core.first_height));
            return Err(Error::Rewind { height, earliest });
        };
        drop(core);
        // First, because the log still names the old tip: a failure here has changed nothing.
        let payload = self.shared.log.block(target.id)?.map(|record| record.payload).unwrap_or_default();
        let mut core = self.core.write();
        (0..steps).for_each(|_| _ = core.roll_back());
        drop(core);
        self.forks.clear();
        self.job.forget();
        self.set_payload(payload);
        self.write_tip(target.id, target.height, note)
    }

    /// Restores the forks that were staged on top of the tip, given by ascending id.
    pub(crate) fn restore(&mut self, staged: Vec<BlockRecord>) -> Result<(), Error> {
        for record in staged {
            if record.parent_id != self.tip().0 && !self.forks.contains_key(&record.parent_id) {
                continue;
            }
            let mut delta = Delta::new();
            self.logged_changes(record.id, |key, value| match value {
                Some(value) => delta.put(key, value),
                None => delta.delete(key),
            })?;
            let prepared = self.prepare_on(BlockId(record.parent_id), delta)?;
            let fits = prepared.root() == record.root && prepared.height() == record.height;
            if !fits {
                let what = format!("entries of the staged block {} do not lead to its root", record.height);
                return Err(Error::Corrupt { path: self.shared.log.path(), what });
            }
            let mut prepared = Prepared { payload: record.payload, ..prepared };
            // The records are in the log.
            prepared.effect.kept = Some(Arc::new(std::mem::take(&mut prepared.effect.records)));
            self.add_fork_as(record.id, prepared, true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
