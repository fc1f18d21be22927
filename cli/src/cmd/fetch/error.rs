//! Errors of a recording.

use phalanx::revm::database_interface::DBErrorMarker;

/// Reason why a block cannot be recorded.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// No answer came.
    #[error("{server} does not answer: {why}")]
    Unreachable {
        /// Address of the server.
        server: String,
        /// Reason.
        why: String,
    },
    /// The server answered a request with an error.
    #[error("the server refuses {method}: {why}")]
    Refused {
        /// Method of the request.
        method: &'static str,
        /// Code and message of the server.
        why: String,
    },
    /// The answer is none that the request has.
    #[error("the answer to {method} cannot be used: {why}")]
    Answer {
        /// Method of the request.
        method: &'static str,
        /// Reason.
        why: String,
    },
    /// The user stopped the command.
    #[error("interrupted")]
    Interrupted,
}

impl DBErrorMarker for FetchError {}
