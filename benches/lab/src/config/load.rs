//! The transactions of a measurement.

use super::{
    heading, parse,
    word::{Word, Words, choice, word},
};
use crate::error::Usage;
use clap::Args;
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
    const WORDS: Words<Self> = &[
        (Self::Native, "native", "Transfers of ether between accounts without code"),
        (Self::Erc20, "erc20", "Transfers of one ERC20 token"),
        (Self::Amm, "amm", "Swaps in constant-product pools"),
        (Self::Mixed, "mixed", "Ether, many tokens, swaps, approvals, deployments, and transactions that revert"),
    ];
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
#[derive(Clone, Debug, PartialEq, Args)]
pub struct LoadConfig {
    /// Kind of transactions
    #[arg(long, value_parser = choice::<WorkloadKind>(), default_value = "native", help_heading = heading::LOAD)]
    pub workload: WorkloadKind,
    /// Number of funded accounts
    #[arg(long, default_value_t = 1 << 20, help_heading = heading::LOAD)]
    pub accounts: u64,
    /// Number of transactions
    #[arg(long, default_value_t = 500_000, help_heading = heading::LOAD)]
    pub txs: u64,
    /// Transactions per block
    #[arg(long, default_value_t = 10_000, help_heading = heading::LOAD)]
    pub block_txs: usize,
    /// Probability that the hot side of a transfer is a hot account, 0 to 1
    #[arg(long, default_value_t = 0.0, help_heading = heading::LOAD)]
    pub alpha: f64,
    /// Number of hot accounts
    #[arg(long, default_value_t = 1000, help_heading = heading::LOAD)]
    pub gamma: u64,
    /// Hot side of a transfer: sender, receiver or both; a swap has only a sender
    #[arg(long, default_value_t = HotSide::Sender, help_heading = heading::LOAD)]
    pub hot: HotSide,
    /// Exponent of Zipf's law by which both sides are drawn, above 0 and at most 4, in place of --alpha
    #[arg(long, value_name = "EXPONENT", help_heading = heading::LOAD)]
    pub zipf: Option<f64>,
    /// Number of pools of amm and mixed, each with its own token beside a common one
    #[arg(long, default_value_t = Pools::default().count, help_heading = heading::LOAD)]
    pub pools: u32,
    /// Probability that a swap goes to the hot pool, 0 to 1; otherwise to the trader's home pool
    #[arg(long, default_value_t = Pools::default().hot_share, help_heading = heading::LOAD)]
    pub hot_pool_share: f64,
    /// Shares of mixed, in parts of the sum; a kind that is not named has no share
    #[arg(long, value_name = "KIND=SHARE,..", default_value_t = Mix::default(), help_heading = heading::LOAD)]
    pub mix: Mix,
    /// Seed of the workload
    #[arg(long, default_value_t = 42, help_heading = heading::LOAD)]
    pub seed: u64,
}

impl Default for LoadConfig {
    fn default() -> Self {
        parse([]).expect("every flag has a default")
    }
}

impl LoadConfig {
    /// True if every account is as frequent as any other.
    pub(crate) fn is_uniform(&self) -> bool {
        self.alpha == 0.0 && self.zipf.is_none()
    }

    /// Pools of `amm` and `mixed`.
    const fn pools(&self) -> Pools {
        Pools { count: self.pools, hot_share: self.hot_pool_share }
    }

    /// The load without signatures and without a memory limit.
    pub(crate) fn transfers(&self) -> TransferLoad {
        let Self { accounts, txs, alpha, gamma, hot, zipf, seed, .. } = *self;
        TransferLoad { accounts, txs, alpha, gamma, hot, zipf, seed, ..TransferLoad::default() }
    }

    /// Keys that each account of the load has in the state, accounts and slots together.
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
    /// If the settings describe none.
    pub(crate) fn workload(
        &self,
        load: TransferLoad,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Box<dyn Workload>, ConfigError> {
        Ok(match self.workload {
            WorkloadKind::Native => Box::new(Native::with_progress(load, progress)?),
            WorkloadKind::Erc20 => Box::new(Erc20::with_progress(load, progress)?),
            WorkloadKind::Amm => Box::new(Amm::with_progress(load, self.pools(), progress)?),
            WorkloadKind::Mixed => Box::new(Mixed::with_progress(load, self.pools(), self.mix, progress)?),
        })
    }

    /// Refuses a load without transactions or without room for them, and a contention that is none. Nothing is made for it.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        if self.txs == 0 {
            return Err(Usage("--txs must be at least 1".into()));
        }
        if self.block_txs == 0 {
            return Err(Usage("--block-txs must be at least 1".into()));
        }
        let refused = |error: ConfigError| Usage(error.to_string());
        self.transfers().check_contention().map_err(refused)?;
        if matches!(self.workload, WorkloadKind::Amm | WorkloadKind::Mixed) {
            self.pools().check().map_err(refused)?;
        }
        Ok(())
    }

    /// Sentence on the flags that were changed and have no effect on this workload; `None` if all have one.
    pub fn idle(&self) -> Option<String> {
        sentence(&self.without_effect())
    }

    /// Sentence on the changed flags that have no effect on any of some loads.
    pub(crate) fn idle_in_all<'a>(mut loads: impl Iterator<Item = &'a Self>) -> Option<String> {
        let mut idle = loads.next()?.without_effect();
        loads.for_each(|load| idle.retain(|flag| load.without_effect().contains(flag)));
        sentence(&idle)
    }

    /// Flags that were changed and have no effect on this workload, each with the reason.
    pub(crate) fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        const POOLS: &str = "only amm and mixed have pools";
        let hot = if self.zipf.is_some() { "--zipf draws both sides" } else { "no account is hot at --alpha 0" };
        let (usual, swaps) = (Self::default(), matches!(self.workload, WorkloadKind::Amm | WorkloadKind::Mixed));
        let flags = [
            ("--pools", POOLS, self.pools != usual.pools && !swaps),
            ("--hot-pool-share", POOLS, self.hot_pool_share != usual.hot_pool_share && !swaps),
            ("--mix", "only mixed has a mix", self.mix != usual.mix && self.workload != WorkloadKind::Mixed),
            ("--gamma", hot, self.gamma != usual.gamma && self.alpha == 0.0),
            ("--hot", hot, self.hot != usual.hot && self.alpha == 0.0),
        ];
        flags.into_iter().filter(|(.., idle)| *idle).map(|(flag, reason, _)| (flag, reason)).collect()
    }

    /// Every setting by its name in results.
    pub(crate) fn resolved(&self) -> Map<String, Value> {
        let map = json!({
            "workload": word(self.workload), "accounts": self.accounts, "txs": self.txs, "block_txs": self.block_txs,
            "alpha": self.alpha, "gamma": self.gamma, "hot": self.hot.to_string(), "zipf": self.zipf, "seed": self.seed,
            "pools": self.pools, "hot_pool_share": self.hot_pool_share, "mix": self.mix.to_string(),
        });
        match map {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// Flags without effect and their reasons as a sentence; `None` for none.
fn sentence(idle: &[(&'static str, &'static str)]) -> Option<String> {
    let flags: Vec<&str> = idle.iter().map(|(flag, _)| *flag).collect();
    let mut reasons: Vec<&str> = idle.iter().map(|(_, reason)| *reason).collect();
    reasons.dedup();
    (!idle.is_empty()).then(|| format!("{} without effect: {}", flags.join(", "), reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_another_workload_are_named() {
        let idle = |flags: &str| parse::<LoadConfig>(flags.split_whitespace().map(Into::into)).unwrap().idle();
        let told = |sentence: &str| Some(sentence.to_owned());
        assert_eq!(
            idle("--workload erc20 --pools 5 --mix swap=1"),
            told("--pools, --mix without effect: only amm and mixed have pools; only mixed has a mix")
        );
        assert_eq!(idle("--workload amm --pools 5 --hot-pool-share 0.5"), None);
        assert_eq!(idle("--workload mixed --mix swap=1"), None);
        assert_eq!(idle("--gamma 5 --hot both"), told("--gamma, --hot without effect: no account is hot at --alpha 0"));
        assert_eq!(idle("--alpha 0.5 --gamma 5 --hot both"), None);
        assert_eq!(idle("--zipf 1 --hot both"), told("--hot without effect: --zipf draws both sides"));
        assert_eq!(LoadConfig::default().idle(), None);
        // A sweep over --alpha uses --gamma in some cells, and --pools in none.
        let loads = ["--pools 5 --gamma 5", "--pools 5 --gamma 5 --alpha 0.5"]
            .map(|flags| parse::<LoadConfig>(flags.split_whitespace().map(Into::into)).unwrap());
        assert_eq!(
            LoadConfig::idle_in_all(loads.iter()),
            told("--pools without effect: only amm and mixed have pools")
        );
    }

    #[test]
    fn a_contention_that_is_none_is_refused_before_anything_is_made() {
        for (flags, says) in [
            ("--alpha 2", "alpha must be between 0 and 1"),
            ("--alpha 0.5 --gamma 0", "gamma must be between"),
            ("--zipf 0", "the exponent of zipf"),
            ("--zipf 1 --alpha 0.5", "alpha must be 0 beside it"),
            ("--workload amm --pools 0", "the number of pools"),
            ("--workload mixed --hot-pool-share 2", "the share of the hot pool"),
        ] {
            let load = parse::<LoadConfig>(flags.split_whitespace().map(Into::into)).unwrap();
            assert!(load.check().unwrap_err().0.contains(says), "{flags}");
        }
    }
}
