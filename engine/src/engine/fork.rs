//! Forks: blocks beside the chain, executed and possibly never committed.
//!
//! ```text
//!            checkout(parent)                            promote
//!  parent ──► execute ──► merkleize ──► add_fork ──► stage ──────► committed
//!                                           │          │              │
//!                                        discard    discard        rewind
//! ```

use super::Engine;
use crate::{
    model::{Error, Fault, Stage, observe},
    seal::{BlockInfo, Merkleized},
    state::{Above, Done, StateDiff, StateSnapshot},
};
use phalanx_merkle::{BlockId, Fork, Pending};

/// State to take a snapshot of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotAt {
    /// State that the next block is executed on.
    Position,
    /// State of the committed block.
    Committed,
    /// State of the committed block at a height, within the store's history.
    Height(u64),
    /// State of a block, committed or not.
    Block(BlockId),
}

impl Engine {
    /// Block that is checked out: the next executed block is its child.
    pub fn position(&self) -> BlockId {
        self.state.position()
    }

    /// The committed block.
    pub fn committed(&self) -> BlockId {
        self.state.store.tip()
    }

    /// Checks out the state after the committed block or a fork. Every kind of commit checks the committed block out
    /// again.
    ///
    /// Takes the same time whatever uncommitted blocks change.
    ///
    /// # Errors
    /// The block does not exist any more.
    pub fn checkout(&mut self, block: BlockId) -> Result<(), Error> {
        if block == self.position() {
            return Ok(());
        }
        let above = if block == self.committed() {
            None
        } else {
            if !self.state.store.is_fork(block) {
                return Err(phalanx_merkle::Error::Gone { block }.into());
            }
            Some(Above { view: self.state.store.snapshot(block)?, accounts: self.forks.accounts(block) })
        };
        self.state.move_to(above);
        Ok(())
    }

    /// Adds a fork on the block that it was executed on. `tag` is returned with it ([`Self::forks`]) if it is staged
    /// and the store reopened.
    ///
    /// # Errors
    /// The parent is gone, there are too many forks, the tag is longer than 16 MiB, or the store is poisoned.
    pub fn add_fork(&mut self, block: Merkleized, tag: Vec<u8>) -> Result<(BlockId, BlockInfo), Error> {
        let Merkleized { prepared, accounts, block } = block;
        let parent = prepared.block.parent();
        let id = observe(&*self.observer, Stage::Merkle, || self.state.add_fork(prepared, tag))?;
        self.forks.add(id, parent, accounts);
        Ok((id, block))
    }

    /// Bytes that a fork takes in memory, beside what it shares with the blocks below it; `None` if there is no such
    /// fork.
    pub fn fork_memory(&self, block: BlockId) -> Option<usize> {
        self.state.store.fork_memory(block)
    }

    /// Takes a snapshot of the state after a block: readable from any thread while the engine goes on, with code.
    ///
    /// # Errors
    /// [`Error::Pruned`] below the history, [`Error::NoSuchHeight`] above the tip; a store's error if there is no such
    /// block.
    pub fn snapshot(&self, at: SnapshotAt) -> Result<StateSnapshot, Error> {
        let store = &self.state.store;
        let block = match at {
            SnapshotAt::Position => self.position(),
            SnapshotAt::Committed => self.committed(),
            SnapshotAt::Block(block) => block,
            SnapshotAt::Height(height) => {
                let oldest = self.state.height().unwrap_or_default().saturating_sub(store.history() as u64);
                match store.block_at(height) {
                    Some(block) if height >= oldest => block,
                    _ if height < oldest => return Err(Error::Pruned { height, oldest }),
                    _ => return Err(Error::NoSuchHeight { height }),
                }
            }
        };
        self.state.snapshot(block)
    }

    /// Parent of a fork.
    pub(super) fn fork_parent(&self, block: BlockId) -> Option<BlockId> {
        self.forks.parent(block)
    }

    /// Values that a fork writes. Takes time in proportion to its changes.
    ///
    /// # Errors
    /// The block is no fork, or a stored value is not of the engine's format.
    pub fn state_diff(&self, block: BlockId) -> Result<StateDiff, Error> {
        let parent = self.fork_parent(block);
        self.state.diff(block, parent.ok_or(phalanx_merkle::Error::Gone { block })?)
    }

    /// All forks, in the order of their creation.
    pub fn forks(&self) -> Vec<Fork> {
        self.state.forks()
    }

    /// Stages a fork: writes it to the log, invisible until it is promoted, and calls `done` on the writer's thread.
    /// The durability is that of [`phalanx_merkle::Store::stage`]. If it is staged already, `done` is called at once.
    ///
    /// # Errors
    /// The block is gone, its parent neither committed nor staged, or the store poisoned.
    pub fn stage(&mut self, block: BlockId, done: Done) -> Result<(), Error> {
        match self.state.store.stage(block)? {
            Some(pending) => self.persister.submit_then(pending, done),
            None => {
                done(Ok(()));
                Ok(())
            }
        }
    }

    /// Commits a staged child of the committed block, with a note that [`Self::note`] returns. The state has changed
    /// when this returns; `done` is called on the writer's thread once the commit is durable by the store's setting.
    /// Forks that do not build on it are dropped.
    ///
    /// # Errors
    /// The block is gone, not staged, no child of the committed one, the store is poisoned, or pruning in turn failed. Nothing has
    /// changed then.
    pub fn promote(&mut self, block: BlockId, note: Vec<u8>, done: Done) -> Result<(), Error> {
        // A store takes unstaged blocks, too, and not every backend writes them alike.
        if !self.state.store.is_staged(block) {
            let gone = !self.state.store.is_fork(block);
            return Err(if gone { phalanx_merkle::Error::Gone { block }.into() } else { Error::NotStaged });
        }
        self.prune_in_turn()?;
        let Self { state, workers, observer, .. } = self;
        let promote = || workers.install(|| state.move_blocks(|store| store.apply_fork_noted(block, note)));
        let pending = observe(&**observer, Stage::Merkle, promote)?;
        match self.forks.take(block) {
            Some(accounts) => self.state.adopt(&accounts),
            None => self.state.meet_all()?,
        }
        self.forks.prune(&self.state);
        self.committed_number = None;
        self.persister.submit_then(pending, done)
    }

    /// Drops a fork and all forks on it; returns their number. If the engine stood on one of them, the committed block
    /// is checked out.
    ///
    /// # Errors
    /// There is no such block.
    pub fn discard(&mut self, block: BlockId) -> Result<usize, Error> {
        let count = self.state.move_blocks(|store| store.discard_fork(block))?;
        self.forks.prune(&self.state);
        if !self.forks.has(self.position()) {
            self.state.move_to(None);
        }
        Ok(count)
    }

    /// Rewinds to an earlier committed block and waits until that is written. Forks are dropped. O(changes of the
    /// blocks above it), or O(state) if this engine was opened above that block.
    ///
    /// # Errors
    /// The block is further back than the store's history, or writing failed.
    pub fn rewind(&mut self, height: u64, note: Vec<u8>) -> Result<(), Error> {
        let pending = self.state.move_blocks(|store| store.rewind_noted(Some(height), note))?;
        self.settle(pending)
    }

    /// Replaces the note of the committed block and waits until it is written.
    ///
    /// # Errors
    /// There is no block yet, or writing failed.
    pub fn annotate(&mut self, note: Vec<u8>) -> Result<(), Error> {
        let pending = self.state.store.annotate(note)?;
        self.persister.submit(pending)?.wait()
    }

    /// Note of the last [`Self::promote`], [`Self::rewind`] or [`Self::annotate`], also after reopening.
    pub fn note(&self) -> &[u8] {
        self.state.store.note()
    }

    fn settle(&mut self, pending: Pending) -> Result<(), Error> {
        self.forks.prune(&self.state);
        self.committed_number = None;
        match Fault::RewoundIndex.is_seeded() {
            true => self.state.move_to(None),
            false => self.state.go_back()?,
        }
        self.persister.submit(pending)?.wait()
    }
}
