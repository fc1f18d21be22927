use super::queue::Load;
use revm::primitives::hardfork::SpecId;

/// In which order ready transactions are handed out. A sender's own always go in order of nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Who pays most per gas above the base fee first; who waits gains.
    Price {
        /// Wei per gas that a transaction gains with every tick of waiting. With b > 0 one that offers d wei less than
        /// another goes first if it came d / b ticks earlier. So whoever pays the base fee waits at most (highest tip −
        /// own tip) / b ticks for those that come after it.
        boost: u64,
    },
    /// Who came first, first.
    Arrival,
}

/// Limits and rules of a [`Pool`](super::Pool). [`Default`] is for a chain like Ethereum with blocks of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// The fork that transactions must be valid in. A pool is told of a new one by [`Pool::set_spec`](super::Pool::set_spec).
    pub spec: SpecId,
    /// The order in which transactions are handed out.
    pub policy: Policy,
    /// Most transactions that could run now, and their bytes in memory. Default 131,072 and 256 MiB.
    pub max_ready: Load,
    /// The same for those that cannot run yet: nonce gaps, and senders who could not pay for all. They have their own room,
    /// since promises cost nothing. Default 32,768 and 64 MiB.
    pub max_future: Load,
    /// Nonces of a sender that the pool looks ahead, beginning with that of the state; so also the most transactions of a
    /// sender. Default 1024.
    pub window: u64,
    /// Most bytes in memory of a sender's transactions. Default 8 MiB, a thirty-second of the room.
    pub max_sender_bytes: usize,
    /// Most bytes of a transaction's encoding, without blobs. Default 128 KiB.
    pub max_tx_bytes: usize,
    /// Most gas of a transaction: a block's limit. Default 36 million.
    pub max_tx_gas: u64,
    /// Least that a transaction must be ready to pay per gas, wei. Default 1.
    pub min_cap: u128,
    /// Least tip, wei per gas. Default 0.
    pub min_tip: u128,
    /// Percent by which both prices of a replacement must exceed the old ones. Default 10.
    pub bump: u64,
    /// The same for the price of blob gas, for blob transactions all three prices. Default 100.
    pub blob_bump: u64,
    /// Ticks after which a transaction that nobody took is let go of. Default 10,800: three hours of seconds.
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
