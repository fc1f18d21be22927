use crate::{
    Ancestors, Block, BlockInfo, BlockLimits, Committed, Error, Executed, Executor, Merkleized, Observer, Order,
    Planner, Stage, State, Unobserved,
    block::{Ran, Results, Sealing},
    block_access_list::{ListExecutor, Record, produce},
    branch::Branches,
    chain::ChainSpec,
    changes::Changes,
    config::is_supported,
    dag::{DagExecutor, Habits, Machine, Run},
    intern::interns_in_shards,
    observer::{StoreStage, observe},
    persist::Persister,
    stm::StmExecutor,
    threads::{ThreadRole, ThreadStart},
    trace::Traces,
    txs::Txs,
    whole::execute,
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use phalanx_access::{Interner, Salt};
use phalanx_merkle::{Pending, Prepared, Store, StoreConfig};
use phalanx_paralyze::{ParaLyze, Precompile, StateKey, VmConfig};
use phalanx_parascheduler::Workers;
use revm::{
    context::{BlockEnv, CfgEnv, TxEnv},
    primitives::hardfork::SpecId,
    state::Bytecode,
};
use std::sync::Arc;

/// Blocks of fewer transactions are not planned beside each other, nor their receipts sealed beside their root.
pub const MIN_OVERLAP: usize = 128;

/// An account of the first state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Where it lives.
    pub address: Address,
    /// Wei.
    pub balance: U256,
    /// Transactions sent, or contracts created.
    pub nonce: u64,
    /// Runtime code.
    pub code: Option<Bytes>,
    /// Slots that are not zero.
    pub storage: Vec<(U256, U256)>,
}

/// Sets up an [`Engine`].
#[derive(Clone)]
pub struct EngineBuilder {
    store: StoreConfig,
    cfg: VmConfig,
    threads: usize,
    salt: u64,
    executor: Executor,
    chain: ChainSpec,
    schedule_seed: Option<u64>,
    access_lists: bool,
    habits: Habits,
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
        self.schedule_seed = seed;
        self
    }

    /// Whether the DAG's workers do plain value transfers without the EVM. No result depends on it. Default: yes.
    #[must_use]
    pub const fn with_fast_path(mut self, fast_path: bool) -> Self {
        self.habits.fast_path = fast_path;
        self
    }

    /// Whether the DAG's workers replay calls of contracts that go a way which they have recorded, instead of interpreting
    /// them. No result depends on it. Default: yes.
    #[must_use]
    pub const fn with_traces(mut self, traces: Traces) -> Self {
        self.habits.traces = traces;
        self
    }

    /// For tests, and whoever models the engine: all workers take part in every block on the DAG, also where one alone is as
    /// fast, because there is little to do or each transaction waits for the one before; keys of planned blocks become ids
    /// in shards; and nothing is executed on the caller's thread.
    /// No result depends on it. Default: no.
    #[must_use]
    pub const fn with_all_workers(mut self, all_workers: bool) -> Self {
        self.habits.shares_all = all_workers;
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
    /// those of a [`crate::Builder`]. Default: no, and then it costs nothing.
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
            branches: Branches::restore(&state)?,
            state,
            persister: Persister::start(Arc::clone(&self.observer), self.thread_start).map_err(start)?,
            dag: DagExecutor::new(&self.cfg, threads, self.habits),
            stm: StmExecutor::new(&self.cfg, threads, self.habits.fast_path, Salt::new(self.salt)),
            listed: ListExecutor::new(&self.cfg, threads, self.habits.fast_path),
            access_lists: self.access_lists,
            schedule_seed: self.schedule_seed,
            habits: self.habits,
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

/// Executes blocks and commits their state, one after the other.
#[derive(Debug)]
pub struct Engine {
    // Dropped first: it writes what is queued.
    pub(crate) persister: Persister,
    /// Blocks beside the chain.
    pub(crate) branches: Branches,
    pub(crate) state: State,
    pub(crate) workers: Arc<Workers>,
    pub(crate) dag: DagExecutor,
    pub(crate) stm: StmExecutor,
    /// Runs blocks on the values of their access lists.
    pub(crate) listed: ListExecutor,
    pub(crate) access_lists: bool,
    pub(crate) schedule_seed: Option<u64>,
    pub(crate) habits: Habits,
    pub(crate) learning: bool,
    /// Gas of transactions that may be studied, and was not yet.
    pub(crate) unstudied: u64,
    pub(crate) cfg: VmConfig,
    pub(crate) salt: Salt,
    pub(crate) executor: Executor,
    pub(crate) chain: ChainSpec,
    /// Predicts for given orders; what it learns of one block serves the next.
    pub(crate) paralyze: ParaLyze,
    pub(crate) interner: Interner<StateKey>,
    pub(crate) observer: Arc<dyn Observer>,
    store_stage: Arc<StoreStage>,
}

impl core::fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Observer")
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
            schedule_seed: None,
            access_lists: false,
            habits: Habits { fast_path: true, traces: Traces::On, shares_all: false },
            learning: true,
            observer: Arc::new(Unobserved),
            thread_start: None,
        }
    }

    /// The state that blocks are executed on: the committed one, unless the engine [stands on](Self::stand_on) another.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The threads, for data-parallel work of the caller.
    ///
    /// Each call goes to one of them, and a caller from outside waits for it, which takes a wake-up or two each time; but for
    /// whole blocks of at most 64 transactions that are over sooner, or that one thread executes in order because nothing is
    /// known of them: those the caller executes. Whoever has many small blocks drives the engine from one of them: with a
    /// handle of its own, `workers.install(|| …)`. Where the system leaves a thread that is woken on the core of whoever
    /// woke it, that is worth more than the wake-ups.
    pub const fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// What planning needs.
    pub(crate) fn ground(&self) -> Ground<'_> {
        let has_graphs = self.executor == Executor::Dag;
        let shares_all = self.habits.shares_all;
        let Self { state, workers, store_stage, .. } = self;
        Ground { state, workers, observer: self.observer(), store_stage, has_graphs, shares_all }
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    /// Sets what BLOCKHASH answers from the next block on; a number that is missing hashes to zero.
    pub fn set_ancestors(&mut self, ancestors: Ancestors) {
        self.state.ancestors = Arc::new(ancestors);
    }

    /// Commits the first state, as height 0, and gives its root.
    ///
    /// # Errors
    /// If the store holds a chain already, code is malformed, or writing fails.
    pub fn genesis(&mut self, accounts: impl IntoIterator<Item = GenesisAccount>) -> Result<B256, Error> {
        if self.state.height().is_some() {
            return Err(Error::Genesis { what: "the store holds a chain already; open another one" });
        }
        let mut changes = Changes::default();
        for account in accounts {
            let GenesisAccount { code, nonce, storage, .. } = &account;
            changes.beside.bare_storage |=
                *nonce == 0 && code.as_ref().is_none_or(|code| code.is_empty()) && !storage.is_empty();
            self.state.put_genesis(&mut changes, &account)?;
        }
        self.state.put_beside(&mut changes);
        let Self { state, workers, .. } = self;
        workers.install(|| {
            let prepared = state.store.prepare(changes.delta, 0)?;
            state.store.commit(prepared)
        })?;
        self.state.adopt(&changes.beside);
        Ok(self.state.root())
    }

    /// A planner for `txs`, which turns them into blocks.
    pub fn plan<'t>(&self, txs: &'t [TxEnv], order: Order, limits: BlockLimits) -> Planner<'t> {
        Planner::new(txs, order, limits, ParaLyze::new(self.salt, self.cfg.clone()))
    }

    /// The environment of a block that can be executed.
    pub(crate) fn admit(&self, env: &BlockEnv, txs: &[TxEnv], block: &Block) -> Result<BlockEnv, Error> {
        match block.order.iter().find(|tx| **tx as usize >= txs.len()) {
            Some(index) => Err(Error::NoSuchTransaction { index: *index as usize, len: txs.len() }),
            None => checked(env, self.cfg.spec),
        }
    }

    /// Executes `block`, whose indices point into `txs`, on [`Self::state`]. Nothing is committed.
    ///
    /// # Errors
    /// If the environment lacks a field, the block names a transaction that is not there, or the store is corrupt.
    pub fn execute(&mut self, env: &BlockEnv, txs: &[TxEnv], block: Block) -> Result<Executed, Error> {
        let env = &self.admit(env, txs, &block)?;
        let workers = Arc::clone(&self.workers);
        workers.install(|| self.parts().execute(env, txs, block))
    }

    /// The engine in what planning and execution share and what execution alone needs.
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        let Self { state, workers, cfg, observer, store_stage, dag, stm, executor, schedule_seed, .. } = self;
        let (access_lists, habits) = (&self.access_lists, &self.habits);
        let (has_graphs, shares_all) = (*executor == Executor::Dag, habits.shares_all);
        let ground = Ground { state, workers, observer: &**observer, store_stage, has_graphs, shares_all };
        let (executor, schedule_seed, access_lists) = (*executor, *schedule_seed, *access_lists);
        Parts { ground, cfg, dag, stm, executor, schedule_seed, access_lists }
    }

    /// Executes `block` and computes its root, as [`Self::execute`] and [`Self::merkleize`] do, while `planner` plans the
    /// block behind it for the environment `next`, from the state before both. Whoever keeps both busy keeps all threads
    /// busy: much of planning runs on one. With one thread they take turns.
    ///
    /// Blocks of a few transactions take turns too: to wake a thread for them takes longer.
    ///
    /// If transactions leave the block, the planned one goes [back](Planner::put_back) before they do.
    ///
    /// # Errors
    /// As the two; then what was planned is lost.
    pub fn execute_and_plan(
        &mut self,
        env: &BlockEnv,
        txs: &[TxEnv],
        block: Block,
        planner: &mut Planner<'_>,
        next: &BlockEnv,
    ) -> Result<(Merkleized, Option<Block>), Error> {
        let env = &self.admit(env, txs, &block)?;
        let parts = self.parts();
        let (ground, overlaps) = (parts.ground, block.order.len() >= MIN_OVERLAP);
        let plan = || planner.plan(ground, next, true);
        let run = || parts.execute_and_merkleize(env, txs, block);
        let (planned, merkleized) = ground.workers.install(|| join_if(overlaps, plan, run));
        Ok((merkleized?, planned))
    }

    /// Computes the root of the state after `executed`. Nothing is committed.
    ///
    /// # Errors
    /// If the block ran on another state than the committed one, or the store is poisoned.
    pub fn merkleize(&self, executed: Executed) -> Result<Merkleized, Error> {
        self.ground().merkleize(executed)
    }

    /// Makes `block`, executed on the committed state, the committed one: the state has moved on when this returns, and the
    /// ticket tells when it is durable. Writing goes on behind the next block.
    ///
    /// # Errors
    /// If the block was merkleized on another parent, or the store is poisoned.
    pub fn commit(&mut self, block: Merkleized) -> Result<Committed, Error> {
        let state_root = block.state_root();
        let Merkleized { prepared, beside, block } = block;
        let pending = self.apply(prepared)?;
        self.state.adopt(&beside);
        self.moved(pending, block, state_root)
    }

    pub(crate) fn apply(&mut self, prepared: Prepared) -> Result<Pending, Error> {
        let Self { state, workers, store_stage, .. } = self;
        Ok(store_stage.observe(|| workers.install(|| state.store.apply(prepared)))?)
    }

    /// The state has moved on; what is left is the write.
    pub(crate) fn moved(&mut self, pending: Pending, block: BlockInfo, state_root: B256) -> Result<Committed, Error> {
        self.branches.prune(&self.state);
        let ticket = self.persister.submit(pending)?;
        Ok(Committed { block, state_root, ticket })
    }
}

/// What planning and execution share.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'e> {
    pub(crate) state: &'e State,
    pub(crate) workers: &'e Workers,
    pub(crate) observer: &'e dyn Observer,
    store_stage: &'e StoreStage,
    /// Whether blocks run on the graph of their conflicts.
    pub(crate) has_graphs: bool,
    /// Whether all threads take part in whatever they can, as tests want it.
    pub(crate) shares_all: bool,
}

impl Ground<'_> {
    /// Whether so many transactions are worth all threads when their keys become ids.
    pub(crate) fn interns_in_shards(&self, txs: usize) -> bool {
        self.shares_all || interns_in_shards(self.workers.threads(), txs)
    }

    fn merkleize(self, executed: Executed) -> Result<Merkleized, Error> {
        let Self { state, workers, store_stage, .. } = self;
        if !Arc::ptr_eq(&executed.parent, &state.tip) {
            return Err(Error::Stale);
        }
        store_stage.observe(|| {
            let Executed { changes, prepared, block, .. } = executed;
            let (prepared, beside) = match prepared {
                Some(prepared) => (prepared, changes.beside),
                None => workers.install(|| state.prepare(changes))?,
            };
            Ok(Merkleized { prepared, beside, block })
        })
    }

    /// Computes the root after a block that ran, on one of the workers.
    pub(crate) fn merkleize_ran(self, ran: Ran, sealing: Sealing, txs: &[TxEnv]) -> Result<Merkleized, Error> {
        let (results, mut changes) = ran.split();
        changes.follow(sealing.spec);
        let (prepared, block) = self.finish(|state| state.prepare(changes), results, sealing, txs);
        let (prepared, beside) = prepared?;
        Ok(Merkleized { prepared, beside, block })
    }

    /// A block's root, as `prepare` computes it, and its receipts, which need no root, so that they are sealed beside it.
    pub(crate) fn finish<P: Send>(
        self,
        prepare: impl FnOnce(&State) -> Result<P, Error> + Send,
        results: Results,
        sealing: Sealing,
        txs: &[TxEnv],
    ) -> (Result<P, Error>, BlockInfo) {
        let Self { state, observer, store_stage, .. } = self;
        let overlaps = results.len() >= MIN_OVERLAP;
        let seal = || observe(observer, Stage::Seal, || BlockInfo::seal(results, Txs::List(txs), sealing, observer));
        join_if(overlaps, || store_stage.observe(|| prepare(state)), seal)
    }
}

/// An engine at work on a block, on one of its workers.
pub(crate) struct Parts<'e> {
    pub(crate) ground: Ground<'e>,
    cfg: &'e VmConfig,
    dag: &'e mut DagExecutor,
    stm: &'e mut StmExecutor,
    executor: Executor,
    schedule_seed: Option<u64>,
    access_lists: bool,
}

impl Parts<'_> {
    fn execute(self, env: &BlockEnv, txs: &[TxEnv], block: Block) -> Result<Executed, Error> {
        let observer = self.ground.observer;
        let (ran, sealing) = self.run(env, txs, block)?;
        Ok(observe(observer, Stage::Seal, || Executed::sealed(ran, Txs::List(txs), sealing, observer)))
    }

    /// Executes a block and computes its root, much of which on the way is for one thread.
    fn execute_and_merkleize(self, env: &BlockEnv, txs: &[TxEnv], block: Block) -> Result<Merkleized, Error> {
        let ground = self.ground;
        let (ran, sealing) = self.run(env, txs, block)?;
        ground.merkleize_ran(ran, sealing, txs)
    }

    pub(crate) fn run(self, env: &BlockEnv, txs: &[TxEnv], block: Block) -> Result<(Ran, Sealing), Error> {
        let Self { ground, cfg, dag, stm, executor, schedule_seed, access_lists } = self;
        let Ground { state, workers, observer, .. } = ground;
        let record = access_lists.then(|| Record::new(&block.order));
        let machine = Machine {
            state,
            base: None,
            workers,
            cfg,
            env,
            txs: Txs::List(txs),
            gas: None,
            making: None,
            observer,
            schedule_seed,
            record: record.as_ref(),
        };
        let (frames, sources) = (block.frames, block.sources);
        let run = execute(executor, dag, stm, &machine, block)?;
        let access_list = match &record {
            Some(record) => Some(observe(observer, Stage::Seal, || produce(state, None, env, &run, record))?.0),
            None => None,
        };
        let Run { order, outcomes, after, left, stats } = run;
        let changes = observe(observer, Stage::Execute, || after.into_changes())?;
        let (parent, spec, env) = (Arc::clone(&state.tip), cfg.spec, env.clone());
        let ran = Ran { order, outcomes, changes, left, stats };
        Ok((ran, Sealing { parent, spec, env, frames, sources, requests: None, access_list }))
    }
}

/// Both, beside each other if that `overlaps`.
pub(crate) fn join_if<A: Send, B: Send>(
    overlaps: bool,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    if overlaps { rayon::join(a, b) } else { (a(), b()) }
}

/// The environment as `spec` knows it.
pub(crate) fn checked(env: &BlockEnv, spec: SpecId) -> Result<BlockEnv, Error> {
    if spec.is_enabled_in(SpecId::MERGE) && env.prevrandao.is_none() {
        return Err(Error::Environment { what: "prevrandao" });
    }
    if spec.is_enabled_in(SpecId::CANCUN) && env.blob_excess_gas_and_price.is_none() {
        return Err(Error::Environment { what: "the excess blob gas" });
    }
    // Before EIP-1559 the beneficiary earns the whole price.
    let basefee = if spec.is_enabled_in(SpecId::LONDON) { env.basefee } else { 0 };
    Ok(BlockEnv { basefee, ..env.clone() })
}

/// Hash and analysed form of genesis code.
pub(crate) fn genesis_code(code: &Bytes) -> Result<(B256, Bytecode), Error> {
    let analysed = Bytecode::new_raw_checked(code.clone())
        .map_err(|_| Error::Genesis { what: "the genesis holds malformed delegation code" })?;
    Ok((keccak256(code), analysed))
}
