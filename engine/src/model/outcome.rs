//! The result of one transaction.

use phalanx_memory::{prefetch_slice, prefetch_write};
use revm::{
    context_interface::result::{ExecutionResult, InvalidTransaction},
    primitives::Log,
};

/// Result of a transaction. An invalid transaction has an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The transaction ran: it succeeded, reverted or halted, paid for its gas and has a receipt.
    Executed(ExecutionResult),
    /// The transaction was invalid at its turn: it changed nothing and has no receipt.
    Skipped(InvalidTransaction),
}

impl Outcome {
    /// revm's result, if the transaction ran.
    pub const fn result(&self) -> Option<&ExecutionResult> {
        match self {
            Self::Executed(result) => Some(result),
            Self::Skipped(_) => None,
        }
    }

    /// True if the transaction ran and succeeded.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Executed(result) if result.is_success())
    }

    /// Gas used; zero if the transaction was skipped.
    pub const fn gas_used(&self) -> u64 {
        match self {
            Self::Executed(result) => result.gas().tx_gas_used(),
            Self::Skipped(_) => 0,
        }
    }

    /// Prefetches the list of logs. A loop over many outcomes calls this some outcomes ahead: the result is in the
    /// cache of the core that ran the transaction, and each part holds the address of the next.
    #[inline]
    pub(crate) fn prefetch_logs(&self) {
        prefetch_logs(self.logs());
    }

    /// Prefetches topics and data of the logs, some outcomes after [`Self::prefetch_logs`].
    #[cfg(feature = "lab")]
    #[inline]
    pub(crate) fn prefetch_contents(&self) {
        prefetch_contents(self.logs());
    }

    /// Prefetches like [`Self::prefetch_contents`] before a drop, which writes to the beginning of each allocation.
    #[inline]
    pub(crate) fn prefetch_drop(&self) {
        let logs = first(self.logs());
        logs.first().into_iter().for_each(prefetch_write);
        for log in logs {
            log.topics().first().into_iter().for_each(prefetch_write);
            log.data.data.first().into_iter().for_each(prefetch_write);
        }
    }

    #[inline]
    fn logs(&self) -> &[Log] {
        self.result().map_or(&[], ExecutionResult::logs)
    }
}

/// Maximum number of logs per outcome, and of data bytes per log, that are prefetched: a core has few lines in flight.
const FIRST_LOGS: usize = 4;
const FIRST_BYTES: usize = 128;

#[inline]
fn first(logs: &[Log]) -> &[Log] {
    &logs[..logs.len().min(FIRST_LOGS)]
}

/// Prefetches the list of logs, see [`Outcome::prefetch_logs`].
#[inline]
pub(crate) fn prefetch_logs(logs: &[Log]) {
    prefetch_slice(first(logs));
}

/// Prefetches topics and data, see [`Outcome::prefetch_contents`].
#[inline]
pub(crate) fn prefetch_contents(logs: &[Log]) {
    for log in first(logs) {
        prefetch_slice(log.topics());
        prefetch_slice(&log.data.data[..log.data.data.len().min(FIRST_BYTES)]);
    }
}
