//! The number of pools of a load, and the heat of the first.

use alloy_primitives::Address;

use super::names::{TokenId, pool_at, token_address};
use crate::config::{ConfigError, MAX_POOLS};

/// Pools of an [`Amm`](crate::Amm) or [`Mixed`](crate::Mixed) load. Each trades the hub token, which all share, for a
/// token of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pools {
    /// Number of pools, at most [`Self::MAX`].
    pub count: u32,
    /// Probability that a swap goes to pool 0, `0..=1`; otherwise it goes to the trader's home pool. With zero no pool
    /// is hot by construction, and accounts need about half the storage.
    pub hot_share: f64,
}

impl Pools {
    /// Maximum number of pools: more than any chain has in use within minutes.
    pub const MAX: u32 = MAX_POOLS;

    /// The two tokens of the pool at `address`, the shared one first; `None` for any other address.
    pub fn tokens(address: &Address) -> Option<[Address; 2]> {
        pool_at(address).map(|pool| [TokenId::HUB, TokenId::of_pool(pool)].map(token_address))
    }

    /// Refuses a number and a share that describe no pools.
    ///
    /// # Errors
    /// If there are no pools or too many, or the share is no probability.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.count == 0 || self.count > Self::MAX {
            return Err(ConfigError::Pools { pools: self.count });
        }
        if !(0.0..=1.0).contains(&self.hot_share) {
            return Err(ConfigError::HotShare { share: self.hot_share });
        }
        Ok(())
    }

    /// Number of balances and allowances of an account at genesis: of the shared token and the home pool's token, and
    /// with a hot pool also of that pool's token.
    pub const fn slots_per_account(&self) -> usize {
        if self.hot_share > 0.0 { 7 } else { 4 }
    }
}

impl Default for Pools {
    /// A hundred pools, none of them hot by construction.
    fn default() -> Self {
        Self { count: 100, hot_share: 0.0 }
    }
}
