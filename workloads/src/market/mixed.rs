use super::{Book, Market, Mix, Pools, Popularity, Steps, step};
use crate::{Accounts, CheckError, ConfigError, Genesis, Ledger, StateReader, Transactions, TransferLoad, Workload};

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
    pub const GAS_LIMIT: u64 = step::MAX_GAS;

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

impl Workload for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn load(&self) -> &TransferLoad {
        &self.market.base.load
    }

    fn accounts(&self) -> &Accounts {
        &self.market.base.accounts
    }

    fn genesis(&self) -> Genesis {
        self.market.genesis()
    }

    fn transactions(&self) -> Transactions<'_> {
        Transactions::of_market(Steps::new(&self.market))
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger::of_market(Book::new(&self.market))
    }

    fn full_ledger(&self) -> Ledger<'_> {
        Ledger::full_of_market(Book::new(&self.market), Steps::new(&self.market))
    }

    /// What holds in every order: conservation of every token, reserves that equal what pools hold and whose product has
    /// not fallen, swaps per pool, nonces, fees, allowances, deployments; and bounds on what swaps brought.
    fn check(&self, ledger: &Ledger<'_>, gas_used: u64, state: &dyn StateReader) -> Result<(), CheckError> {
        ledger.check_market(&self.market, gas_used, state)
    }
}
