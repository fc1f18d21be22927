//! Executed blocks as a whole, for a node that hands them to its consensus.

use super::Service;
use crate::seal::BlockInfo;
use alloy_consensus::Header;
use phalanx_engine_api::{ExecId, Failure, Payload, RetryCause, ViewAt};
use std::sync::Arc;

/// A whole block that was executed here.
#[derive(Clone, Debug)]
pub struct WholeBlock {
    /// Header with the outcome. Its hash is the block's.
    pub header: Arc<Header>,
    /// Transactions, skipped ones included, and attributes.
    pub payload: Arc<Payload>,
    /// Outcomes, receipts, requests and access list of the executed transactions.
    pub info: Arc<BlockInfo>,
}

impl Service {
    /// Returns a block that was executed since the service was opened: a speculative one, or one of the newest committed.
    ///
    /// # Errors
    /// `Retry` if the block is not executed, or its parts are not kept: on a chain whose blocks are transactions alone, after a
    /// restart, behind the newest 256 blocks, or behind newer ones with 32,768 transactions.
    pub fn whole_block(&self, id: ExecId) -> Result<WholeBlock, Failure> {
        let kept = self.kept(ViewAt::Exec(id))?;
        let parts = kept.header.zip(kept.payload).zip(kept.info);
        let ((header, payload), info) = parts.ok_or(Failure::Retry(RetryCause::NotReady(id)))?;
        Ok(WholeBlock { header, payload, info })
    }
}
