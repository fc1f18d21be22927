//! Failures that consensus gets for the engine's errors.

use crate::model::Error;
use phalanx_engine_api::{Failure, FatalCause};

/// Maps an error to the failure that consensus gets.
pub(super) fn failure(error: &Error) -> Failure {
    match error {
        Error::Store(phalanx_merkle::Error::Gone { .. }) => Failure::Superseded,
        Error::Store(phalanx_merkle::Error::Corrupt { .. }) | Error::Corrupt { .. } | Error::Evm { .. } => {
            Failure::Fatal(FatalCause::Corrupt(error.to_string()))
        }
        _ => Failure::Fatal(FatalCause::Io(error.to_string())),
    }
}

/// Failure of every request after the driver has ended.
pub(super) fn stopped() -> Failure {
    Failure::Fatal(FatalCause::Io("the engine has stopped".into()))
}
