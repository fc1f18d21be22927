//! Workloads on a market: swaps alone ([`Amm`]) and a mix of all kinds ([`Mixed`]).

use core::fmt::Debug;

use crate::{
    accounts::Accounts,
    check::{CheckError, StateReader},
    config::TransferLoad,
    genesis::{Genesis, Wanted},
    ledger::Ledger,
    market::{Book, Market, Steps},
    transactions::Transactions,
    workload::Workload,
};

mod amm;
mod mixed;

pub use amm::Amm;
pub use mixed::Mixed;

/// A load that consists of a market and a name.
pub(crate) trait MarketLoad: Debug + Send + Sync {
    /// The name on the command line and in results.
    const NAME: &'static str;

    /// Market of the load.
    fn market(&self) -> &Market;
}

impl<T: MarketLoad> Workload for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn load(&self) -> &TransferLoad {
        &self.market().base.load
    }

    fn accounts(&self) -> &Accounts {
        &self.market().base.accounts
    }

    fn genesis_part(&self, wanted: &Wanted<'_>) -> Genesis {
        self.market().genesis_part(wanted)
    }

    fn transactions(&self) -> Transactions<'_> {
        Transactions::of_market(Steps::new(self.market()))
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger::of_market(Book::new(self.market()))
    }

    fn full_ledger(&self) -> Ledger<'_> {
        Ledger::full_of_market(Book::new(self.market()), Steps::new(self.market()))
    }

    /// Checks the invariants of every order: conservation of every token, reserves equal to the pools' balances,
    /// products that have not fallen, swaps per pool, nonces, fees, allowances, deployments. Proceeds of swaps are
    /// checked by bounds.
    fn check(&self, ledger: &Ledger<'_>, gas_used: u64, state: &dyn StateReader) -> Result<(), CheckError> {
        ledger.check_market(self.market(), gas_used, state)
    }
}
