//! Limits and rules of a pool.

use super::queue::Load;
use revm::primitives::hardfork::SpecId;

/// Order in which ready transactions are handed out. A sender's own always go in order of nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The highest price above the base fee goes first; waiting may raise it.
    Price {
        /// Gain per tick of waiting, in wei per gas. With b > 0, a transaction that offers d wei less than another
        /// goes first if it came d / b ticks earlier. So a transaction that pays the base fee waits at most (highest
        /// tip − own tip) / b ticks for later ones.
        boost: u64,
    },
    /// The oldest goes first.
    Arrival,
}

/// Limits and rules of a [`Pool`](super::Pool). [`Default`] suits a chain like Ethereum with blocks of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Hard fork that transactions must be valid in. [`Pool::set_spec`](super::Pool::set_spec) changes it.
    pub spec: SpecId,
    /// Order in which transactions are handed out.
    pub policy: Policy,
    /// Maximum of ready transactions, and their bytes in memory. Default 131,072 and 256 MiB.
    pub max_ready: Load,
    /// Maximum of future transactions: nonce gaps, and senders that could not pay for all. They have their own room,
    /// since they may never be paid for. Default 32,768 and 64 MiB.
    pub max_future: Load,
    /// Maximum distance of a nonce from the sender's in the state; so also the maximum number of a sender's
    /// transactions. Default 1024.
    pub window: u64,
    /// Maximum memory of a sender's transactions, in bytes. Default 8 MiB, a thirty-second of the room.
    pub max_sender_bytes: usize,
    /// Maximum length of a transaction's encoding without blobs, in bytes. Default 128 KiB.
    pub max_tx_bytes: usize,
    /// Maximum gas limit of a transaction: a block's limit. Default 36 million.
    pub max_tx_gas: u64,
    /// Minimum price that a transaction offers, in wei per gas. Default 1.
    pub min_cap: u128,
    /// Minimum tip, in wei per gas. Default 0.
    pub min_tip: u128,
    /// Percent by which both prices of a replacement must exceed the old ones. Default 10.
    pub bump: u64,
    /// Percent for blob transactions, whose blob gas price must exceed the old one as well. Default 100.
    pub blob_bump: u64,
    /// Ticks after which a transaction that was not handed out expires. Default 10,800: three hours of seconds.
    pub max_age: u64,
}

impl Default for PoolConfig {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Self {
            spec: SpecId::OSAKA,
            policy: Policy::Price { boost: 0 },
            max_ready: Load { txs: 1 << 17, bytes: 256 * MIB },
            max_future: Load { txs: 1 << 15, bytes: 64 * MIB },
            window: 1024,
            max_sender_bytes: 8 * MIB,
            max_tx_bytes: MIB / 8,
            max_tx_gas: 36_000_000,
            min_cap: 1,
            min_tip: 0,
            bump: 10,
            blob_bump: 100,
            max_age: 10_800,
        }
    }
}
