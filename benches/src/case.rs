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

/// Numbers of worker threads that the benches run on by default.
pub const THREADS: [usize; 2] = [1, 2];

/// Environment variable that names other ones, separated by commas: `1,2,16`.
pub const THREADS_NAME: &str = "PHALANX_BENCH_THREADS";

/// Numbers of worker threads by the value of [`THREADS_NAME`]: [`THREADS`] without one.
///
/// # Errors
/// Names a word that is no number of threads.
pub fn threads(value: Option<&str>) -> Result<Vec<usize>, String> {
    let number = |word: &str| match word.trim().parse() {
        Ok(threads) if threads > 0 => Ok(threads),
        _ => Err(format!("{THREADS_NAME}: {word:?} is no number of threads, as in 1,2,16")),
    };
    value.map_or_else(|| Ok(THREADS.into()), |value| value.split(',').map(number).collect())
}

impl Case {
    /// All cells: every workload on every executor at each number of threads.
    pub fn matrix(threads: &[usize]) -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(move |workload| {
            [Executor::Dag, Executor::BlockStm, Executor::Sequential]
                .into_iter()
                .flat_map(move |executor| threads.iter().map(move |&threads| Self { workload, executor, threads }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_those_that_are_named() {
        assert_eq!(threads(None), Ok(vec![1, 2]));
        assert_eq!(threads(Some("1, 4,16")), Ok(vec![1, 4, 16]));
        for wrong in ["", "0", "1,", "two", "-1"] {
            assert!(threads(Some(wrong)).expect_err(wrong).contains("as in 1,2,16"));
        }
        assert_eq!(Case::matrix(&[1, 2, 16]).count(), Kind::ALL.len() * 3 * 3);
    }
}
