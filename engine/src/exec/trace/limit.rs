//! The limits of a recording.

/// A trace would become too large, or the transaction does what traces do not do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit;
