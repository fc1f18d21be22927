//! How many pools a load has, and how hot the first one is.

use alloy_primitives::Address;

use super::names::{TokenId, pool_at, token_address};
use crate::config::MAX_POOLS;

/// The pools of an [`Amm`](crate::Amm) or [`Mixed`](crate::Mixed) load. Each trades the hub token, which all share, for a token of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pools {
    /// How many there are, at most [`Self::MAX`].
    pub count: u32,
    /// The probability that a swap goes to pool 0, `0..=1`; otherwise it goes to the trader's home pool. With zero no pool
    /// is hot by decree, and accounts need about half the storage.
    pub hot_share: f64,
}

impl Pools {
    /// More pools than any chain has in use within minutes.
    pub const MAX: u32 = MAX_POOLS;

    /// The two tokens of the pool at `address`, the shared one first, if it is where a pool of such a load is.
    pub fn tokens(address: &Address) -> Option<[Address; 2]> {
        pool_at(address).map(|pool| [TokenId::HUB, TokenId::of_pool(pool)].map(token_address))
    }

    /// Balances and allowances of an account at genesis: of the shared token and of its home pool's, and with a hot pool
    /// also of that one's.
    pub const fn slots_per_account(&self) -> usize {
        if self.hot_share > 0.0 { 7 } else { 4 }
    }
}

impl Default for Pools {
    /// A hundred pools, none of them hot by decree.
    fn default() -> Self {
        Self { count: 100, hot_share: 0.0 }
    }
}
