//! Sets up an engine.

use super::rules::Rules;
use super::{Engine, forks::Forks};
use crate::{
    chain::ChainSpec,
    exec::{context::ExecOptions, dispatch::Executors},
    model::{
        Error, Executor, Observer, RootKind, StoreStage, ThreadRole, ThreadStart, Tuning, Unobserved, is_supported,
    },
    state::{CodeRule, Persister, Remote, RemoteState, State, contents},
};
use alloy_primitives::B256;
use phalanx_access::{Interner, Salt};
use phalanx_merkle::{Store, StoreConfig};
use phalanx_paralyze::{ChainRules, ParaLyze, Precompile, VmConfig};
use phalanx_parascheduler::Workers;
use revm::context::CfgEnv;
use std::sync::Arc;

/// Sets up an [`Engine`].
#[derive(Clone)]
pub struct EngineBuilder {
    store: StoreConfig,
    /// Precompiles of the chain.
    vm: VmConfig,
    /// Rules of the chain's own.
    rules: ChainRules,
    cfg: Option<CfgEnv>,
    threads: usize,
    salt: u64,
    executor: Executor,
    chain: Option<ChainSpec>,
    genesis: Option<B256>,
    root: Option<RootKind>,
    /// State that the chain goes on from.
    remote: Option<Arc<dyn RemoteState>>,
    access_lists: bool,
    /// Commits between two prunings; zero for none.
    pruning: u64,
    tuning: Tuning,
    force_parallel: bool,
    schedule_seed: Option<u64>,
    observer: Arc<dyn Observer>,
    thread_start: Option<ThreadStart>,
}

impl core::fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("store", &self.store)
            .field("threads", &self.threads)
            .field("executor", &self.executor)
            .finish_non_exhaustive()
    }
}

impl EngineBuilder {
    /// Sets the store. Default: in memory. The engine sets its salt, forks and thread start itself.
    #[must_use]
    pub fn with_store(mut self, store: StoreConfig) -> Self {
        self.store = store;
        self
    }

    /// Sets revm's configuration: spec, chain id, limits. With [`Self::with_chain`] only the limits count, and apply to
    /// every block; without it, blocks of transactions alone have these rules for ever. Default: mainnet's, Osaka.
    #[must_use]
    pub fn with_cfg(mut self, cfg: CfgEnv) -> Self {
        self.cfg = Some(cfg);
        self
    }

    /// Adds a precompiled contract of the chain's own.
    #[must_use]
    pub fn with_precompile(mut self, precompile: Arc<dyn Precompile>) -> Self {
        self.vm = self.vm.with_precompile(precompile);
        self
    }

    /// Sets the chain's own rules: recipients of fees, an extra fee, forced transactions. Default: mainnet's.
    #[must_use]
    pub fn with_rules(mut self, rules: ChainRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the number of worker threads, at least one and at most [`phalanx_parascheduler::max_threads`]. Default: one.
    #[must_use]
    pub const fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the secret of all digests. It may change the order that a builder chooses, and nothing else. Random in
    /// production; the default is a constant, so that runs can be repeated.
    #[must_use]
    pub const fn with_salt(mut self, salt: u64) -> Self {
        self.salt = salt;
        self
    }

    /// Sets the chain: every block has the rules of its height and time, whole ones and those of transactions alone.
    /// Default: Ethereum's mainnet for whole blocks, and the rules of [`Self::with_cfg`] for the others.
    #[must_use]
    pub fn with_chain(mut self, chain: ChainSpec) -> Self {
        self.chain = Some(chain);
        self
    }

    /// Sets the digest of the genesis that a store must have been begun with: [`crate::chain_digest`], or
    /// [`crate::genesis_digest`] if it was begun with accounts alone. Default: a
    /// store of any genesis with the same chain id is opened.
    #[must_use]
    pub const fn with_genesis(mut self, digest: B256) -> Self {
        self.genesis = Some(digest);
        self
    }

    /// Sets the root that blocks report, which a store keeps from its genesis on. Default: that of the chain, see
    /// [`ChainSpec::with_root`]; without one, that of the twigs.
    #[must_use]
    pub const fn with_root(mut self, root: RootKind) -> Self {
        self.root = Some(root);
        self
    }

    /// Sets the state that the chain goes on from: what its store lacks is read there. The genesis is that state with the accounts of
    /// the genesis over it, at the [height](RemoteState::height) of its block. The chain has the root of the twigs, over what has
    /// changed since. Default: none.
    #[must_use]
    pub fn with_remote(mut self, remote: Arc<dyn RemoteState>) -> Self {
        self.remote = Some(remote);
        self
    }

    /// Sets a seed for rare schedules, for tests. The DAG runs its transactions one at a time, in a reproducible order
    /// drawn from the seed among all that it permits; Block-STM's threads are disturbed where order matters. No result
    /// changes. Default: undisturbed.
    #[cfg(any(test, feature = "lab"))]
    #[must_use]
    pub const fn with_schedule_seed(mut self, seed: Option<u64>) -> Self {
        self.schedule_seed = seed;
        self
    }

    /// Makes all workers take part in every block on the DAG, for tests and models: also where one alone is as fast,
    /// because there is little to do or each transaction depends on the one before. Keys of planned blocks are interned
    /// in shards, and the caller's thread executes no block. No result depends on it. Default: no.
    #[cfg(any(test, feature = "lab"))]
    #[must_use]
    pub const fn with_force_parallel(mut self, force: bool) -> Self {
        self.force_parallel = force;
        self
    }

    /// Sets what changes the speed and no result. Default: [`Tuning::default`].
    #[must_use]
    pub const fn with_tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Makes the engine [prune](Engine::prune) its log after every so many commits, so that an engine that runs for long keeps
    /// its size, in memory and on disk. What the history of the store covers stays, what exporters read, and what the checkpoint
    /// needs. The first commit prunes as well. Default: 0, never.
    #[must_use]
    pub const fn with_pruning(mut self, commits: u64) -> Self {
        self.pruning = commits;
        self
    }

    /// Sets the executor of blocks.
    #[must_use]
    pub const fn with_executor(mut self, executor: Executor) -> Self {
        self.executor = executor;
        self
    }

    /// Makes the engine produce access lists (EIP-7928), see [`crate::BlockInfo::access_list`]: for whole blocks,
    /// planned ones and those of a [`crate::builder::Builder`]. Default: no, at no cost.
    #[must_use]
    pub const fn with_access_lists(mut self, access_lists: bool) -> Self {
        self.access_lists = access_lists;
        self
    }

    /// Sets the stage observer.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Sets a callback that runs on each thread of the engine before its first work: the place to bind the thread to a
    /// core, for which the engine has no means. Default: nothing.
    ///
    /// Workers call it once the store is open and has read its log. Threads that a backend starts on its own, as
    /// RocksDB does, start where the worker is that opens it.
    #[must_use]
    pub fn with_thread_start(mut self, start: impl Fn(ThreadRole) + Send + Sync + 'static) -> Self {
        self.thread_start = Some(Arc::new(start));
        self
    }

    /// Opens the store and starts the threads. O(state) for a chain with Ethereum's root, whose trie is made anew.
    ///
    /// # Errors
    /// The store cannot be opened or holds another chain, or one with the other kind of root, the configuration contradicts the chain, the spec is not
    /// supported, or the system cannot start the threads.
    pub fn build(self) -> Result<Engine, Error> {
        let rules = Rules::new(self.chain, self.cfg, self.root)?;
        self.rules.validate().map_err(|error| Error::Configuration { what: error.to_string() })?;
        let cfg = self.vm.with_rules(self.rules).with_cfg(rules.first());
        if !is_supported(&cfg) {
            return Err(Error::UnsupportedSpec { spec: cfg.spec });
        }
        if self.remote.is_some() && rules.chain.root() == RootKind::Ethereum {
            let what = "a chain that goes on from a remote state knows a part of it alone: it has no root of Ethereum";
            return Err(Error::Configuration { what: what.into() });
        }
        let threads = self.threads.max(1);
        let start = |source| Error::Threads { threads, source };
        let workers = Arc::new(Workers::new(threads).map_err(start)?);
        let store_stage = Arc::new(StoreStage::new(Arc::clone(&self.observer)));
        let memory = self.store.memory;
        let mut store = self
            .store
            .with_contents(contents())
            .with_salt(self.salt)
            .with_first_height(self.remote.as_ref().map_or(0, |remote| remote.height()))
            .with_fork_join_observer(Arc::clone(&store_stage) as _);
        if let Some(start) = self.thread_start.clone() {
            store = store.with_thread_start(move || start(ThreadRole::Store));
        }
        let store = workers.install(|| Store::open(store))?;
        if let Some(start) = &self.thread_start {
            workers.install(|| rayon::broadcast(|worker| start(ThreadRole::Worker(worker.index()))));
        }
        let Tuning { fast_path, traces, learning, code_cache, read_ahead } = self.tuning;
        let (force_parallel, schedule_seed) = (self.force_parallel, self.schedule_seed);
        let options = ExecOptions { fast_path, traces, force_parallel, schedule_seed };
        let mut state = State::new(store, CodeRule::of(cfg.spec), code_cache, self.remote.map(Remote::new))?;
        state.read_ahead(memory, read_ahead);
        check_identity(&state, rules.chain.chain_id(), self.genesis)?;
        check_root(&state, rules.chain.root())?;
        workers.install(|| state.take_up_roots(rules.chain.root()))?;
        Ok(Engine {
            forks: Forks::restore(&state)?,
            state,
            persister: Persister::start(Arc::clone(&self.observer), self.thread_start).map_err(start)?,
            executors: Executors::new(&cfg, threads, options, Salt::new(self.salt)),
            access_lists: self.access_lists,
            options,
            learning,
            unstudied: 0,
            paralyze: ParaLyze::new(Salt::new(self.salt), cfg.clone()),
            interner: Interner::new(Salt::new(self.salt)),
            salt: Salt::new(self.salt),
            executor: self.executor,
            rules,
            committed_number: None,
            pruning: self.pruning,
            // An engine that ends early prunes, too.
            unpruned: self.pruning,
            genesis: self.genesis,
            edits: Arc::default(),
            begun: None,
            observer: self.observer,
            store_stage,
            cfg,
            workers,
        })
    }
}

/// Checks that a store holds the chain, if it holds one.
fn check_identity(state: &State, chain: u64, genesis: Option<B256>) -> Result<(), Error> {
    if state.height().is_none() {
        return Ok(());
    }
    let name = |chain: u64, genesis: Option<B256>| match genesis {
        Some(genesis) => format!("chain {chain} with genesis {genesis}"),
        None => format!("chain {chain}"),
    };
    let (found, begun) = state.identity()?.ok_or_else(|| Error::OtherChain {
        found: "a state without the identity of a chain, from another version or program".into(),
        expected: name(chain, genesis),
    })?;
    if found == chain && genesis.is_none_or(|genesis| genesis == begun) {
        return Ok(());
    }
    Err(Error::OtherChain { found: name(found, genesis.map(|_| begun)), expected: name(chain, genesis) })
}

/// Checks that a store holds a chain with this kind of root, if it holds one.
fn check_root(state: &State, wanted: RootKind) -> Result<(), Error> {
    let found = state.stored_root_kind()?;
    if state.height().is_none() || found == wanted {
        return Ok(());
    }
    Err(Error::OtherChain { found: format!("a chain with {found}"), expected: format!("one with {wanted}") })
}

impl Engine {
    /// Begins to set up an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder {
            store: StoreConfig::new(phalanx_merkle::Backend::Mem),
            vm: VmConfig::default(),
            rules: ChainRules::new(),
            cfg: None,
            threads: 1,
            salt: 0x7068_616c_616e_7800,
            executor: Executor::default(),
            chain: None,
            genesis: None,
            root: None,
            remote: None,
            access_lists: false,
            pruning: 0,
            tuning: Tuning::default(),
            force_parallel: false,
            schedule_seed: None,
            observer: Arc::new(Unobserved),
            thread_start: None,
        }
    }
}
