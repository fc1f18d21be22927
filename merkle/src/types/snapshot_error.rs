//! Reasons to refuse a part of a snapshot.

/// Reason why a manifest or a chunk is refused. What sent it is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes are no manifest of this format.
    #[error("not the manifest of a snapshot of this format")]
    Manifest,
    /// The manifest is of another height or root than the trusted one.
    #[error("the manifest is of another height or root")]
    Untrusted,
    /// There is no chunk with this number.
    #[error("there is no chunk {0}")]
    Number(u64),
    /// The bytes end early, continue after the end, or are not the canonical encoding.
    #[error("not the canonical encoding of a chunk")]
    Malformed,
    /// The digests do not lead to the root.
    #[error("the digests do not lead to the root")]
    Root,
    /// The chunk lacks code that its entries name, or has other bytes for it.
    #[error("the code is not the code that the entries name")]
    Code,
    /// The chunk has a key that the application cannot have.
    #[error("a key that the application cannot have")]
    Key,
}
