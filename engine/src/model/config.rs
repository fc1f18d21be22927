//! Choices of how an engine runs blocks.

use revm::{context::CfgEnv, primitives::hardfork::SpecId};

/// Freedom of the engine in the order of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order of a builder: transactions are framed for parallelism before blocks are assembled, and an escaped
    /// transaction moves to the next block. Each sender's nonce order is kept.
    Free,
    /// The order of a validator: exactly that of the input.
    Given,
}

/// Root that the blocks of a chain report, chosen with its genesis. Values, receipts and gas do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RootKind {
    /// Root of the store's twigs: the cheaper one. Snapshots and proofs of the store are checked under it.
    #[default]
    Twigs,
    /// Ethereum's state root, of a trie in memory beside the store: some 160 bytes per account and slot, made anew when the store is
    /// opened. Clients verify `eth_getProof` under it.
    Ethereum,
}

impl RootKind {
    /// Field of a genesis file's `config` with the name of the kind.
    pub const FIELD: &str = "phalanxRoot";

    /// All kinds with their names in a genesis file.
    const NAMES: [(Self, &str); 2] = [(Self::Twigs, "twigs"), (Self::Ethereum, "ethereum")];

    /// Name in a genesis file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// Kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

impl core::fmt::Display for RootKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Twigs => "the root of its twigs",
            Self::Ethereum => "Ethereum's root",
        })
    }
}

/// Executor of blocks. The outcome of a block in a given order does not depend on it.
///
/// Where the engine chooses the order, by [`Order::Free`] or a [`Builder`](crate::Builder), it does: the sequential executor frames
/// nothing and lets nothing escape, so it puts other transactions into a block, or in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Executor {
    /// Workers on the exact per-slot DAG of the predicted access sets.
    #[default]
    Dag,
    /// Block-STM: optimistic, without predictions. A block in which nothing can run ahead, of one transaction or of little gas,
    /// runs on the caller.
    BlockStm,
    /// Stock revm, one transaction after the other: the oracle that every other executor is compared with.
    Sequential,
}

/// Returns true if the executors implement the rules of the configuration: those of Amsterdam come together.
pub(crate) fn is_supported(cfg: &CfgEnv) -> bool {
    let is_amsterdam = cfg.spec.is_enabled_in(SpecId::AMSTERDAM);
    [cfg.enable_amsterdam_eip8037, cfg.enable_amsterdam_eip2780] == [is_amsterdam; 2]
        && !cfg.amsterdam_eip7708_disabled
        && !cfg.amsterdam_eip8246_delayed_clear_disabled
}

/// Effect of an invalid transaction on a block in given order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The block becomes invalid.
    Refuse,
    /// The transaction is left out: [`Outcome::Skipped`](crate::Outcome::Skipped). Gas beyond the block's limit is not checked.
    Skip,
}

/// Replay of contract calls. No result depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Traces {
    /// revm runs all calls.
    Off,
    /// Recorded traces that have passed their probation are replayed.
    #[default]
    On,
    /// Every call is recorded and replayed, revm runs it as well, and a difference is an error: for tests.
    Checked,
}

/// Analysed code that stays in memory, in bytes.
pub(crate) const DEFAULT_CODE_CACHE: usize = 256 << 20;

/// Values that are read ahead of a block, in bytes: those of a block of half a million transfers.
const DEFAULT_READ_AHEAD: usize = 256 << 20;

/// Settings that change the speed and no result. Threads and executor are set beside them, by
/// [`EngineBuilder::with_threads`](crate::EngineBuilder::with_threads) and [`with_executor`](crate::EngineBuilder::with_executor).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// Plain value transfers run without the EVM on the DAG. Default: yes.
    pub fast_path: bool,
    /// Replay of contract calls along recorded trace paths on the DAG, instead of interpreting them. Default: on.
    pub traces: Traces,
    /// The engine learns from blocks in a given order that it predicted badly, right after their execution. It takes at most a
    /// twentieth of the time that such blocks take sequentially, and none for the shortest, which need no predictions.
    /// Default: yes.
    pub learning: bool,
    /// Bytes of analysed code that stay in memory from block to block; other code is read from the store when an account
    /// with it is loaded. A block has all the code that it uses in memory while it runs, and each thread copies of what it
    /// runs often, at most 2 MiB for each executor. Default: 256 MiB.
    pub code_cache: usize,
    /// Bytes of values that are read from disk ahead of the block that needs them, at most half of the store's cache; zero for
    /// none. Counts only where [`StoreConfig::memory`](phalanx_merkle::StoreConfig::memory) keeps values on disk. Default:
    /// 256 MiB.
    pub read_ahead: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            fast_path: true,
            traces: Traces::On,
            learning: true,
            code_cache: DEFAULT_CODE_CACHE,
            read_ahead: DEFAULT_READ_AHEAD,
        }
    }
}

impl Tuning {
    /// Creates the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`Self::fast_path`].
    #[must_use]
    pub const fn with_fast_path(mut self, fast_path: bool) -> Self {
        self.fast_path = fast_path;
        self
    }

    /// Sets [`Self::traces`].
    #[must_use]
    pub const fn with_traces(mut self, traces: Traces) -> Self {
        self.traces = traces;
        self
    }

    /// Sets [`Self::learning`].
    #[must_use]
    pub const fn with_learning(mut self, learning: bool) -> Self {
        self.learning = learning;
        self
    }

    /// Sets [`Self::code_cache`].
    #[must_use]
    pub const fn with_code_cache(mut self, bytes: usize) -> Self {
        self.code_cache = bytes;
        self
    }

    /// Sets [`Self::read_ahead`].
    #[must_use]
    pub const fn with_read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = bytes;
        self
    }
}
