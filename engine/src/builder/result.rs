//! Result of a job.

use crate::{builder::Dropped, model::CandidateTx};
use crate::{model::BlockError, seal::Executed};
use alloy_consensus::Header;

/// A built block, executed.
#[derive(Debug)]
pub struct Built {
    /// The block; [`crate::BlockInfo::order`] counts through [`Self::txs`]. It is merkleized and committed as any other.
    pub executed: Executed,
    /// Transactions in final order, every one of them valid.
    pub txs: Vec<CandidateTx>,
    /// Header of a whole block: its template with the outcome filled in. The roots of state and transactions are left unchanged.
    pub header: Option<Header>,
    /// Dropped candidates with their reasons, in the order of their drop.
    pub dropped: Vec<Dropped>,
    /// Candidates that were not tried to the end, because the job ended: they can be offered again.
    pub waiting: Vec<CandidateTx>,
    /// Failure that cost the block its transactions: the run could not be sealed, so this is the empty block, and all
    /// its transactions are in `waiting`.
    pub failure: Option<BlockError>,
}
