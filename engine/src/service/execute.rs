//! Execution of a candidate: from its bytes to a fork of the chain.

use super::{
    codec::Tag,
    failure::failure,
    kept::{Facts, Kept},
};
use crate::{
    engine::Engine,
    model::{BlockError, Error, Invalid, Outcome},
    recovery::{Form, RecoveredTx, Recovery},
    seal::{BlockInfo, Executed},
    state::{Ancestors, State},
};
use alloy_primitives::U256;
use phalanx_engine_api::{self as api, Candidate, ExecId, Failure, InvalidCause, TxPolicy, TxStatus};
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::block::BlobExcessGasAndPrice,
};
use std::sync::Arc;

/// Type number of blob transactions (EIP-4844).
pub(super) const BLOB: u8 = 3;

/// Number of blocks that BLOCKHASH reaches back.
const REACH: u64 = 256;

/// Reason for which a candidate has no result.
pub(super) enum Failed {
    /// The candidate is invalid.
    Invalid(InvalidCause),
    /// The engine failed.
    Engine(Failure),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Environment { .. } | Error::TooWide(_) => Self::Invalid(InvalidCause::Environment),
            error => Self::Engine(failure(&error)),
        }
    }
}

impl From<BlockError> for Failed {
    fn from(error: BlockError) -> Self {
        match error {
            BlockError::InvalidTransaction { index, .. } => {
                Self::Invalid(InvalidCause::Transaction { index: index as u32 })
            }
            BlockError::GasLimit { .. } => Self::Invalid(InvalidCause::GasLimit),
            BlockError::Engine(error) => error.into(),
            // The other errors cannot come from a block without system calls and with our own hints.
            error => Self::Engine(Failure::Fatal(api::FatalCause::Corrupt(error.to_string()))),
        }
    }
}

/// Ancestors of a child of the block `name` at `height`.
pub(super) fn named(ancestors: &Ancestors, height: u64, name: ExecId) -> Ancestors {
    let mut ancestors = ancestors.clone();
    ancestors.insert(height, name.0);
    ancestors.retain(|at, _| at + REACH > height);
    ancestors
}

/// Candidate under execution.
pub(super) struct Executing<'a> {
    pub(super) candidate: &'a Candidate,
    pub(super) parent: &'a Kept,
    /// Status of every transaction; `None` for executed ones until their results are known.
    pub(super) statuses: Vec<Option<TxStatus>>,
    /// Transactions that are executed.
    pub(super) txs: Vec<Arc<RecoveredTx>>,
}

/// Executes a candidate on its parent and adds the fork.
pub(super) fn execute(
    engine: &mut Engine,
    recovery: &Recovery,
    candidate: &Candidate,
    parent: &Kept,
) -> Result<Kept, Failed> {
    engine.checkout(parent.view.block())?;
    engine.state.ancestors = Arc::clone(&parent.ancestors);
    let executing = decode(engine, recovery, candidate, parent)?;
    let policy = match candidate.policy() {
        TxPolicy::Strict => Invalid::Refuse,
        TxPolicy::SkipInvalid => Invalid::Skip,
    };
    let txs: Vec<TxEnv> = executing.txs.iter().map(|tx| tx.tx().clone()).collect();
    let executed = engine.execute_given(&environment(candidate.env()), &txs, policy)?;
    Ok(keep(engine, executing, executed)?)
}

/// Names and hashes a block, and adds the fork.
pub(super) fn keep(engine: &mut Engine, executing: Executing<'_>, mut executed: Executed) -> Result<Kept, Error> {
    let Executing { candidate, parent, mut statuses, txs } = executing;
    let (id, height) = (candidate.id(), candidate.env().height);
    State::put_name(&mut executed.changes, height, id.0);
    let merkleized = engine.merkleize(executed)?;
    fill(&mut statuses, merkleized.block());
    let outcome = api::Outcome {
        id,
        state_root: merkleized.state_root(),
        receipts_root: merkleized.block().receipts_root().unwrap_or_default(),
        gas_used: merkleized.block().gas_used(),
        txs: statuses.into_iter().map(|status| status.unwrap_or(TxStatus::Skipped)).collect(),
    };
    let log_bytes = merkleized.prepared.log_bytes() as u64;
    let (block, info) = engine.add_fork(merkleized, Tag { outcome: outcome.clone() }.write())?;
    let view = engine.state.store.snapshot(block)?;
    let memory = engine.fork_memory(block).unwrap_or_default() as u64;
    let ancestors = Arc::new(named(&parent.ancestors, height, id));
    let facts = Arc::new(Facts::of(&txs));
    Ok(Kept { view, ancestors, outcome: Some(outcome), info: Some(Arc::new(info)), facts, log_bytes, memory })
}

/// Decodes the transactions. Returns those that can be executed, and a status for every other.
fn decode<'a>(
    engine: &Engine,
    recovery: &Recovery,
    candidate: &'a Candidate,
    parent: &'a Kept,
) -> Result<Executing<'a>, Failed> {
    let decoded = recovery.recover_batch(engine.workers(), Form::Block, candidate.payload().txs());
    let strict = candidate.policy() == TxPolicy::Strict;
    let (mut txs, mut statuses) = (Vec::with_capacity(decoded.len()), Vec::with_capacity(decoded.len()));
    let mut left = candidate.env().gas_limit;
    for (tx, index) in decoded.into_iter().zip(0..) {
        // Blocks of a service have no blobs.
        let tx = tx.ok().filter(|tx| tx.tx().tx_type != BLOB);
        match tx {
            Some(tx) if strict => txs.push(tx),
            None if strict => return Err(Failed::Invalid(InvalidCause::Transaction { index })),
            // Gas limits decide before execution which transactions fit.
            Some(tx) if tx.tx().gas_limit <= left => {
                left -= tx.tx().gas_limit;
                txs.push(tx);
            }
            Some(_) | None => {
                statuses.push(Some(TxStatus::Skipped));
                continue;
            }
        }
        statuses.push(None);
    }
    Ok(Executing { candidate, parent, statuses, txs })
}

/// Sets the statuses of executed transactions.
fn fill(statuses: &mut [Option<TxStatus>], block: &BlockInfo) {
    let open = statuses.iter_mut().filter(|status| status.is_none());
    for (status, outcome) in open.zip(block.outcomes()) {
        *status = Some(match outcome {
            Outcome::Skipped(_) => TxStatus::Skipped,
            outcome if outcome.is_success() => TxStatus::Succeeded,
            Outcome::Executed(_) => TxStatus::Reverted,
        });
    }
}

/// Block environment of the EVM.
pub(super) fn environment(env: &api::BlockEnv) -> BlockEnv {
    BlockEnv {
        number: U256::from(env.height),
        timestamp: U256::from(env.timestamp_ms / 1000),
        beneficiary: env.beneficiary,
        gas_limit: env.gas_limit,
        basefee: env.base_fee,
        difficulty: U256::ZERO,
        prevrandao: Some(env.prevrandao),
        blob_excess_gas_and_price: Some(BlobExcessGasAndPrice { excess_blob_gas: 0, blob_gasprice: 1 }),
        ..BlockEnv::default()
    }
}
