//! Choices of how an engine runs blocks.

use revm::{context::CfgEnv, primitives::hardfork::SpecId};

/// Freedom of the engine in the order of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order of a builder: transactions are framed for parallelism before blocks are assembled, and an escaped
    /// transaction moves to the next block. Each sender's nonce order is kept.
    Free,
    /// The order of a validator: exactly that of the input.
    Given,
}

/// Executor of blocks. The outcome does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Executor {
    /// Workers on the exact per-slot DAG of the predicted access sets.
    #[default]
    Dag,
    /// Block-STM: optimistic, without predictions. A block in which nothing can run ahead, of one transaction or of little gas,
    /// runs on the caller.
    BlockStm,
    /// Stock revm, one transaction after the other: the oracle that every other executor is compared with.
    Sequential,
}

/// Returns true if the executors implement the rules of the spec. A value transfer at the top level costs the same for
/// every receiver, which Amsterdam ends.
pub(crate) const fn is_supported(cfg: &CfgEnv) -> bool {
    !cfg.spec.is_enabled_in(SpecId::AMSTERDAM) && !cfg.enable_amsterdam_eip8037 && !cfg.enable_amsterdam_eip2780
}

/// Effect of an invalid transaction on a block in given order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The block becomes invalid.
    Refuse,
    /// The transaction is left out: [`Outcome::Skipped`](crate::Outcome::Skipped). Gas beyond the block's limit is not checked.
    Skip,
}

/// Replay of contract calls. No result depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Traces {
    /// revm runs all calls.
    Off,
    /// Recorded traces that have passed their probation are replayed.
    #[default]
    On,
    /// Every call is recorded and replayed, revm runs it as well, and a difference is an error: for tests.
    Checked,
}
