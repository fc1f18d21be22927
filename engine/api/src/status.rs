//! What an engine says about itself.

use crate::{BlockId, ExecId};
use alloy_primitives::{B256, Bytes};

/// What is stored with a commit, in the same atomic write as the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitMeta {
    /// The committed block as consensus names it.
    pub block: BlockId,
    /// Names of the ancestors that become committed with it, oldest first.
    pub ancestors: Vec<BlockId>,
    /// Where consensus stands: whatever number it replays from. At least the height.
    pub cursor: u64,
    /// Proof that the block is ordered, if it is at hand: a state certificate implies one.
    pub order_proof: Option<Bytes>,
    /// Certificate of the state, if the chain has them.
    pub state_certificate: Option<Bytes>,
}

/// The newest committed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its height.
    pub height: u64,
    /// Its execution.
    pub exec: ExecId,
    /// Its state root.
    pub state_root: B256,
    /// What came with the commit.
    pub meta: CommitMeta,
}

/// What survived: read at start-up, and whenever in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineStatus {
    /// Number of the chain, part of every [`ExecId`].
    pub chain: u64,
    /// The newest committed block.
    pub committed: Committed,
    /// No rewind goes below it.
    pub finalised: u64,
    /// Staged blocks with their heights, by height. A cache: none of them is promised to survive.
    pub staged: Vec<(u64, ExecId)>,
}

/// Bounds of what is not committed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Heights above the committed one.
    pub depth: u32,
    /// Blocks at one height.
    pub siblings: u32,
    /// Bytes of payloads held for uncommitted blocks.
    pub bytes: u64,
}

impl Default for Limits {
    /// 32 heights, 8 siblings, 256 MiB: a second or two of blocks at any sensible rate, and every honest proposal of one
    /// height under a few view changes.
    fn default() -> Self {
        Self { depth: 32, siblings: 8, bytes: 256 << 20 }
    }
}

/// What the next block may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Gas.
    pub gas: u64,
    /// Bytes of transactions.
    pub bytes: u64,
    /// Transactions.
    pub txs: u32,
}

impl Budget {
    /// No limit from this side.
    pub const UNLIMITED: Self = Self { gas: u64::MAX, bytes: u64::MAX, txs: u32::MAX };
}

/// How far execution is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Blocks submitted and not executed.
    pub unexecuted: u32,
    /// Blocks executed and not committed.
    pub uncommitted: u32,
    /// What the next block should hold.
    pub propose: Budget,
}
