//! Environment and policy of an execution: with parent and payload, everything that its result depends on.

use alloy_primitives::{Address, B256};

/// Environment of a block. Its first proposer fixes it: a later proposer of the payload keeps it, or nothing is
/// reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockEnv {
    /// Height of the block: the parent's plus one.
    pub height: u64,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Randomness of the block.
    pub prevrandao: B256,
    /// Account that gets the fees.
    pub beneficiary: Address,
    /// Gas the block may use.
    pub gas_limit: u64,
    /// Wei per gas that is burnt.
    pub base_fee: u64,
}

/// Effect of an invalid transaction on its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TxPolicy {
    /// The block is invalid: for consensus that checks a block before it votes for it.
    #[default]
    Strict,
    /// The transaction is skipped, without a receipt: for consensus that orders first.
    SkipInvalid,
}
