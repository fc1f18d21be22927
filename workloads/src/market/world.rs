//! Everything that is derived from a load: what accounts hold, how deep pools are, what a swap can bring.

use alloy_primitives::U256;

use super::{homes::Homes, mix::Mix, names::TokenId, pools::Pools};
use crate::{base::Base, pool::PhalanxPool};

/// A validated load and everything derived from it.
#[derive(Clone, Debug)]
pub(crate) struct Market {
    pub(crate) base: Base,
    pub(crate) pools: Pools,
    pub(crate) mix: Mix,
    pub(crate) homes: Homes,
    /// A word below it draws the hot pool.
    pub(crate) hot_threshold: u128,
    /// What a holder has of a token at genesis: enough to sell in every transaction of the load without ever buying, and
    /// one more, so that no balance becomes zero.
    pub(crate) holding: u128,
    /// What each pool has of each token at genesis.
    pub(crate) reserve: u128,
    /// The highest that a reserve can become, and the lowest.
    pub(crate) extremes: [U256; 2],
    /// How many accounts hold the token of each pool at genesis.
    pub(crate) members: Vec<u32>,
}

impl Market {
    /// The least and the most that a sale of `amount` can bring, whatever was swapped in the pool before.
    ///
    /// A reserve grows only by what is sold for it, so it never exceeds genesis and all sales of the load together. The
    /// product of the reserves never falls, so neither goes below the product at genesis divided by that. A quote falls
    /// with the reserve it pays into and rises with the one it takes from.
    pub(crate) fn proceeds(&self, amount: u64) -> (U256, U256) {
        let [most, least] = self.extremes;
        let quote = |into, from| PhalanxPool::quote(U256::from(amount), into, from).unwrap_or_default();
        (quote(most, least), quote(least, most))
    }

    /// Whether the account at `position` holds `token` at genesis and has approved its pool.
    pub(crate) fn holds(&self, position: u32, token: TokenId) -> bool {
        token == TokenId::HUB
            || token == TokenId::of_pool(self.homes.of(position))
            || token == TokenId::of_pool(0) && self.pools.hot_share > 0.0
    }

    /// All there is of a token: no transaction makes or burns one.
    pub(crate) fn supply(&self, token: TokenId) -> U256 {
        let (holders, pools) = match token.0.checked_sub(1) {
            None => (self.base.accounts.len() as u64, u64::from(self.pools.count)),
            Some(pool) => (self.members[pool as usize].into(), 1),
        };
        U256::from(holders) * U256::from(self.holding) + U256::from(pools) * U256::from(self.reserve)
    }

    /// All tokens.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = TokenId> {
        (0..=self.pools.count).map(TokenId)
    }
}
