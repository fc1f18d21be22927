//! Errors of the Engine API, with the codes and messages of its specification.

/// Error of a method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The parameters are not those of this version of the method.
    #[error("Invalid params: {0}")]
    Params(String),
    /// No job builds, or has built, a payload of this name.
    #[error("Unknown payload")]
    UnknownPayload,
    /// The blocks of a fork choice are not of one chain.
    #[error("Invalid forkchoice state: {0}")]
    ForkchoiceState(&'static str),
    /// No payload has these attributes on the chosen head.
    #[error("Invalid payload attributes: {0}")]
    Attributes(String),
    /// More is requested than an answer holds.
    #[error("Too large request")]
    TooLarge,
    /// The payload is of a fork that another version of the method is for.
    #[error("Unsupported fork")]
    Fork,
    /// The chain would go back to before its finalised block, or further than its states are kept.
    #[error("Too deep reorg: {0}")]
    TooDeep(&'static str),
    /// The node cannot answer now.
    #[error("Server error: {0}")]
    Server(String),
}

impl Fault {
    /// Code of [`Self::Server`], whose reason is in the error's data.
    pub(crate) const SERVER: i32 = -32000;

    /// Code of the error.
    pub(crate) const fn code(&self) -> i32 {
        match self {
            Self::Params(_) => -32602,
            Self::Server(_) => Self::SERVER,
            Self::UnknownPayload => -38001,
            Self::ForkchoiceState(_) => -38002,
            Self::Attributes(_) => -38003,
            Self::TooLarge => -38004,
            Self::Fork => -38005,
            Self::TooDeep(_) => -38006,
        }
    }
}
