//! The workload `mixed`: all kinds of transactions in given shares.

use super::MarketLoad;
use crate::{
    config::{ConfigError, TransferLoad},
    market::{MAX_GAS, Market, Mix, Pools, Popularity},
};

/// A mix of all kinds: ether, many tokens of Zipf-distributed popularity, swaps, approvals, deployments, and
/// transactions that are built to revert.
///
/// α, γ and the hot side choose the hot accounts, as senders and as receivers or spenders. [`Pools`] sets the number of
/// tokens and pools, [`Mix`] the share of each kind. The hub is the most popular token; the token of pool `p` is `p +
/// 2` times rarer.
#[derive(Clone, Debug)]
pub struct Mixed {
    market: Market,
}

impl Mixed {
    /// Highest gas limit of its transactions, that of a deployment, which uses about 503,000.
    pub const GAS_LIMIT: u64 = MAX_GAS;

    /// Derives the accounts of a load, in parallel in the current rayon pool.
    ///
    /// # Errors
    /// [`ConfigError`], before any expensive work except for the coinbase.
    pub fn new(load: TransferLoad, pools: Pools, mix: Mix) -> Result<Self, ConfigError> {
        Self::with_progress(load, pools, mix, &|_| ())
    }

    /// Like [`Self::new`]; with signatures on, `progress` receives the number of derived keys from time to time.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_progress(
        load: TransferLoad,
        pools: Pools,
        mix: Mix,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self, ConfigError> {
        Market::new(load, pools, mix, Popularity::zipf, progress).map(|market| Self { market })
    }

    /// Pools of the load.
    pub const fn pools(&self) -> Pools {
        self.market.pools
    }

    /// Shares of the load.
    pub const fn mix(&self) -> Mix {
        self.market.mix
    }
}

impl MarketLoad for Mixed {
    const NAME: &'static str = "mixed";

    fn market(&self) -> &Market {
        &self.market
    }
}
