//! The chain goes to another head: back to the common ancestor where need be, then up the branch, one commit for all of it.

use super::{
    blobs::is_blob,
    client::{Client, Stop},
    fault::Fault,
    proposed::Proposed,
    take::Ran,
    tree::Invalid,
};
use alloy_primitives::{B256, Bytes, keccak256};
use phalanx::api::{ExecId, ExecutionEngine as _};

/// Result of a move.
#[derive(Debug)]
pub(super) enum Moved {
    /// The chain has the head.
    There,
    /// A block of the branch is invalid, and the chain is where it was.
    Invalid(Invalid),
    /// The engine has no room for the branch, and the chain is where it was.
    Full,
}

impl Client {
    /// Makes the last block of `path` the head, or the block at height `fork` if there is none behind that.
    ///
    /// Readers see the chain go back and up again, never a block that is not committed. Transactions of the blocks that are left
    /// wait again.
    pub(super) fn reorganise(&mut self, fork: u64, path: &[B256]) -> Result<Moved, Stop> {
        let left = self.leave(fork)?;
        let moved = self.climb(path);
        if matches!(moved, Err(Stop::Final(_))) {
            return moved;
        }
        if !matches!(moved, Ok(Moved::There)) {
            self.leave(fork)?;
            let back: Vec<_> = left.iter().map(|block| block.hash).collect();
            if !matches!(self.climb(&back)?, Moved::There) {
                tracing::error!(height = self.chain.height(), "the chain cannot go back to the head that it had");
            }
            return moved;
        }
        let txs = left.iter().flat_map(Proposed::txs);
        let txs: Vec<Bytes> = txs.filter_map(|tx| self.as_sent(tx)).collect();
        if !txs.is_empty() {
            tracing::info!(height = self.chain.height(), left = left.len(), "the chain has another head");
            // What the new branch has as well, or cannot have, is refused.
            let recovered = self.chain.service.recover(&txs);
            let _ = self.chain.service.admit(recovered);
            self.jobs.ring();
        }
        moved
    }

    /// A transaction as its sender has sent it; `None` for one whose blobs are gone.
    fn as_sent(&self, tx: &Bytes) -> Option<Bytes> {
        if is_blob(tx) { self.sidecars.get(&keccak256(tx)).cloned() } else { Some(tx.clone()) }
    }

    /// Goes back to a block of the chain. Returns the blocks that were behind it, oldest first; they are held from now on.
    fn leave(&mut self, fork: u64) -> Result<Vec<Proposed>, Stop> {
        let tip = self.chain.height();
        if fork >= tip {
            return Ok(Vec::new());
        }
        let too_deep = || Fault::TooDeep("states are not kept that far back: --history");
        let to = self.chain.service.committed_at(fork).ok_or_else(too_deep)?.exec;
        let mut left = Vec::new();
        for height in fork + 1..=tip {
            let block = self.chain.block(height)?.ok_or_else(too_deep)?;
            let stored = Proposed::stored(&block);
            // The client has sent it, and does not send it again.
            self.journal.put(&stored).map_err(|error| Fault::Server(error.to_string()))?;
            left.push((stored, ExecId(block.head.exec)));
        }
        let removed = self.chain.above(fork)?;
        self.steps.clear()?;
        self.steps.rewind(to)?;
        self.chain.rewound(fork, removed).map_err(|error| Stop::Final(error.into()))?;
        left.iter().for_each(|(block, exec)| self.tree.hold(block.clone(), Some(*exec)));
        Ok(left.into_iter().map(|(block, _)| block).collect())
    }

    /// Executes the blocks of a branch on the newest block, and commits them together.
    fn climb(&mut self, path: &[B256]) -> Result<Moved, Stop> {
        let mut executed = Vec::with_capacity(path.len());
        for (place, hash) in path.iter().enumerate() {
            match self.execute(*hash)? {
                Ran::Valid(id) => executed.push(id),
                Ran::Invalid(invalid) => return Ok(Moved::Invalid(invalid)),
                Ran::Full if executed.is_empty() => return Ok(Moved::Full),
                Ran::Full => {
                    // A long branch is committed in parts.
                    self.commit(&path[place - executed.len()..place], &executed)?;
                    executed.clear();
                    match self.execute(*hash)? {
                        Ran::Valid(id) => executed.push(id),
                        Ran::Invalid(invalid) => return Ok(Moved::Invalid(invalid)),
                        Ran::Full => return Ok(Moved::Full),
                    }
                }
            }
        }
        self.commit(&path[path.len() - executed.len()..], &executed)?;
        Ok(Moved::There)
    }

    /// Commits executed blocks on the newest block, and makes them visible.
    fn commit(&mut self, path: &[B256], executed: &[ExecId]) -> Result<(), Stop> {
        if executed.is_empty() {
            return Ok(());
        }
        let from = self.chain.height() + 1;
        self.keep_sidecars(path);
        self.steps.commit_path(executed, from + executed.len() as u64 - 1)?;
        for (hash, height) in path.iter().zip(from..) {
            self.chain.publish(height).map_err(|error| Stop::Final(error.into()))?;
            let (txs, spent) =
                self.tree.get(hash).map_or_else(Default::default, |held| (held.block.txs().len(), held.spent));
            self.metrics.ahead_seconds.inc_by(spent.as_secs_f64());
            self.tree.remove(hash);
            self.metrics.block(height, txs as u64);
            tracing::info!(height, txs, "block");
        }
        Ok(())
    }

    /// Keeps the blobs of blocks before the pool drops them.
    fn keep_sidecars(&mut self, path: &[B256]) {
        let blocks = path.iter().filter_map(|hash| self.tree.get(hash));
        let hashes: Vec<B256> =
            blocks.flat_map(|held| held.block.txs().iter().filter(|tx| is_blob(tx)).map(keccak256)).collect();
        if hashes.is_empty() {
            return;
        }
        let pooled: Vec<(B256, Bytes)> = self.chain.service.with_pool(|pool| {
            let find = |hash: B256| Some((hash, pool.get(&hash)?.recovered().pooled_bytes()?.clone()));
            hashes.into_iter().filter_map(find).collect()
        });
        pooled.into_iter().for_each(|(hash, bytes)| self.sidecars.keep(hash, bytes));
    }
}
