//! Settings of a run of the whole engine.

use super::{
    load::LoadConfig,
    store::Store,
    word::{Word, word},
};
use crate::{
    error::Usage,
    machine::{host, memory, pin},
};
use phalanx::{
    BlockLimits, Executor, Order, Traces,
    merkle::{Durability, HashFn, Params, StoreConfig},
    paralyze::Layers,
    revm::primitives::hardfork::SpecId,
};
use phalanx_workloads::TransferLoad;
use serde_json::{Map, Value, json};

/// Name of FAFO's profile.
pub const FAFO_PAPER: &str = "fafo-paper";

/// Rules that FAFO's code lacks and that this engine cannot switch off: they apply under every profile.
pub const KEPT_RULES: [&str; 5] = ["nonces", "fees", "gas-limit", "receipts", "access-sets-found-here"];

/// Maximum number of threads; more is a typing error.
const MAX_THREADS: usize = 1024;

/// Number of threads to use: `asked`, or one per core.
///
/// # Errors
/// If `asked` is out of range.
pub fn threads(asked: Option<usize>) -> Result<usize, Usage> {
    match asked {
        None => Ok(host::cores()),
        Some(n @ 1..=MAX_THREADS) => Ok(n),
        Some(n) => Err(Usage(format!("--threads must be between 1 and {MAX_THREADS}, not {n}"))),
    }
}

/// Share of the blocks that sequential revm executes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OracleKind {
    /// Every block.
    Full,
    /// The first eighth of the blocks, at least one.
    Sampled,
    /// No block; the final balances are checked by arithmetic.
    Off,
}

impl Word for OracleKind {
    fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Sampled => "sampled",
            Self::Off => "off",
        }
    }
}

/// Settings of a run of the whole engine.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConfig {
    /// The transactions.
    pub load: LoadConfig,
    /// Order of the transactions: the engine's, or the generator's.
    pub order: Order,
    /// Executors, which run the same blocks in turns.
    pub executors: Vec<Executor>,
    /// Sources of access sets.
    pub access: Layers,
    /// Worker threads; one per core if `None`.
    pub threads: Option<usize>,
    /// Confine each run to as many cores as it has threads (Linux).
    pub pin: bool,
    /// Memory, in GiB, that is written to before the timer starts.
    pub touch: u64,
    /// Sign the transactions and recover their senders inside the timer.
    pub signatures: bool,
    /// Plan the next block while one is executed.
    pub overlap: bool,
    /// Execute plain transfers of the DAG without the EVM.
    pub fast_path: bool,
    /// Replay of recorded calls.
    pub traces: Traces,
    /// Place of the state.
    pub store: Store,
    /// Failures that a committed block survives.
    pub durability: Durability,
    /// Hash of the state commitment.
    pub hasher: HashFn,
    /// Rules of the EVM.
    pub evm_spec: SpecId,
    /// Gas limit of a block, by the sum of its transactions' limits.
    pub block_gas: u64,
    /// Repetitions of each executor.
    pub runs: usize,
    /// Name of the profile that set some of these.
    pub profile: Option<String>,
    /// Share of the blocks that sequential revm executes again.
    pub oracle: OracleKind,
    /// Command that the result carries.
    pub command: String,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            load: LoadConfig::default(),
            order: Order::Free,
            executors: vec![Executor::Dag],
            access: Layers::All,
            threads: None,
            pin: false,
            touch: 0,
            signatures: false,
            overlap: true,
            fast_path: true,
            traces: Traces::On,
            store: Store::Mem,
            durability: Durability::Async,
            hasher: HashFn::Sha256,
            evm_spec: SpecId::OSAKA,
            block_gas: 30_000_000_000,
            runs: 1,
            profile: None,
            oracle: OracleKind::Full,
            command: String::new(),
        }
    }
}

impl RunConfig {
    /// Limits of a block.
    pub const fn limits(&self) -> BlockLimits {
        BlockLimits { max_txs: self.load.block_txs, max_gas: self.block_gas }
    }

    /// The load that these settings describe, which may take `memory` bytes.
    pub(crate) fn transfers(&self, memory: u64) -> TransferLoad {
        TransferLoad { signatures: self.signatures, memory_limit: Some(memory), ..self.load.transfers() }
    }

    /// Settings of the state store at `store`.
    ///
    /// # Errors
    /// If this build lacks the backend.
    pub fn store_config(&self, store: &Store) -> Result<StoreConfig, Usage> {
        let params = Params::with_hash(self.hasher);
        Ok(StoreConfig::new(store.backend()?).with_durability(self.durability).with_params(params))
    }

    /// Refuses settings that no run could carry out.
    ///
    /// # Errors
    /// With the first such setting.
    pub fn check(&self) -> Result<(), Usage> {
        pin::check(self.pin, threads(self.threads)?)?;
        self.store.backend()?;
        self.load.check()?;
        memory::check(self.touch)?;
        if self.runs == 0 || self.runs > 1000 {
            return Err(Usage(format!("--runs must be between 1 and 1000, not {}", self.runs)));
        }
        let gas = self.load.workload.gas_limit();
        if self.block_gas < gas {
            return Err(Usage(format!("--block-gas must hold one transaction of {gas} gas, not {}", self.block_gas)));
        }
        Ok(())
    }

    /// Every setting by its name in results.
    pub(crate) fn resolved(&self, threads: usize) -> Map<String, Value> {
        let executors: Vec<_> = self.executors.iter().map(|executor| word(*executor)).collect();
        let mut map = self.load.resolved();
        let rest = json!({
            "order": word(self.order), "executor": executors, "access": word(self.access), "threads": threads,
            "pin": word(self.pin), "touch": self.touch, "signatures": word(self.signatures),
            "overlap": word(self.overlap), "fast_path": word(self.fast_path), "traces": word(self.traces),
            "store": self.store.to_string(), "durability": word(self.durability), "hasher": word(self.hasher),
            "evm_spec": word(self.evm_spec), "block_gas": self.block_gas, "runs": self.runs, "profile": self.profile,
            "oracle": word(self.oracle),
        });
        if let Value::Object(rest) = rest {
            map.extend(rest);
        }
        map
    }
}
