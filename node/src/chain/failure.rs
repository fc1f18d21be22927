//! Failures of the engine in the words of a node.

use phalanx::{SnapshotError, api::Failure};

/// Reason for which a state cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateUnread {
    /// The state is not kept any more.
    #[error(
        "historical state of block {height} is not available: the oldest is that of block {oldest}, and --history keeps more"
    )]
    Pruned {
        /// Height of the block.
        height: u64,
        /// Lowest height whose state is kept.
        oldest: u64,
    },
    /// The state cannot be read for another reason.
    #[error("{0}")]
    Failed(String),
}

impl StateUnread {
    pub(super) fn of(height: u64, failure: &Failure) -> Self {
        match failure {
            Failure::Pruned { oldest } => Self::Pruned { height, oldest: *oldest },
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<SnapshotError> for StateUnread {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Pruned { height, oldest } => Self::Pruned { height, oldest },
            other => Self::Failed(other.to_string()),
        }
    }
}
