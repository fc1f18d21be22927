//! Forks: blocks beside the chain, executed and perhaps never committed.
//!
//! ```text
//!            checkout(parent)                            promote
//!  parent ──► execute ──► merkleize ──► add_fork ──► stage ──────► committed
//!                                           │          │              │
//!                                        discard    discard        rewind
//! ```

use super::{Engine, forks::ForkAccounts};
use crate::{
    model::{Error, Stage, observe},
    seal::{BlockInfo, Merkleized},
    state::{Above, Done},
};
use phalanx_merkle::{BlockId, Fork, Pending};

impl Engine {
    /// The block that is checked out: what is executed next is its child.
    pub fn position(&self) -> BlockId {
        self.state.position()
    }

    /// The committed block.
    pub fn committed(&self) -> BlockId {
        self.state.store.tip()
    }

    /// Puts the engine on the state after the committed block or a fork. Committing, in whichever way, checks the committed
    /// block out again.
    ///
    /// Takes time in proportion to the contracts that uncommitted blocks have created.
    ///
    /// # Errors
    /// If there is no such block any more.
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

    /// Keeps a block beside the chain, on the block that it was executed on. `tag` comes back with it ([`Self::forks`]) if it
    /// is staged and the store reopened.
    ///
    /// # Errors
    /// If the block below is gone, there are too many of them, the tag is longer than 16 MiB, or the store is poisoned.
    pub fn add_fork(&mut self, block: Merkleized, tag: Vec<u8>) -> Result<(BlockId, BlockInfo), Error> {
        let Merkleized { prepared, accounts, block } = block;
        let parent = prepared.parent();
        let prepared = prepared.with_payload(tag)?;
        let id = observe(&*self.observer, Stage::Merkle, || self.state.store.add_fork(prepared))?;
        self.forks.0.insert(id, ForkAccounts { parent, accounts });
        Ok((id, block))
    }

    /// The blocks beside the chain, in the order in which they were made.
    pub fn forks(&self) -> Vec<Fork> {
        self.state.store.forks()
    }

    /// Writes a held block to the log, where it is invisible until it is promoted, and calls `done` on the writer's thread.
    /// It survives what [`phalanx_merkle::Store::stage`] says. `done` is called at once if it is there already.
    ///
    /// # Errors
    /// If the block is gone, its parent neither committed nor staged, or the store poisoned.
    pub fn stage(&mut self, block: BlockId, done: Done) -> Result<(), Error> {
        match self.state.store.stage(block)? {
            Some(pending) => self.persister.submit_then(pending, done),
            None => {
                done(Ok(()));
                Ok(())
            }
        }
    }

    /// Makes a staged child of the committed block the committed one, with a note that comes back with it ([`Self::note`]).
    /// The state has moved on when this returns; `done` is called on the writer's thread once the step is as durable as the
    /// store promises. Blocks that do not build on it are gone.
    ///
    /// # Errors
    /// If the block is gone, not staged, no child of the committed one, or the store poisoned. Nothing has changed then.
    pub fn promote(&mut self, block: BlockId, note: Vec<u8>, done: Done) -> Result<(), Error> {
        let Self { state, workers, observer, .. } = self;
        let promote = || workers.install(|| state.store.apply_fork_noted(block, note));
        let pending = observe(&**observer, Stage::Merkle, promote)?;
        match self.forks.0.remove(&block) {
            Some(fork) => self.state.adopt(&fork.accounts),
            None => self.state.meet_all()?,
        }
        self.forks.prune(&self.state);
        self.persister.submit_then(pending, done)
    }

    /// Drops a block beside the chain and all that stand on it; returns how many. If the engine stood on one of them it
    /// stands on the committed block again.
    ///
    /// # Errors
    /// If there is no such block.
    pub fn discard(&mut self, block: BlockId) -> Result<usize, Error> {
        let count = self.state.store.discard_fork(block)?;
        self.forks.prune(&self.state);
        if !self.forks.0.contains_key(&self.position()) {
            self.state.move_to(None);
        }
        Ok(count)
    }

    /// Makes an earlier committed block the committed one again and waits until that is written. Blocks beside the chain are
    /// gone. O(state).
    ///
    /// # Errors
    /// If it is further back than the store's history, or writing failed.
    pub fn rewind(&mut self, height: u64, note: Vec<u8>) -> Result<(), Error> {
        let pending = self.state.store.rewind_noted(Some(height), note)?;
        self.settle(pending)
    }

    /// Replaces the note of the committed block and waits until that is written.
    ///
    /// # Errors
    /// If there is no block yet, or writing failed.
    pub fn annotate(&mut self, note: Vec<u8>) -> Result<(), Error> {
        let pending = self.state.store.annotate(note)?;
        self.persister.submit(pending)?.wait()
    }

    /// What came with the last [`Self::promote`], [`Self::rewind`] or [`Self::annotate`], also after reopening.
    pub fn note(&self) -> &[u8] {
        self.state.store.note()
    }

    fn settle(&mut self, pending: Pending) -> Result<(), Error> {
        self.forks.prune(&self.state);
        self.state.meet_all()?;
        self.persister.submit(pending)?.wait()
    }
}
