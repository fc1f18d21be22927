//! A market: holdings of accounts, depth of pools, and bounds of a swap's proceeds.

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
    /// Random words below this threshold draw the hot pool.
    pub(crate) hot_threshold: u128,
    /// Balance of a holder in each of its tokens at genesis. It covers a sale in every transaction of the load without
    /// any purchase, and one unit more, so that no balance becomes zero.
    pub(crate) holding: u128,
    /// Balance of each pool in each of its tokens at genesis.
    pub(crate) reserve: u128,
    /// Highest and lowest possible reserve.
    pub(crate) extremes: [U256; 2],
    /// Number of accounts that hold the token of each pool at genesis.
    pub(crate) members: Vec<u32>,
}

impl Market {
    /// Bounds of the proceeds of a sale of `amount`, for any swaps in the pool before.
    ///
    /// A reserve grows only by what is sold for it, so it never exceeds genesis and all sales of the load together. The
    /// product of the reserves never falls, so neither goes below the product at genesis divided by that. A quote falls
    /// with the reserve it pays into and rises with the one it takes from.
    pub(crate) fn proceeds(&self, amount: u64) -> (U256, U256) {
        let [most, least] = self.extremes;
        let quote = |into, from| PhalanxPool::quote(U256::from(amount), into, from).unwrap_or_default();
        (quote(most, least), quote(least, most))
    }

    /// True if the account at `position` holds `token` at genesis and has approved its pool.
    pub(crate) fn holds(&self, position: u32, token: TokenId) -> bool {
        token == TokenId::HUB
            || token == TokenId::of_pool(self.homes.of(position))
            || token == TokenId::of_pool(0) && self.pools.hot_share > 0.0
    }

    /// Total supply of a token: no transaction mints or burns.
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
