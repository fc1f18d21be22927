//! Errors of a measurement that a caller tells apart.

/// Settings that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Results or states that differ where they must be equal.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Different(pub String);

/// Stopped by the user before there was a result.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Input of others that is not what it must be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);
