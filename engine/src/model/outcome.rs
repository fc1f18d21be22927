//! The result of one transaction.

use phalanx_memory::{prefetch_slice, prefetch_write};
use revm::{
    context_interface::result::{ExecutionResult, InvalidTransaction},
    primitives::Log,
};

/// What became of a transaction. An invalid one is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It ran: it succeeded, reverted or halted, paid for its gas and has a receipt.
    Executed(ExecutionResult),
    /// It was invalid where its turn came: it changed nothing and has no receipt.
    Skipped(InvalidTransaction),
}

impl Outcome {
    /// revm's result, if it ran.
    pub const fn result(&self) -> Option<&ExecutionResult> {
        match self {
            Self::Executed(result) => Some(result),
            Self::Skipped(_) => None,
        }
    }

    /// Whether it ran and succeeded.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Executed(result) if result.is_success())
    }

    /// Gas that it used; zero if it was skipped.
    pub const fn gas_used(&self) -> u64 {
        match self {
            Self::Executed(result) => result.gas().tx_gas_used(),
            Self::Skipped(_) => 0,
        }
    }

    /// Asks the processor for the list of its logs. For whoever goes through many outcomes, some before it comes to this one:
    /// the core that ran a transaction has its result in its cache, and each part tells where the next one is.
    #[inline]
    pub fn prefetch_logs(&self) {
        prefetch_logs(self.logs());
    }

    /// Asks for topics and data of its logs, some outcomes after [`Self::prefetch_logs`].
    #[inline]
    pub fn prefetch_contents(&self) {
        prefetch_contents(self.logs());
    }

    /// [`Self::prefetch_contents`] for whoever is about to drop it, which writes to where each piece of memory begins.
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

/// Logs of one outcome, and bytes of data of one log, that are asked for ahead: a core has only so many lines on their way.
const FIRST_LOGS: usize = 4;
const FIRST_BYTES: usize = 128;

#[inline]
fn first(logs: &[Log]) -> &[Log] {
    &logs[..logs.len().min(FIRST_LOGS)]
}

/// See [`Outcome::prefetch_logs`].
#[inline]
pub(crate) fn prefetch_logs(logs: &[Log]) {
    prefetch_slice(first(logs));
}

/// See [`Outcome::prefetch_contents`].
#[inline]
pub(crate) fn prefetch_contents(logs: &[Log]) {
    for log in first(logs) {
        prefetch_slice(log.topics());
        prefetch_slice(&log.data.data[..log.data.data.len().min(FIRST_BYTES)]);
    }
}
