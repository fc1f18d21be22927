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
    state::{Above, Done},
};
use phalanx_merkle::{BlockId, Fork, Pending};

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
        let parent = prepared.parent();
        let prepared = prepared.with_payload(tag)?;
        let id = observe(&*self.observer, Stage::Merkle, || self.state.store.add_fork(prepared))?;
        self.forks.add(id, parent, accounts);
        Ok((id, block))
    }

    /// Bytes that a fork takes in memory, beside what it shares with the blocks below it; `None` if there is no such
    /// fork.
    pub fn fork_memory(&self, block: BlockId) -> Option<usize> {
        self.state.store.fork_memory(block)
    }

    /// All forks, in the order of their creation.
    pub fn forks(&self) -> Vec<Fork> {
        self.state.store.forks()
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
    /// The block is gone, not staged, no child of the committed one, or the store is poisoned. Nothing has changed
    /// then.
    pub fn promote(&mut self, block: BlockId, note: Vec<u8>, done: Done) -> Result<(), Error> {
        let Self { state, workers, observer, .. } = self;
        let promote = || workers.install(|| state.store.apply_fork_noted(block, note));
        let pending = observe(&**observer, Stage::Merkle, promote)?;
        match self.forks.take(block) {
            Some(accounts) => self.state.adopt(&accounts),
            None => self.state.meet_all()?,
        }
        self.forks.prune(&self.state);
        self.persister.submit_then(pending, done)
    }

    /// Drops a fork and all forks on it; returns their number. If the engine stood on one of them, the committed block
    /// is checked out.
    ///
    /// # Errors
    /// There is no such block.
    pub fn discard(&mut self, block: BlockId) -> Result<usize, Error> {
        let count = self.state.store.discard_fork(block)?;
        self.forks.prune(&self.state);
        if !self.forks.has(self.position()) {
            self.state.move_to(None);
        }
        Ok(count)
    }

    /// Rewinds to an earlier committed block and waits until that is written. Forks are dropped. O(state).
    ///
    /// # Errors
    /// The block is further back than the store's history, or writing failed.
    pub fn rewind(&mut self, height: u64, note: Vec<u8>) -> Result<(), Error> {
        let pending = self.state.store.rewind_noted(Some(height), note)?;
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
        match Fault::RewoundIndex.is_seeded() {
            true => self.state.move_to(None),
            false => self.state.meet_all()?,
        }
        self.persister.submit(pending)?.wait()
    }
}
