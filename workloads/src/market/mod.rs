//! A world of tokens and pools, which the loads `amm` and `mixed` share.
//!
//! ```text
//!            hub token (0)                   each account holds the hub and the token of its home pool,
//!            ╱     │     ╲                   has approved that pool for both, and, when a share of the swaps
//!        pool 0  pool 1  pool 2 ..           goes to pool 0, holds and has approved what that one needs
//!          │       │       │
//!       token 1  token 2  token 3 ..
//! ```
//!
//! Every pool starts with the same deep reserves, so that the price of any swap is bounded whatever goes before it. See
//! [`Market::proceeds`].

use alloy_primitives::{Address, U256};

use crate::{Accounts, ConfigError, GenesisAccount, HotSide, PhalanxPool, TransferLoad, base::Base};

mod amm;
mod book;
mod check;
mod genesis;
mod homes;
mod mix;
mod mixed;
mod step;
mod steps;
mod workload;

pub use amm::Amm;
pub use mix::{Mix, MixError};
pub use mixed::Mixed;

pub(crate) use book::Book;
pub(crate) use homes::{Homes, Popularity};
pub(crate) use step::{Action, Fate, Side, Step, pool_address, token_address};
pub(crate) use steps::Steps;
pub(crate) use workload::Trades;

/// The pools of an [`Amm`] or [`Mixed`] load. Each trades the hub token, which all share, for a token of its own.
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
    pub const MAX: u32 = 1 << 16;

    /// The two tokens of the pool at `address`, the shared one first, if it is where a pool of such a load is.
    pub fn tokens(address: &Address) -> Option<[Address; 2]> {
        step::pool_at(address).map(|pool| [TokenId::HUB, TokenId::of_pool(pool)].map(token_address))
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

/// A token: zero is the hub, `p + 1` that of pool `p`. Also its rank among tokens, less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TokenId(pub(crate) u32);

impl TokenId {
    pub(crate) const HUB: Self = Self(0);

    pub(crate) const fn of_pool(pool: u32) -> Self {
        Self(pool + 1)
    }
}

/// How many times everything that the load could sell each reserve is. Then no order of the swaps moves a price by more
/// than one per cent: (1 + 1/200)^2 = 1.01.
const DEPTH: u128 = 200;

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
    /// What the load, its genesis, one stream and one ledger take together, in bytes per account.
    pub(crate) const fn bytes_per_account(pools: &Pools) -> usize {
        Accounts::BYTES_PER_ACCOUNT
            + Steps::BYTES_PER_ACCOUNT
            + size_of::<GenesisAccount>()
            + pools.slots_per_account() * size_of::<(U256, U256)>()
            + Book::BYTES_PER_ACCOUNT
    }

    pub(crate) fn new(
        load: TransferLoad,
        pools: Pools,
        mix: Mix,
        popularity: fn(u32) -> Popularity,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self, ConfigError> {
        mix.validate()?;
        if pools.count == 0 || pools.count > Pools::MAX {
            return Err(ConfigError::Pools { pools: pools.count });
        }
        if !(0.0..=1.0).contains(&pools.hot_share) {
            return Err(ConfigError::HotShare { share: pools.hot_share });
        }
        if step::is_contract(&load.coinbase) {
            return Err(ConfigError::CoinbaseTakesPart { coinbase: load.coinbase });
        }
        let per_account = Self::bytes_per_account(&pools);
        load.validate(per_account as u64)?;
        // Neither factor exceeds 2^32, so the products fit.
        let needed = (load.accounts * per_account as u64).saturating_add(load.txs * Book::BYTES_PER_TX as u64);
        if let Some(limit) = load.memory_limit.filter(|limit| needed > *limit) {
            return Err(ConfigError::Memory { needed, limit });
        }

        let base = Base::new(load, per_account, step::MAX_GAS, None, progress)?;
        let homes = Homes::new(base.load.seed, pools.count, popularity(pools.count));
        let mut members = vec![0; pools.count as usize];
        for position in 0..base.accounts.len() as u32 {
            members[homes.of(position) as usize] += 1;
        }
        if pools.hot_share > 0.0 {
            members[0] = base.accounts.len() as u32;
        }
        // Fewer than 2^32 transactions of at most 2^30 units: 2^62, and 2^70 in a reserve.
        let sold = u128::from(base.load.txs.max(1)) * u128::from(*step::SALE.end());
        let reserve = DEPTH * sold;
        let most = U256::from(reserve + sold);
        let least = U256::from(reserve) * U256::from(reserve) / most;
        Ok(Self {
            pools,
            mix,
            homes,
            hot_threshold: (pools.hot_share * (1u128 << 64) as f64) as u128,
            holding: sold + 1,
            reserve,
            extremes: [most, least],
            members,
            base,
        })
    }

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

/// A load whose transactions have no receiver cannot have a hot one.
fn no_receiver(load: &TransferLoad) -> Result<(), ConfigError> {
    if load.alpha > 0.0 && load.hot != HotSide::Sender {
        Err(ConfigError::NoReceiver { hot: load.hot })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn market(txs: u64) -> Market {
        let load = TransferLoad { accounts: 2, txs, ..Default::default() };
        Market::new(load, Pools::default(), Mix::SWAPS, |_| Popularity::Uniform, &|_| ()).unwrap()
    }

    /// A pool by arithmetic: sells `amount` to it, and insists that what it brings is within the bounds.
    fn sell(market: &Market, reserves: &mut [U256; 2], side: Side, amount: u64) {
        let [into, from] = [side as usize, side.other() as usize];
        let out = PhalanxPool::quote(U256::from(amount), reserves[into], reserves[from]).unwrap();
        let (least, most) = market.proceeds(amount);
        assert!(least <= out && out <= most, "{out} is not within {least}..={most}");
        // One per cent either way, and one unit for rounding.
        assert!(most <= least + least / U256::from(45) + U256::ONE);
        reserves[into] += U256::from(amount);
        reserves[from] -= out;
    }

    #[test]
    fn no_order_of_sales_leaves_the_bounds() {
        let (highest, lowest) = (*step::SALE.end(), *step::SALE.start());
        for txs in [1, 2, 50, 2_000] {
            let market = market(txs);
            let genesis = [U256::from(market.reserve); 2];
            for (pushes, last) in [(Side::Hub, Side::Hub), (Side::Hub, Side::Own), (Side::Own, Side::Hub)] {
                let mut reserves = genesis;
                (1..txs).for_each(|_| sell(&market, &mut reserves, pushes, highest));
                for amount in [lowest, highest] {
                    sell(&market, &mut reserves.clone(), last, amount);
                }
            }
            let (mut rng, mut reserves) = (Rng::new(txs), genesis);
            for _ in 0..txs {
                let side = if rng.below(2) == 0 { Side::Hub } else { Side::Own };
                sell(&market, &mut reserves, side, lowest + rng.below(highest - lowest));
            }
        }
    }

    #[test]
    fn the_largest_load_fits_a_reserve() {
        let sold = u128::from(u32::MAX) * u128::from(*step::SALE.end());
        assert!((DEPTH + 1) * sold < 1 << 112);
    }

    #[test]
    fn steps_dress_and_undress() {
        let load = TransferLoad { accounts: 50, txs: 2_000, ..Default::default() };
        let pools = Pools { count: 5, hot_share: 0.3 };
        let market = Market::new(load, pools, Mix::default(), Popularity::zipf, &|_| ()).unwrap();
        for step in Steps::new(&market) {
            assert_eq!(market.undress(&market.dress(&step)), Some(step));
        }
    }
}
