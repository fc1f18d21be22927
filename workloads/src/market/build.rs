//! Validates a load and derives its market.

use alloy_primitives::U256;

use super::{
    book::Book,
    homes::{Homes, Popularity},
    mix::Mix,
    names::is_contract,
    pools::Pools,
    step::{SALE, max_gas},
    steps::Steps,
    world::Market,
};
use crate::{
    accounts::Accounts,
    base::Base,
    config::{ConfigError, TransferLoad},
    genesis::GenesisAccount,
};

/// Ratio of each reserve to everything that the load could sell. Then no order of the swaps moves a price by more than
/// one per cent: (1 + 1/200)^2 = 1.01.
const DEPTH: u128 = 200;

impl Market {
    /// Bytes per account of the load, its genesis, one stream and one ledger together.
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
        pools.check()?;
        if is_contract(&load.coinbase) {
            return Err(ConfigError::CoinbaseTakesPart { coinbase: load.coinbase });
        }
        let per_account = Self::bytes_per_account(&pools);
        load.validate(per_account as u64)?;
        // Neither factor exceeds 2^32, so the products fit.
        let needed = (load.accounts * per_account as u64).saturating_add(load.txs * Book::BYTES_PER_TX as u64);
        if let Some(limit) = load.memory_limit.filter(|limit| needed > *limit) {
            return Err(ConfigError::Memory { needed, limit });
        }

        let most = max_gas(&load);
        let base = Base::new(load, per_account, most, None, progress)?;
        let homes = Homes::new(base.load.seed, pools.count, popularity(pools.count));
        let mut members = vec![0; pools.count as usize];
        for position in 0..base.accounts.len() as u32 {
            members[homes.of(position) as usize] += 1;
        }
        if pools.hot_share > 0.0 {
            members[0] = base.accounts.len() as u32;
        }
        // Fewer than 2^32 transactions of at most 2^30 units: 2^62, and 2^70 in a reserve.
        let sold = u128::from(base.load.txs.max(1)) * u128::from(*SALE.end());
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
}

#[cfg(test)]
mod tests {
    use super::{
        super::{homes::Popularity, step::Side},
        *,
    };
    use crate::{pool::PhalanxPool, rng::Rng};

    fn market(txs: u64) -> Market {
        let load = TransferLoad { accounts: 2, txs, ..Default::default() };
        Market::new(load, Pools::default(), Mix::SWAPS, |_| Popularity::Uniform, &|_| ()).unwrap()
    }

    /// Sells `amount` to a pool by arithmetic, and asserts that the proceeds are within the bounds.
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
        let (highest, lowest) = (*SALE.end(), *SALE.start());
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
        let sold = u128::from(u32::MAX) * u128::from(*SALE.end());
        assert!((DEPTH + 1) * sold < 1 << 112);
    }

    #[test]
    fn steps_encode_and_decode() {
        let load = TransferLoad { accounts: 50, txs: 2_000, ..Default::default() };
        let pools = Pools { count: 5, hot_share: 0.3 };
        let market = Market::new(load, pools, Mix::default(), Popularity::zipf, &|_| ()).unwrap();
        for step in Steps::new(&market) {
            assert_eq!(market.decode(&market.encode(&step)), Some(step));
        }
    }
}
