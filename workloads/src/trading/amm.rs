use super::MarketLoad;
use crate::{
    config::{ConfigError, HotSide, TransferLoad},
    market::{Market, Mix, Pools, Popularity, SELL_GAS},
};

/// Swaps in constant-product pools ([`PhalanxPool`](crate::PhalanxPool)): exact amounts in, pulled by allowance, with a
/// least amount out and a deadline.
///
/// α and γ say which traders are hot, [`Pools`] which pools are. Accounts are at home in equally many pools.
#[derive(Clone, Debug)]
pub struct Amm {
    market: Market,
}

impl Amm {
    /// Gas limit of a swap, which really uses about 77,000.
    pub const GAS_LIMIT: u64 = SELL_GAS;

    /// Derives the accounts of a load, in parallel in the current rayon pool.
    ///
    /// # Errors
    /// [`ConfigError`], before any expensive work except for the coinbase.
    pub fn new(load: TransferLoad, pools: Pools) -> Result<Self, ConfigError> {
        Self::with_progress(load, pools, &|_| ())
    }

    /// Like [`Self::new`]; with signatures on, `progress` hears now and then how many of the keys are derived.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_progress(
        load: TransferLoad,
        pools: Pools,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self, ConfigError> {
        no_receiver(&load)?;
        Market::new(load, pools, Mix::SWAPS, |_| Popularity::Uniform, progress).map(|market| Self { market })
    }

    /// The pools it was made with.
    pub const fn pools(&self) -> Pools {
        self.market.pools
    }
}

impl MarketLoad for Amm {
    const NAME: &'static str = "amm";

    fn market(&self) -> &Market {
        &self.market
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
