//! State of an engine as consensus sees it: committed tip, limits, backlog.

use crate::id::{BlockId, ExecId};
use alloy_primitives::{B256, Bytes};

/// Data that is stored with a commit, in the same atomic write as the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitMeta {
    /// The committed block as consensus names it.
    pub block: BlockId,
    /// Names of the ancestors that become committed with it, oldest first.
    pub ancestors: Vec<BlockId>,
    /// Position of consensus: the number that it replays from. At least the height.
    pub cursor: u64,
    /// Proof that the block is ordered, if it is at hand: a state certificate implies one.
    pub order_proof: Option<Bytes>,
    /// Certificate of the state, if the chain has them.
    pub state_certificate: Option<Bytes>,
}

/// The newest committed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedTip {
    /// Height of the block.
    pub height: u64,
    /// Execution of the block.
    pub exec: ExecId,
    /// State root after the block.
    pub state_root: B256,
    /// Metadata of the commit.
    pub meta: CommitMeta,
}

/// Durable state of an engine: read at start-up, and whenever in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineStatus {
    /// Number of the chain, part of every [`ExecId`].
    pub chain: u64,
    /// The newest committed block.
    pub committed: CommittedTip,
    /// Lowest height that a rewind may reach.
    pub finalised: u64,
    /// Staged blocks with their heights, by height. A cache: none of them is promised to survive.
    pub staged: Vec<(u64, ExecId)>,
}

/// Bounds of uncommitted blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of heights above the committed one.
    pub depth: u32,
    /// Maximum number of blocks at one height.
    pub siblings: u32,
    /// Maximum size of all uncommitted blocks, in bytes: their payloads, and the memory of those that are executed.
    pub bytes: u64,
}

impl Default for Limits {
    /// 32 heights, 8 siblings, 1 GiB: a second or two of blocks at any sensible rate, and every honest proposal of one
    /// height under a few view changes.
    fn default() -> Self {
        Self { depth: 32, siblings: 8, bytes: 1 << 30 }
    }
}

/// Bounds of the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBudget {
    /// Maximum gas.
    pub gas: u64,
    /// Maximum size of the transactions, in bytes.
    pub bytes: u64,
    /// Maximum number of transactions.
    pub txs: u32,
}

impl BlockBudget {
    /// No limit from the engine.
    pub const UNLIMITED: Self = Self { gas: u64::MAX, bytes: u64::MAX, txs: u32::MAX };
}

/// Backlog of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Number of blocks submitted and not executed.
    pub unexecuted: u32,
    /// Number of blocks executed and not committed.
    pub uncommitted: u32,
    /// Recommended bounds of the next block.
    pub propose: BlockBudget,
}
