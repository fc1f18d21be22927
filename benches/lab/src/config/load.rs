//! The transactions of a measurement.

use super::word::{Word, word};
use crate::error::Usage;
use phalanx_workloads::{Amm, ConfigError, Erc20, HotSide, Mix, Mixed, Native, Pools, TransferLoad, Workload};
use serde_json::{Map, Value, json};

/// Kind of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Transfers of ether between accounts without code.
    Native,
    /// Transfers of one ERC20 token.
    Erc20,
    /// Swaps in constant-product pools.
    Amm,
    /// Ether, many tokens, swaps, approvals, deployments, and transactions that revert.
    Mixed,
}

impl Word for WorkloadKind {
    fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Erc20 => "erc20",
            Self::Amm => "amm",
            Self::Mixed => "mixed",
        }
    }
}

impl WorkloadKind {
    /// Highest gas limit of a transaction of this kind.
    pub(crate) const fn gas_limit(self) -> u64 {
        match self {
            Self::Native => Native::GAS,
            Self::Erc20 => Erc20::GAS_LIMIT,
            Self::Amm => Amm::GAS_LIMIT,
            Self::Mixed => Mixed::GAS_LIMIT,
        }
    }
}

/// A generated load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadConfig {
    /// Kind of transactions.
    pub workload: WorkloadKind,
    /// Number of funded accounts.
    pub accounts: u64,
    /// Number of transactions.
    pub txs: u64,
    /// Transactions per block.
    pub block_txs: usize,
    /// Probability that the hot side of a transfer is a hot account, 0 to 1.
    pub alpha: f64,
    /// Number of hot accounts.
    pub gamma: u64,
    /// Side of a transfer that is hot.
    pub hot: HotSide,
    /// Pools of `amm` and `mixed`.
    pub pools: Pools,
    /// Shares of `mixed`.
    pub mix: Mix,
    /// Seed of the generator.
    pub seed: u64,
}

impl Default for LoadConfig {
    fn default() -> Self {
        Self {
            workload: WorkloadKind::Native,
            accounts: 1 << 20,
            txs: 500_000,
            block_txs: 10_000,
            alpha: 0.0,
            gamma: 1000,
            hot: HotSide::Sender,
            pools: Pools::default(),
            mix: Mix::default(),
            seed: 42,
        }
    }
}

impl LoadConfig {
    /// The load without signatures and without a memory limit.
    pub(crate) fn transfers(&self) -> TransferLoad {
        let Self { accounts, txs, alpha, gamma, hot, seed, .. } = *self;
        TransferLoad { accounts, txs, alpha, gamma, hot, seed, ..TransferLoad::default() }
    }

    /// Keys that each account of the load has in the state, accounts and slots together.
    pub(crate) const fn keys_per_account(&self) -> u64 {
        match self.workload {
            WorkloadKind::Native => 1,
            WorkloadKind::Erc20 => 2,
            WorkloadKind::Amm | WorkloadKind::Mixed => 1 + self.pools.slots_per_account() as u64,
        }
    }

    /// Makes the workload of `load`, which [`Self::transfers`] has begun.
    ///
    /// # Errors
    /// If the settings describe none.
    pub(crate) fn workload(
        &self,
        load: TransferLoad,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Box<dyn Workload>, ConfigError> {
        Ok(match self.workload {
            WorkloadKind::Native => Box::new(Native::with_progress(load, progress)?),
            WorkloadKind::Erc20 => Box::new(Erc20::with_progress(load, progress)?),
            WorkloadKind::Amm => Box::new(Amm::with_progress(load, self.pools, progress)?),
            WorkloadKind::Mixed => Box::new(Mixed::with_progress(load, self.pools, self.mix, progress)?),
        })
    }

    /// Refuses a load without transactions or without room for them.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        if self.txs == 0 {
            return Err(Usage("--txs must be at least 1".into()));
        }
        if self.block_txs == 0 {
            return Err(Usage("--block-txs must be at least 1".into()));
        }
        Ok(())
    }

    /// Every setting by its name in results.
    pub(crate) fn resolved(&self) -> Map<String, Value> {
        let map = json!({
            "workload": word(self.workload), "accounts": self.accounts, "txs": self.txs, "block_txs": self.block_txs,
            "alpha": self.alpha, "gamma": self.gamma, "hot": self.hot.to_string(), "seed": self.seed,
            "pools": self.pools.count, "hot_pool_share": self.pools.hot_share, "mix": self.mix.to_string(),
        });
        match map {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}
