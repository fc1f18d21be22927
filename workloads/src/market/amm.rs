use super::{Book, Market, Mix, Pools, Popularity, Steps, no_receiver, step};
use crate::{Accounts, CheckError, ConfigError, Genesis, Ledger, StateReader, Transactions, TransferLoad, Workload};

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
    pub const GAS_LIMIT: u64 = step::SELL_GAS;

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

impl Workload for Amm {
    fn name(&self) -> &'static str {
        "amm"
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
