//! What a run remembers of a block, to be compared with another run: small, because keeping every result of millions of
//! transactions would make the system clear new pages all through the measurement.

use core::hash::BuildHasher as _;
use phalanx::{
    Outcome,
    revm::primitives::{B256, map::DefaultHashBuilder},
};
use rayon::prelude::*;
use std::sync::OnceLock;

/// What a block left behind.
pub(crate) struct BlockTrace {
    pub(crate) order: Vec<u32>,
    /// In the order of `order`.
    pub(crate) results: Vec<TxTrace>,
    pub(crate) receipts_root: Option<B256>,
    pub(crate) state_root: B256,
    pub(crate) gas_used: u64,
    /// Hash of the block access list, where one was made.
    pub(crate) access_list: Option<B256>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TxTrace {
    pub(crate) ended: Ended,
    /// Of the whole result: reason, gas, output and logs; or of the reason why it was skipped. Equal within the process.
    digest: u64,
}

/// A transaction's end, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Succeeded,
    /// It reverted or halted.
    Failed,
    Skipped,
}

/// Outcomes that one task looks at, and whose memory is asked for ahead.
const CHUNK: usize = 1024;
const AHEAD: usize = 8;

impl TxTrace {
    pub(crate) fn new(outcome: &Outcome) -> Self {
        // Its seed is random, so that nobody can choose results that look alike.
        static HASHER: OnceLock<DefaultHashBuilder> = OnceLock::new();
        let ended = match outcome {
            Outcome::Executed(result) if result.is_success() => Ended::Succeeded,
            Outcome::Executed(_) => Ended::Failed,
            Outcome::Skipped(_) => Ended::Skipped,
        };
        Self { ended, digest: HASHER.get_or_init(DefaultHashBuilder::default).hash_one(outcome) }
    }

    /// Of many, in the current rayon pool.
    pub(crate) fn all(outcomes: &[Outcome]) -> Vec<Self> {
        let trace = |(at, outcome): (usize, &Outcome)| {
            // The worker that ran the transaction has its logs in its cache.
            outcomes.get(at + 2 * AHEAD).into_iter().for_each(Outcome::prefetch_logs);
            outcomes.get(at + AHEAD).into_iter().for_each(Outcome::prefetch_contents);
            Self::new(outcome)
        };
        // Each in its place: what threads give one after the other, one thread has to copy together.
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
    fn whatever_differs_in_a_result_differs_in_its_trace() {
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
