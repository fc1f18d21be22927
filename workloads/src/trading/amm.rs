//! The workload `amm`: swaps alone.

use super::MarketLoad;
use crate::{
    config::{ConfigError, HotSide, TransferLoad},
    market::{Market, Mix, Pools, Popularity, SELL_GAS},
};

/// Swaps in constant-product pools ([`PhalanxPool`](crate::PhalanxPool)): exact amounts in, pulled by allowance, with a
/// minimum output and a deadline.
///
/// α and γ choose the hot traders, [`Pools`] the hot pool. All pools have equally many accounts at home.
#[derive(Clone, Debug)]
pub struct Amm {
    market: Market,
}

impl Amm {
    /// Gas limit of a swap, which uses about 77,000.
    pub const GAS_LIMIT: u64 = SELL_GAS;

    /// Derives the accounts of a load, in parallel in the current rayon pool.
    ///
    /// # Errors
    /// [`ConfigError`], before any expensive work except for the coinbase.
    pub fn new(load: TransferLoad, pools: Pools) -> Result<Self, ConfigError> {
        Self::with_progress(load, pools, &|_| ())
    }

    /// Like [`Self::new`]; with signatures on, `progress` receives the number of derived keys from time to time.
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

    /// Pools of the load.
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

/// Refuses hot receivers, since these transactions have no receiver.
fn no_receiver(load: &TransferLoad) -> Result<(), ConfigError> {
    if load.alpha > 0.0 && load.hot != HotSide::Sender {
        Err(ConfigError::NoReceiver { hot: load.hot })
    } else {
        Ok(())
    }
}
