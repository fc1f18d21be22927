//! How an engine runs blocks: choices of its user.

use revm::{context::CfgEnv, primitives::hardfork::SpecId};

/// Whether the engine may choose the order of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A builder's: transactions are framed for parallelism before blocks are formed, and one that escapes its
    /// prediction moves to the next block. Each sender's nonce order is kept.
    Free,
    /// A validator's: exactly the order of the input.
    Given,
}

/// How blocks are executed. The outcome is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Executor {
    /// Workers on the exact per-slot DAG of the predicted access sets.
    #[default]
    Dag,
    /// Block-STM: optimistic, without predictions.
    BlockStm,
    /// Stock revm, one transaction after the other: the oracle that every other executor is compared with.
    Sequential,
}

/// Specs whose rules the executors implement. A value transfer at the top level costs the same whoever receives it, which
/// Amsterdam ends.
pub(crate) const fn is_supported(cfg: &CfgEnv) -> bool {
    !cfg.spec.is_enabled_in(SpecId::AMSTERDAM) && !cfg.enable_amsterdam_eip8037 && !cfg.enable_amsterdam_eip2780
}

/// What an invalid transaction does to a block in given order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// It makes the block invalid.
    Refuse,
    /// It is left out: [`Outcome::Skipped`]. Gas beyond the block's limit is not looked for.
    Skip,
}

/// Whether calls of contracts are replayed. No result depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Traces {
    /// revm runs all.
    Off,
    /// What was recorded and has proved itself is replayed.
    #[default]
    On,
    /// Every call is recorded and replayed, revm runs it as well, and a difference is an error: for tests.
    Checked,
}
