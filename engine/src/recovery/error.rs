use crate::chain::TxRuleError;

/// Why bytes are not a transaction, or not one of this chain and fork.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// They are not the EIP-2718 encoding of a transaction.
    #[error("not an EIP-2718 transaction: {0}")]
    Decode(#[from] alloy_eips::eip2718::Eip2718Error),
    /// Bytes follow the transaction.
    #[error("{len} bytes follow the transaction")]
    Trailing {
        /// How many.
        len: usize,
    },
    /// The transaction has a shorter encoding, whose hash is another one.
    #[error("the encoding has {len} bytes, the canonical one {canonical}")]
    NotCanonical {
        /// Length of what was given.
        len: usize,
        /// Length of the one encoding that counts.
        canonical: usize,
    },
    /// The signature belongs to no key; or, where no fork is known, is not the canonical one (EIP-2).
    #[error("the signature is invalid")]
    Signature,
    /// A rule of the fork, whatever the state is.
    #[error(transparent)]
    Rule(#[from] TxRuleError),
    /// A blob transaction for a pool comes without its blobs.
    #[error("a blob transaction needs its blobs to be pooled")]
    NoBlobs,
    /// The blobs that come with a transaction are not those that it names.
    #[error("the blobs are not those of the transaction: {what}")]
    Blobs {
        /// What does not fit.
        what: &'static str,
    },
}
