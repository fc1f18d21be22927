//! A whole block on a foreign database: the same executors, and revm's bundle instead of a root.

use super::{Engine, run_on::RunOn, setting::Setting};
use crate::{
    chain::BlockOutcome,
    model::{BlockError, Error, Executor, Hints, Invalid, RecoveredBlock},
    seal::{BlockInfo, Executed},
    state::Foreign,
};
use alloy_primitives::B256;
use revm::{DatabaseRef, context::BlockEnv, database::BundleState};
use std::sync::Arc;

/// A block that was executed on a foreign database.
#[derive(Debug)]
pub struct ForeignBlock {
    /// Outcomes, receipts, gas, requests.
    pub block: BlockInfo,
    /// Changes of the block, and what reverts them, as revm's `State` bundles them: final values beside those before,
    /// new code, one list of reverts. The status of an account that the block destroys and makes again, or destroys more
    /// than once, may be another of those with the same effect.
    pub bundle: BundleState,
}

impl ForeignBlock {
    /// Results for the header, beside the state root after the block, which is the caller's:
    /// [`BlockOutcome::write_to`] writes them.
    pub fn outcome(&self, state_root: B256) -> BlockOutcome {
        self.block.outcome(state_root)
    }
}

impl Engine {
    /// Executes a whole block of the engine's chain on the state in `database`: a snapshot, or another client's
    /// database. Nothing is hashed or committed, and the engine's own state is neither read nor changed.
    ///
    /// The rules are those of [`Self::execute_block`], and so are the hints: with an access list all transactions run at
    /// once on its values. The database is read from all threads, each item at most once but for
    /// hashes of blocks and reads at the same time. BLOCKHASH of the parent is the header's `parent_hash`, any other the
    /// database's.
    ///
    /// Speculative executions and predictions may read what the block does not. If the database fails them, the block
    /// runs again, in order. Code of every account that the block touches must be readable.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the database fails, panics, or gives code with another hash, at a read that the block
    /// needs; else those of [`Self::execute_block`].
    pub fn execute_on<D: DatabaseRef + Sync>(
        &mut self,
        database: &D,
        payload: &RecoveredBlock<'_>,
        hints: Hints<'_>,
    ) -> Result<ForeignBlock, BlockError> {
        self.execute_on_by(database, payload, hints, Invalid::Refuse)
    }

    /// Executes like [`Self::execute_on`], with invalid transactions refused or skipped. Skipping them is how a client with a
    /// database of its own builds a block: it offers transactions in its order, once, and the block consists of those that are
    /// not [`Outcome::Skipped`](crate::Outcome::Skipped), in that order, with the results of this execution.
    ///
    /// Gas and blobs beyond the block's limits are not checked where transactions are skipped: the caller offers as many as their
    /// gas limits and blobs fit. A block with an access list has no invalid transaction.
    ///
    /// # Errors
    /// The errors of [`Self::execute_on`].
    pub fn execute_on_by<D: DatabaseRef + Sync>(
        &mut self,
        database: &D,
        payload: &RecoveredBlock<'_>,
        hints: Hints<'_>,
        invalid: Invalid,
    ) -> Result<ForeignBlock, BlockError> {
        let env = self.enter_whole(payload.header)?;
        let parent = payload.header.number.checked_sub(1).map(|number| (number, payload.header.parent_hash));
        let mut foreign = Foreign::new(database, Arc::clone(&self.state.codes), parent);
        // A first run may miss hashes of blocks; a last one reads like sequential revm, and no further.
        for executor in [self.executor, self.executor] {
            let ended = self.run_on_foreign((&foreign, executor), payload, &env, hints, invalid);
            match (foreign.learn_missed_hashes(), ended) {
                (Ok(true), _) => {}
                (Ok(false), Ok(block)) => return Ok(block),
                (Ok(false), Err(error)) if !is_failure(&error) => return Err(error),
                _ => break,
            }
        }
        // Failures up to here were of reads that the block may not need.
        _ = foreign.take_failure();
        let last = (&foreign, Executor::Sequential);
        self.run_on_foreign(last, payload, &env, hints, invalid).map_err(|error| {
            let failure = if is_failure(&error) { foreign.take_failure() } else { None };
            failure.map_or(error, |failure| Error::Foreign(failure).into())
        })
    }

    fn run_on_foreign(
        &mut self,
        (foreign, executor): (&Foreign<'_>, Executor),
        payload: &RecoveredBlock<'_>,
        env: &BlockEnv,
        hints: Hints<'_>,
        invalid: Invalid,
    ) -> Result<ForeignBlock, BlockError> {
        let setting = Setting { foreign: Some(foreign), executor, is_complete: true };
        self.at(RunOn::Worker, |engine| {
            let Executed { changes, block, .. } =
                engine.execute_whole(payload, env, hints, RunOn::Worker, invalid, setting)?;
            let bundle = foreign.bundle(&changes.values).map_err(Error::from)?;
            Ok(ForeignBlock { block, bundle })
        })
    }
}

/// True if an error may be due to the database.
const fn is_failure(error: &BlockError) -> bool {
    matches!(error, BlockError::Engine(Error::Corrupt { .. } | Error::Evm { .. }))
}
