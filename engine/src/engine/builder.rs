//! Sets up an engine.

use super::{Engine, forks::Forks};
use crate::{
    chain::ChainSpec,
    exec::{context::ExecOptions, dispatch::Executors},
    model::{Error, Executor, Observer, StoreStage, ThreadRole, ThreadStart, Traces, Unobserved, is_supported},
    state::{Persister, State},
};
use phalanx_access::{Interner, Salt};
use phalanx_merkle::{Store, StoreConfig};
use phalanx_paralyze::{ParaLyze, Precompile, VmConfig};
use phalanx_parascheduler::Workers;
use revm::{context::CfgEnv, primitives::hardfork::SpecId};
use std::sync::Arc;

/// Sets up an [`Engine`].
#[derive(Clone)]
pub struct EngineBuilder {
    store: StoreConfig,
    cfg: VmConfig,
    threads: usize,
    salt: u64,
    executor: Executor,
    chain: ChainSpec,
    access_lists: bool,
    options: ExecOptions,
    learning: bool,
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
    /// Where the state lives. Default: in memory. Of it the engine sets salt, forks and thread start by itself.
    #[must_use]
    pub fn with_store(mut self, store: StoreConfig) -> Self {
        self.store = store;
        self
    }

    /// The chain's configuration: spec, chain id, limits. Default: mainnet's, Osaka.
    #[must_use]
    pub fn with_cfg(mut self, cfg: CfgEnv) -> Self {
        self.cfg.cfg = cfg;
        self
    }

    /// Adds a precompiled contract of the chain's own.
    #[must_use]
    pub fn with_precompile(mut self, precompile: Arc<dyn Precompile>) -> Self {
        self.cfg = self.cfg.with_precompile(precompile);
        self
    }

    /// Worker threads, at least one. Default: one.
    #[must_use]
    pub const fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The secret behind all digests. It may change the order that a builder chooses, and nothing else. Random in
    /// production; the default is a constant, so that runs can be repeated.
    #[must_use]
    pub const fn with_salt(mut self, salt: u64) -> Self {
        self.salt = salt;
        self
    }

    /// The chain whose whole blocks [`Engine::execute_block`] takes. It sets the configuration block by block. Default:
    /// Ethereum's mainnet.
    #[must_use]
    pub fn with_chain(mut self, chain: ChainSpec) -> Self {
        self.chain = chain;
        self
    }

    /// For tests: schedules that are rare. The DAG runs its transactions one at a time in an order drawn from the seed among
    /// all that it permits, the same every time; Block-STM's threads are disturbed at the places where order matters. No
    /// result changes. Default: undisturbed.
    #[must_use]
    pub const fn with_schedule_seed(mut self, seed: Option<u64>) -> Self {
        self.options.schedule_seed = seed;
        self
    }

    /// Whether the DAG's workers do plain value transfers without the EVM. No result depends on it. Default: yes.
    #[must_use]
    pub const fn with_fast_path(mut self, fast_path: bool) -> Self {
        self.options.fast_path = fast_path;
        self
    }

    /// Whether the DAG's workers replay calls of contracts that go a way which they have recorded, instead of interpreting
    /// them. No result depends on it. Default: yes.
    #[must_use]
    pub const fn with_traces(mut self, traces: Traces) -> Self {
        self.options.traces = traces;
        self
    }

    /// For tests, and whoever models the engine: all workers take part in every block on the DAG, also where one alone is as
    /// fast, because there is little to do or each transaction waits for the one before; keys of planned blocks become ids
    /// in shards; and nothing is executed on the caller's thread.
    /// No result depends on it. Default: no.
    #[must_use]
    pub const fn with_force_parallel(mut self, force: bool) -> Self {
        self.options.force_parallel = force;
        self
    }

    /// Whether the engine learns from blocks in a given order that it predicted badly, right after it has executed them:
    /// within a twentieth of the time that such blocks take sequentially, and nothing from the shortest, which need no
    /// predictions. It makes later blocks faster and changes no result. Default: yes.
    #[must_use]
    pub const fn with_learning(mut self, learning: bool) -> Self {
        self.learning = learning;
        self
    }

    /// How blocks are executed.
    #[must_use]
    pub const fn with_executor(mut self, executor: Executor) -> Self {
        self.executor = executor;
        self
    }

    /// Whether blocks get their access list (EIP-7928), see [`crate::BlockInfo::access_list`]: whole ones, planned ones and
    /// those of a [`crate::builder::Builder`]. Default: no, and then it costs nothing.
    #[must_use]
    pub const fn with_access_lists(mut self, access_lists: bool) -> Self {
        self.access_lists = access_lists;
        self
    }

    /// Who is told of stages.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Sets what is called on each thread of the engine before it has anything to do with a block: the place to bind it to a
    /// core, for which the engine itself has no means. Default: nothing.
    ///
    /// Workers are told once the store is open and has read its log: threads that a backend starts of its own accord, as
    /// RocksDB does, begin where the worker is that opens it.
    #[must_use]
    pub fn with_thread_start(mut self, start: impl Fn(ThreadRole) + Send + Sync + 'static) -> Self {
        self.thread_start = Some(Arc::new(start));
        self
    }

    /// Opens the store and starts the threads.
    ///
    /// # Errors
    /// If the store cannot be opened, the spec is not supported, or the system gives no threads.
    pub fn build(self) -> Result<Engine, Error> {
        if !is_supported(&self.cfg) {
            return Err(Error::UnsupportedSpec { spec: self.cfg.spec });
        }
        let threads = self.threads.max(1);
        let start = |source| Error::Threads { threads, source };
        let workers = Arc::new(Workers::new(threads).map_err(start)?);
        let store_stage = Arc::new(StoreStage::new(Arc::clone(&self.observer)));
        let mut store = self.store.with_salt(self.salt).with_fork_join_observer(Arc::clone(&store_stage) as _);
        if let Some(start) = self.thread_start.clone() {
            store = store.with_thread_start(move || start(ThreadRole::Store));
        }
        let store = workers.install(|| Store::open(store))?;
        if let Some(start) = &self.thread_start {
            workers.install(|| rayon::broadcast(|worker| start(ThreadRole::Worker(worker.index()))));
        }
        let state = State::new(store)?;
        Ok(Engine {
            forks: Forks::restore(&state)?,
            state,
            persister: Persister::start(Arc::clone(&self.observer), self.thread_start).map_err(start)?,
            executors: Executors::new(&self.cfg, threads, self.options, Salt::new(self.salt)),
            access_lists: self.access_lists,
            options: self.options,
            learning: self.learning,
            unstudied: 0,
            paralyze: ParaLyze::new(Salt::new(self.salt), self.cfg.clone()),
            interner: Interner::new(Salt::new(self.salt)),
            salt: Salt::new(self.salt),
            executor: self.executor,
            chain: self.chain,
            observer: self.observer,
            store_stage,
            cfg: self.cfg,
            workers,
        })
    }
}

impl Engine {
    /// An engine to be set up.
    pub fn builder() -> EngineBuilder {
        EngineBuilder {
            store: StoreConfig::new(phalanx_merkle::Backend::Mem),
            cfg: CfgEnv::new_with_spec(SpecId::OSAKA).into(),
            threads: 1,
            salt: 0x7068_616c_616e_7800,
            executor: Executor::default(),
            chain: ChainSpec::mainnet(),
            access_lists: false,
            options: ExecOptions { fast_path: true, traces: Traces::On, force_parallel: false, schedule_seed: None },
            learning: true,
            observer: Arc::new(Unobserved),
            thread_start: None,
        }
    }
}
