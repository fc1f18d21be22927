//! Fates of offered transactions.

use crate::upstream::UpstreamError;
use alloy_primitives::B256;
use phalanx::{SendError, pool::Refusal};

/// Fate of an offered transaction: its hash, or the reason why it is not in the pool.
pub(crate) type Fate = Result<B256, Unadmitted>;

/// Reason why an offered transaction is not in the pool.
#[derive(Debug)]
pub(crate) enum Unadmitted {
    /// The transaction did not reach the rules of the pool.
    Unsent(SendError),
    /// The pool refuses it.
    Refused(Refusal),
    /// The node that this one follows does not take it.
    Upstream(UpstreamError),
    /// The hash that this node has for it is another one.
    Misnamed(B256),
}

/// Reason why an offer has no fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoFate {
    #[error("too many transactions wait to be admitted: retry later")]
    Full,
    #[error("the admission panicked; see the node's log")]
    Panicked,
}
