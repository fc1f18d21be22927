use super::MarketLoad;
use crate::{
    config::{ConfigError, TransferLoad},
    market::{MAX_GAS, Market, Mix, Pools, Popularity},
};

/// A bit of everything: ether, many tokens of Zipf-distributed popularity, swaps, approvals, deployments, and
/// transactions that are made to revert.
///
/// α, γ and the hot side say which accounts are hot, as senders and as receivers or spenders; [`Pools`] says how many
/// tokens and pools there are, and [`Mix`] how often each kind occurs. The hub is the most popular token; the token of
/// pool `p` is `p + 2` times rarer.
#[derive(Clone, Debug)]
pub struct Mixed {
    market: Market,
}

impl Mixed {
    /// The highest gas limit of its transactions, that of a deployment, which really uses about 503,000.
    pub const GAS_LIMIT: u64 = MAX_GAS;

    /// Derives the accounts of a load, in parallel in the current rayon pool.
    ///
    /// # Errors
    /// [`ConfigError`], before any expensive work except for the coinbase.
    pub fn new(load: TransferLoad, pools: Pools, mix: Mix) -> Result<Self, ConfigError> {
        Self::with_progress(load, pools, mix, &|_| ())
    }

    /// Like [`Self::new`]; with signatures on, `progress` hears now and then how many of the keys are derived.
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

    /// The pools it was made with.
    pub const fn pools(&self) -> Pools {
        self.market.pools
    }

    /// The shares it was made with.
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
