use crate::{chain::TxRuleError, model::TooWide};

/// Reason for which bytes are no transaction, or none of this chain and hard fork.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The bytes are not the EIP-2718 encoding of a transaction.
    #[error("not an EIP-2718 transaction: {0}")]
    Decode(#[from] alloy_eips::eip2718::Eip2718Error),
    /// A fee is wider than the engine's fields.
    #[error(transparent)]
    TooWide(#[from] TooWide),
    /// Bytes follow the transaction.
    #[error("{len} bytes follow the transaction")]
    Trailing {
        /// Number of bytes that follow.
        len: usize,
    },
    /// The transaction has a shorter encoding, with a different hash.
    #[error("the encoding has {len} bytes, the canonical one {canonical}")]
    NotCanonical {
        /// Length of the given encoding, in bytes.
        len: usize,
        /// Length of the canonical encoding, in bytes.
        canonical: usize,
    },
    /// The signature has no signer; or, where no hard fork is known, is not the canonical one (EIP-2).
    #[error("the signature is invalid")]
    Signature,
    /// A rule of the hard fork that needs no state.
    #[error(transparent)]
    Rule(#[from] TxRuleError),
    /// No sender offers a forced transaction: the chain puts it into a block.
    #[error("a forced transaction is not pooled: put it into the block that the chain derives")]
    Forced,
    /// A blob transaction for a pool comes without its blobs.
    #[error("a blob transaction needs its blobs to be pooled")]
    NoBlobs,
    /// The blobs do not match the transaction.
    #[error("the blobs are not those of the transaction: {what}")]
    Blobs {
        /// Part that does not match.
        what: &'static str,
    },
}
