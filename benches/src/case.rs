//! Workloads, executors and thread counts of the benches.

use core::fmt;
use phalanx::Executor;
use phalanx_workloads::{Amm, ConfigError, Erc20, HotSide, Mix, Mixed, Native, Pools, TransferLoad, Workload};

/// Kind of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Transfers of ether between accounts without code.
    Native,
    /// Transfers of one ERC20 token.
    Erc20,
    /// Swaps in a hundred pools.
    Amm,
    /// Ether, a hundred tokens and pools, approvals, and transactions that are built to revert; no deployments.
    ///
    /// The address of a deployment depends on its sender's nonce. A deployment behind another transaction of its sender
    /// escapes a prediction made before both, and leaves the block that a bench runs over and over.
    Mixed,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Native, Self::Erc20, Self::Amm, Self::Mixed];

    /// Name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Erc20 => "erc20",
            Self::Amm => "amm",
            Self::Mixed => "mixed",
        }
    }

    /// A load without contention: `txs` transactions of any of `accounts`.
    pub fn load(self, accounts: u64, txs: u64) -> TransferLoad {
        TransferLoad { accounts, txs, ..TransferLoad::default() }
    }

    /// Creates the workload of a load.
    ///
    /// # Errors
    /// The load describes no workload.
    pub fn workload(self, load: TransferLoad) -> Result<Box<dyn Workload>, ConfigError> {
        Ok(match self {
            Self::Native => Box::new(Native::new(load)?),
            Self::Erc20 => Box::new(Erc20::new(load)?),
            Self::Amm => Box::new(Amm::new(load, Pools::default())?),
            Self::Mixed => Box::new(Mixed::new(load, Pools::default(), Mix { create: 0, ..Mix::default() })?),
        })
    }
}

/// A cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Workload.
    pub workload: Kind,
    /// Executor.
    pub executor: Executor,
    /// Number of worker threads. The sequential executor runs transactions on one of them; receipts and hashing use
    /// all.
    pub threads: usize,
}

impl Case {
    /// All cells: every workload on every executor at one and two threads.
    pub fn matrix() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(|workload| {
            [Executor::Dag, Executor::BlockStm, Executor::Sequential]
                .into_iter()
                .flat_map(move |executor| [1, 2].map(|threads| Self { workload, executor, threads }))
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let executor = match self.executor {
            Executor::Dag => "dag",
            Executor::BlockStm => "block-stm",
            Executor::Sequential => "sequential",
        };
        write!(f, "{executor} threads={}", self.threads)
    }
}

/// Loads for framing and ordering, by name: none, some and most of the senders or receivers hot.
pub(crate) const CONTENTION: [(&str, f64, u64, HotSide); 4] = [
    ("uniform", 0.0, 1, HotSide::Sender),
    ("hot=sender alpha=0.5 gamma=100", 0.5, 100, HotSide::Sender),
    ("hot=receiver alpha=0.5 gamma=100", 0.5, 100, HotSide::Receiver),
    ("hot=both alpha=0.99 gamma=100", 0.99, 100, HotSide::Both),
];
