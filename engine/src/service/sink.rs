//! The node's own store of blocks, as the service sees it: it takes every block before the block becomes visible.

use crate::{seal::BlockInfo, state::StateDiff};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256};
use phalanx_engine_api::{self as api, Candidate, CommittedTip};
use std::fmt;

/// A block that is about to be committed.
#[derive(Debug)]
pub struct SinkBlock<'a> {
    /// The block as it will be committed, with its name in consensus.
    pub committed: &'a CommittedTip,
    /// Environment and transactions.
    pub candidate: &'a Candidate,
    /// Result of the block, with a status per transaction of the candidate.
    pub outcome: &'a api::ExecOutcome,
    /// Hash of the block: of its header, if there is one; else the name of its execution.
    pub hash: B256,
    /// Header of a whole block, outcome included; `None` if the chain's blocks are transactions alone.
    pub header: Option<&'a Header>,
    /// Receipts with logs, results with created addresses, requests, access list: of the executed transactions.
    pub info: &'a BlockInfo,
    /// Hashes of the executed transactions, in order.
    pub hashes: &'a [B256],
    /// Senders of the executed transactions, in order.
    pub senders: &'a [Address],
    /// Values that the block writes, if the sink [needs](BlockSink::needs_diff) them.
    pub diff: Option<StateDiff>,
}

/// Refusal of a block by a [`BlockSink`]: nothing is committed, and consensus tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkRefused;

/// The node's own store of blocks, receipts and indexes.
///
/// Every committed block is handed over at least once, in order of height, before it is visible and before it is
/// durable in the engine. A crash, or a refusal of a later block of the same commit, lets blocks be handed over again:
/// the sink replaces what it holds at that height and above. All calls come from one thread. The next block is executed
/// beside them, and only the commit waits.
pub trait BlockSink: Send + Sync {
    /// The service was opened, or has gone back: `tip` is the newest committed block. The sink may hold blocks above
    /// it, which were never committed, or not any more; it holds all blocks up to it that it has ever accepted.
    fn resumed(&self, tip: &CommittedTip);

    /// True if blocks come with the values that they write. They cost time linear in the values.
    fn needs_diff(&self) -> bool {
        false
    }

    /// Takes a block. It returns when the block is as durable in the sink as the node needs it: after that the engine
    /// does not have the data any more.
    ///
    /// # Errors
    /// If the sink cannot store the block: nothing is committed, and the commit fails with
    /// [`RetryCause::Sink`](phalanx_engine_api::RetryCause::Sink). A panic counts as a refusal.
    fn put(&self, block: &SinkBlock<'_>) -> Result<(), SinkRefused>;
}

impl fmt::Debug for dyn BlockSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockSink")
    }
}
