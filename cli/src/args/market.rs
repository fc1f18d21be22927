//! Flags of the loads with tokens and pools, and the workload that all flags of a load describe.

use super::{LoadArgs, WorkloadKind};
use clap::Args;
use phalanx_workloads::{Amm, ConfigError, Erc20, Mix, Mixed, Native, Pools, TransferLoad, Workload};

#[derive(Clone, Debug, Args)]
pub(crate) struct MarketArgs {
    /// Pools of amm and mixed, each with a token of its own beside the one that all share
    #[arg(long, default_value_t = Pools::default().count)]
    pub(crate) pools: u32,
    /// Probability that a swap goes to the one hot pool, 0 to 1; otherwise it goes to the trader's home pool
    #[arg(long, default_value_t = Pools::default().hot_share)]
    pub(crate) hot_pool_share: f64,
    /// What mixed is made of, in parts of the sum; a kind that is not named has no share
    #[arg(long, value_name = "KIND=SHARE,..", default_value_t = Mix::default())]
    pub(crate) mix: Mix,
}

impl WorkloadKind {
    /// The highest gas limit of its transactions.
    pub(crate) const fn gas_limit(self) -> u64 {
        match self {
            Self::Native => Native::GAS,
            Self::Erc20 => Erc20::GAS_LIMIT,
            Self::Amm => Amm::GAS_LIMIT,
            Self::Mixed => Mixed::GAS_LIMIT,
        }
    }
}

impl LoadArgs {
    const fn pools(&self) -> Pools {
        Pools { count: self.market.pools, hot_share: self.market.hot_pool_share }
    }

    /// Accounts and slots that each of the load's accounts has in the state.
    pub(crate) const fn keys_per_account(&self) -> u64 {
        match self.workload {
            WorkloadKind::Native => 1,
            WorkloadKind::Erc20 => 2,
            WorkloadKind::Amm | WorkloadKind::Mixed => 1 + self.pools().slots_per_account() as u64,
        }
    }

    /// Makes the workload of `load`, which [`Self::transfers`] has begun.
    ///
    /// # Errors
    /// If the flags describe none.
    pub(crate) fn workload(
        &self,
        load: TransferLoad,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Box<dyn Workload>, ConfigError> {
        Ok(match self.workload {
            WorkloadKind::Native => Box::new(Native::with_progress(load, progress)?),
            WorkloadKind::Erc20 => Box::new(Erc20::with_progress(load, progress)?),
            WorkloadKind::Amm => Box::new(Amm::with_progress(load, self.pools(), progress)?),
            WorkloadKind::Mixed => Box::new(Mixed::with_progress(load, self.pools(), self.market.mix, progress)?),
        })
    }
}
