//! Traces of blocks, which are compared between runs. They are small: results of millions of transactions would make the
//! system clear new pages throughout the measurement.

use core::hash::BuildHasher as _;
use phalanx::{
    Outcome, lab,
    revm::primitives::{B256, map::DefaultHashBuilder},
};
use rayon::prelude::*;
use std::sync::OnceLock;

/// Trace of a block.
pub(crate) struct BlockTrace {
    pub(crate) order: Vec<u32>,
    /// Results in the order of `order`.
    pub(crate) results: Vec<TxTrace>,
    pub(crate) receipts_root: Option<B256>,
    pub(crate) state_root: B256,
    pub(crate) gas_used: u64,
    /// Hash of the block access list, if there is one.
    pub(crate) access_list: Option<B256>,
}

/// Trace of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TxTrace {
    pub(crate) ended: Ended,
    /// Gas that its sender pays for. A block's gas used is another sum from Amsterdam on (EIP-7778, 8037).
    pub(crate) paid: u64,
    /// Hash of the whole outcome (reason, gas, output, logs, or the reason for skipping), comparable within the process.
    digest: u64,
}

/// End of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Succeeded,
    /// Reverted or halted.
    Failed,
    Skipped,
}

/// Outcomes per task.
const CHUNK: usize = 1024;

/// Distance between the stages of prefetching in the loop over outcomes.
const TRACE_LOOKAHEAD: usize = 8;

impl TxTrace {
    pub(crate) fn new(outcome: &Outcome) -> Self {
        // The seed is random, so that colliding results cannot be chosen.
        static HASHER: OnceLock<DefaultHashBuilder> = OnceLock::new();
        let ended = match outcome {
            Outcome::Executed(result) if result.is_success() => Ended::Succeeded,
            Outcome::Executed(_) => Ended::Failed,
            Outcome::Skipped(_) => Ended::Skipped,
        };
        Self {
            ended,
            paid: outcome.gas_used(),
            digest: HASHER.get_or_init(DefaultHashBuilder::default).hash_one(outcome),
        }
    }

    /// Traces of many outcomes, in the current rayon pool.
    pub(crate) fn all(outcomes: &[Outcome]) -> Vec<Self> {
        let trace = |(at, outcome): (usize, &Outcome)| {
            // The logs are in the cache of the worker that ran the transaction.
            outcomes.get(at + 2 * TRACE_LOOKAHEAD).into_iter().for_each(lab::prefetch_logs);
            outcomes.get(at + TRACE_LOOKAHEAD).into_iter().for_each(lab::prefetch_contents);
            Self::new(outcome)
        };
        // An indexed iterator writes in place; otherwise one thread would copy the chunks together.
        outcomes.par_iter().enumerate().with_max_len(CHUNK).map(trace).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::revm::{
        context_interface::result::{ExecutionResult, InvalidTransaction, Output, ResultGas, SuccessReason},
        primitives::{Address, Bytes, Log},
    };

    #[test]
    fn every_difference_in_a_result_changes_its_trace() {
        let success = |gas: u64, output: &'static [u8], logs: usize| {
            Outcome::Executed(ExecutionResult::Success {
                reason: SuccessReason::Return,
                gas: ResultGas::default().with_total_gas_spent(gas),
                logs: (0..logs).map(|_| Log::new_unchecked(Address::ZERO, vec![], Bytes::new())).collect(),
                output: Output::Call(Bytes::from_static(output)),
            })
        };
        let skipped = |tx| Outcome::Skipped(InvalidTransaction::NonceTooHigh { tx, state: 0 });
        let all = vec![
            success(1, b"", 0),
            success(2, b"", 0),
            success(1, b"a", 0),
            success(1, b"", 1),
            skipped(1),
            skipped(2),
        ];
        let traces = TxTrace::all(&all);
        for (i, outcome) in all.iter().enumerate() {
            assert_eq!(TxTrace::new(outcome), traces[i]);
            assert!(traces[..i].iter().all(|earlier| *earlier != traces[i]), "{outcome:?}");
        }
        assert_eq!((traces[0].ended, traces[5].ended), (Ended::Succeeded, Ended::Skipped));
    }
}
