//! Flags of a generated load.

use clap::{Args, ValueEnum};
use phalanx_lab::config::{LoadConfig, WorkloadKind};
use phalanx_workloads::{HotSide, Mix, Pools};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Transfers of ether between accounts without code
    Native,
    /// Transfers of one ERC20 token
    Erc20,
    /// Swaps in constant-product pools
    Amm,
    /// Ether, many tokens, swaps, approvals, deployments, and transactions that revert
    Mixed,
}

impl From<Workload> for WorkloadKind {
    fn from(workload: Workload) -> Self {
        match workload {
            Workload::Native => Self::Native,
            Workload::Erc20 => Self::Erc20,
            Workload::Amm => Self::Amm,
            Workload::Mixed => Self::Mixed,
        }
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// Kind of transactions
    #[arg(long, value_enum, default_value_t = Workload::Native)]
    workload: Workload,
    /// Number of funded accounts
    #[arg(long, default_value_t = 1 << 20)]
    accounts: u64,
    /// Number of transactions
    #[arg(long, default_value_t = 500_000)]
    txs: u64,
    /// Transactions per block
    #[arg(long, default_value_t = 10_000)]
    block_txs: usize,
    /// Probability that the hot side of a transfer is a hot account, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    alpha: f64,
    /// Number of hot accounts
    #[arg(long, default_value_t = 1000)]
    gamma: u64,
    /// Hot side of a transfer: sender, receiver or both; a swap has only a sender
    #[arg(long, default_value_t = HotSide::Sender)]
    hot: HotSide,
    /// Number of pools of amm and mixed, each with its own token beside a common one
    #[arg(long, default_value_t = Pools::default().count)]
    pools: u32,
    /// Probability that a swap goes to the hot pool, 0 to 1; otherwise to the trader's home pool
    #[arg(long, default_value_t = Pools::default().hot_share)]
    hot_pool_share: f64,
    /// Shares of mixed, in parts of the sum; a kind that is not named has no share
    #[arg(long, value_name = "KIND=SHARE,..", default_value_t = Mix::default())]
    mix: Mix,
    /// Seed of the workload
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

impl LoadArgs {
    /// The load that these flags describe.
    pub(crate) fn config(&self) -> LoadConfig {
        LoadConfig {
            workload: self.workload.into(),
            accounts: self.accounts,
            txs: self.txs,
            block_txs: self.block_txs,
            alpha: self.alpha,
            gamma: self.gamma,
            hot: self.hot,
            pools: Pools { count: self.pools, hot_share: self.hot_pool_share },
            mix: self.mix,
            seed: self.seed,
        }
    }
}
