//! What a job gives.

use super::{Candidate, Dropped};
use crate::{BlockError, Executed};
use alloy_consensus::Header;

/// A built block, executed.
#[derive(Debug)]
pub struct Built {
    /// The block; [`crate::BlockInfo::order`] counts through [`Self::txs`]. It is merkleized and committed as any other.
    pub executed: Executed,
    /// Its transactions in final order, every one of them valid.
    pub txs: Vec<Candidate>,
    /// The header of a whole block: its template with the outcome filled in. The roots of state and transactions and the
    /// hash of the access list are left as they were.
    pub header: Option<Header>,
    /// Candidates that were left out, and why, in the order in which that turned out.
    pub dropped: Vec<Dropped>,
    /// Candidates that were not tried to the end, because the job was: they are as good as before.
    pub waiting: Vec<Candidate>,
    /// Why the block holds less than it could: what ran could not be sealed, so this is the empty block, and all that ran
    /// is `waiting`.
    pub failure: Option<BlockError>,
}
