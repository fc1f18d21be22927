//! Reasons for which a connection is closed.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Reason for which a connection is closed. None of them harms the replica; the other end may connect again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The connection ended, failed or was silent for too long.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// A frame is longer than any that the network's settings permit.
    #[error("a frame of {bytes} bytes, and {most} are the maximum")]
    TooLong {
        /// Length that the frame states, in bytes.
        bytes: u64,
        /// Maximum, in bytes.
        most: usize,
    },
    /// The greeting is not one of this version.
    #[error("the greeting is not one of this version")]
    Greeting,
    /// The other end belongs to another network, or has other settings.
    #[error("the other end belongs to another network or has other settings: compare the configuration files")]
    Instance,
    /// The other end claims an index that cannot be.
    #[error("the other end claims to be replica {from} and looks for replica {to}")]
    Index {
        /// Claimed index of the other end.
        from: u16,
        /// Index that it looks for.
        to: u16,
    },
    /// A frame or greeting is not authentic: its tag or signature is wrong, it is repeated or out of order.
    #[error("a frame is not authentic")]
    Unproven,
    /// The bytes of an authentic frame are no message.
    #[error("a frame is no message: {0}")]
    Malformed(alloy_rlp::Error),
    /// A signature inside an authentic frame is wrong: a correct replica verifies what it hands on.
    #[error("a signature inside a frame is wrong")]
    Forged,
    /// There are as many connections as the replica admits.
    #[error("there are too many connections")]
    Full,
}

/// Number of refusals by kind.
#[derive(Debug, Default)]
pub(crate) struct Refusals([AtomicU64; 8]);

impl Refusals {
    const NAMES: [&str; 8] = [
        "too_long",
        "greeting",
        "other_instance",
        "wrong_index",
        "not_authentic",
        "malformed",
        "too_many_connections",
        "wrong_signature",
    ];

    /// Counts a refusal. A connection that ends is none.
    pub(crate) fn note(&self, refused: &Refused) {
        let kind = match refused {
            Refused::Io(_) => return,
            Refused::TooLong { .. } => 0,
            Refused::Greeting => 1,
            Refused::Instance => 2,
            Refused::Index { .. } => 3,
            Refused::Unproven => 4,
            Refused::Malformed(_) => 5,
            Refused::Full => 6,
            Refused::Forged => 7,
        };
        self.0[kind].fetch_add(1, Relaxed);
    }

    /// Kinds with their numbers, without the zeros.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counted = Self::NAMES.into_iter().zip(&self.0).map(|(name, count)| (name, count.load(Relaxed)));
        counted.filter(|(_, count)| *count > 0).collect()
    }
}
