use revm::context_interface::result::{ExecutionResult, InvalidTransaction};

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
}
