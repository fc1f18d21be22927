//! Failures that consensus gets for the engine's errors.

use crate::{model::Error, state::SnapshotError};
use phalanx_engine_api::{Failure, FatalCause, RetryCause};

/// Maps an error to the failure that consensus gets.
pub(super) fn failure(error: &Error) -> Failure {
    match error {
        Error::Store(phalanx_merkle::Error::Gone { .. }) => Failure::Superseded,
        Error::Store(phalanx_merkle::Error::Corrupt { .. }) | Error::Corrupt { .. } | Error::Evm { .. } => {
            Failure::Fatal(FatalCause::Corrupt(error.to_string()))
        }
        Error::Store(_) | Error::WriterGone => Failure::Fatal(FatalCause::Io(error.to_string())),
        _ => Failure::Fatal(FatalCause::Stopped(error.to_string())),
    }
}

/// Maps the error of a read to the failure that its caller gets.
pub(super) fn unread(error: SnapshotError) -> Failure {
    match error {
        SnapshotError::Pruned { oldest, .. } => Failure::Pruned { oldest },
        SnapshotError::Lost { .. } => Failure::Superseded,
        SnapshotError::NotWritten => Failure::Retry(RetryCause::Busy),
        SnapshotError::Remote(_) => Failure::Retry(RetryCause::Remote),
        SnapshotError::Corrupt(what) => Failure::Fatal(FatalCause::Corrupt(what)),
    }
}
