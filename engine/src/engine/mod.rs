//! The engine as a list of steps: genesis, plan, execute, merkleize, commit. Whole blocks of a chain are executed in
//! `execute_block`; forks are kept in `fork`.

mod announce;
mod builder;
mod execute_block;
mod execute_on;
mod genesis;
mod given;
mod listed;
mod learn;
mod exceptions;
mod predict;
mod run_on;
mod begin;
mod edits;
mod fork;
pub(crate) mod steps;
pub(crate) mod protocol;
pub(crate) mod judge;
pub(crate) mod environment;
mod setting;
pub(crate) mod rules;
mod forks;
#[cfg(test)]
mod tests;

pub use begin::chain_digest;
pub use builder::EngineBuilder;
pub use execute_on::ForeignBlock;
pub use fork::SnapshotAt;
pub use genesis::GenesisInParts;
pub(crate) use steps::MIN_OVERLAP;

use crate::{
    exec::{
        context::{ExecOptions, ExecResources},
        dispatch::Executors,
    },
    model::{Edit, Error, Executor, Observer, Order, StoreStage},
    plan::{Block, Planner, join_if},
    seal::{Committed, Executed, Merkleized},
    state::{Ancestors, Persister, Prepared, State, StateRef},
};
use alloy_consensus::Header;
use alloy_primitives::{B256, Sealed};
use environment::checked_env;
use forks::Forks;
use phalanx_access::{Interner, Salt};
use phalanx_merkle::Pending;
use phalanx_paraframer::BlockLimits;
use phalanx_paralyze::{ParaLyze, StateKey, VmConfig};
use phalanx_parascheduler::Workers;
use revm::context::{BlockEnv, TxEnv};
use rules::Rules;
use std::sync::Arc;

/// Executes blocks and commits their state, one after the other.
#[derive(Debug)]
pub struct Engine {
    // Dropped first: it writes the queued blocks.
    persister: Persister,
    forks: Forks,
    pub(crate) state: State,
    pub(crate) workers: Arc<Workers>,
    pub(crate) executors: Executors,
    access_lists: bool,
    options: ExecOptions,
    learning: bool,
    /// Gas of transactions that may still be studied.
    unstudied: u64,
    pub(crate) cfg: VmConfig,
    pub(crate) salt: Salt,
    executor: Executor,
    pub(crate) rules: Rules,
    /// Number of the committed block, if it was executed as a whole since the engine was opened.
    committed_number: Option<u64>,
    /// Commits between two prunings of the log; zero for none.
    pruning: u64,
    /// Commits since the last pruning.
    unpruned: u64,
    /// Digest that the genesis must have.
    genesis: Option<B256>,
    /// Edits of the next block, on a chain for development.
    pub(crate) edits: Arc<[Edit]>,
    /// Header of the first block with its hash, if it was begun with one.
    pub(crate) begun: Option<Box<Sealed<Header>>>,
    /// Predictor for given orders; it keeps what it learns from block to block.
    paralyze: ParaLyze,
    interner: Interner<StateKey>,
    observer: Arc<dyn Observer>,
    store_stage: Arc<StoreStage>,
}

/// The [`ExecResources`] of an engine, borrowed field by field: its executors stay free.
macro_rules! resources {
    ($engine:ident) => {{
        let state = StateRef::Own(&$engine.state);
        let (workers, cfg, chain) = (&*$engine.workers, &$engine.cfg, &$engine.rules.chain);
        let store_stage = &*$engine.store_stage;
        let (executor, options, access_lists) = ($engine.executor, $engine.options, $engine.access_lists);
        let (observer, edits) = (&*$engine.observer, &*$engine.edits);
        ExecResources { state, workers, cfg, chain, observer, store_stage, executor, options, access_lists, edits }
    }};
}

impl Engine {
    /// State that blocks are executed on: the committed one, unless a fork is [checked out](Self::checkout).
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Threads of the engine, for data-parallel work of the caller.
    ///
    /// Each call hops to a worker, and a caller from outside waits for it, which takes a wake-up or two each time.
    /// Exempt are whole blocks of at most 64 transactions that end sooner, or that one thread executes serially for
    /// lack of predictions: the caller executes these. To drive many small blocks, call the engine from inside a
    /// worker: with a handle of its own, `workers.install(|| …)`. Where the system leaves a woken thread on the core of
    /// the thread that woke it, that saves more than the wake-ups.
    pub const fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    /// Splits the engine into the parts that planning, execution and sealing share, and the executors.
    pub(crate) fn split(&mut self) -> (ExecResources<'_>, &mut Executors) {
        let resources = resources!(self);
        (resources, &mut self.executors)
    }

    /// Parts that planning, execution and sealing share.
    pub(crate) fn resources(&self) -> ExecResources<'_> {
        resources!(self)
    }

    /// Sets results of BLOCKHASH from the next block on. Of a whole block, the header names the parent, and the store
    /// knows the older ancestors that were executed as whole blocks: what is set here counts before either. A number
    /// that is known nowhere hashes to zero.
    pub fn set_ancestors(&mut self, ancestors: Ancestors) {
        self.state.set_ancestors(Arc::new(ancestors));
    }

    /// Creates a planner for `txs`, which plans them into blocks.
    pub fn plan<'t>(&self, txs: &'t [TxEnv], order: Order, limits: BlockLimits) -> Planner<'t> {
        Planner::new(txs, order, limits, ParaLyze::new(self.salt, self.cfg.clone()))
    }

    /// Executes `block`, whose indices point into `txs`, on [`Self::state`]. Nothing is committed.
    ///
    /// # Errors
    /// The environment lacks a field, the block names a missing transaction, or the store is corrupt.
    pub fn execute(&mut self, env: &BlockEnv, txs: &[TxEnv], block: Block) -> Result<Executed, Error> {
        self.enter_plain(env)?;
        let env = &self.admit(env, txs, &block)?;
        let workers = Arc::clone(&self.workers);
        workers.install(|| {
            let (resources, executors) = self.split();
            steps::execute(resources, executors, env, txs, block)
        })
    }

    /// Executes `block` and computes its root, like [`Self::execute`] and [`Self::merkleize`], while `planner` plans
    /// the next block for the environment `next`, from the state before both. That keeps all threads busy: much of
    /// planning runs on one thread. With one thread they take turns.
    ///
    /// Blocks of a few transactions take turns too: waking a thread for them takes longer.
    ///
    /// If transactions escape, the planned block is [unplanned](Planner::unplan) before they are requeued.
    ///
    /// # Errors
    /// The errors of the two; the planned block is lost then.
    pub fn execute_and_plan(
        &mut self,
        env: &BlockEnv,
        txs: &[TxEnv],
        block: Block,
        planner: &mut Planner<'_>,
        next: &BlockEnv,
    ) -> Result<(Merkleized, Option<Block>), Error> {
        self.enter_plain(env)?;
        let env = &self.admit(env, txs, &block)?;
        let resources = resources!(self);
        let (state, executors) = (&self.state, &mut self.executors);
        let overlaps = block.order.len() >= MIN_OVERLAP;
        // The disk reads the next block's values while this one runs.
        let plan = || planner.plan(resources.planning(), next, true).inspect(|planned| state.announce(planned.keys()));
        let run = || steps::execute_and_merkleize(resources, state, executors, env, txs, block);
        let (planned, merkleized) = resources.workers.install(|| join_if(overlaps, plan, run));
        Ok((merkleized?, planned))
    }

    /// Computes the root of the state after `executed`. Nothing is committed.
    ///
    /// # Errors
    /// The block ran on another state than the committed one, the store is poisoned, or another thread merkleizes a block of a chain
    /// with Ethereum's root.
    pub fn merkleize(&self, executed: Executed) -> Result<Merkleized, Error> {
        steps::merkleize(self.resources(), &self.state, executed)
    }

    /// Commits `block`, executed on the committed state. The state has changed when this returns, and the handle
    /// completes when the block is durable. Writing continues beside the next block.
    ///
    /// # Errors
    /// The block was merkleized on another parent, or the store is poisoned.
    pub fn commit(&mut self, block: Merkleized) -> Result<Committed, Error> {
        self.prune_in_turn()?;
        let state_root = block.state_root();
        let Merkleized { prepared, accounts, block } = block;
        let pending = self.apply(prepared)?;
        self.state.adopt(&accounts);
        self.committed_number = block.number_of_whole();
        self.forks.prune(&self.state);
        let write = self.persister.submit(pending)?;
        Ok(Committed { block, state_root, write })
    }

    /// Drops the beginning of the log that no state, rewind, exporter or checkpoint needs, and returns the number of dropped blocks. It
    /// waits until the disk has all written blocks. [`EngineBuilder::with_pruning`] does it by itself.
    ///
    /// # Errors
    /// The store is poisoned, or the disk failed.
    pub fn prune(&mut self) -> Result<u64, Error> {
        self.unpruned = 0;
        Ok(self.state.store.prune()?)
    }

    /// Prunes the log before a commit if so many came since, and counts this one. Before, because an error must leave the block
    /// uncommitted.
    fn prune_in_turn(&mut self) -> Result<(), Error> {
        if self.pruning != 0 && self.unpruned >= self.pruning {
            self.prune()?;
        }
        self.unpruned += 1;
        Ok(())
    }

    fn apply(&mut self, prepared: Prepared) -> Result<Pending, Error> {
        let Self { state, workers, store_stage, .. } = self;
        store_stage.observe(|| workers.install(|| state.apply(prepared)))
    }

    /// Checks a block, and completes its environment.
    fn admit(&self, env: &BlockEnv, txs: &[TxEnv], block: &Block) -> Result<BlockEnv, Error> {
        match block.order.iter().find(|tx| **tx as usize >= txs.len()) {
            Some(index) => Err(Error::NoSuchTransaction { index: *index as usize, len: txs.len() }),
            None => checked_env(env, self.cfg.spec),
        }
    }
}

impl Planner<'_> {
    /// Plans the next block from the engine's committed state; `None` when every transaction is in a block.
    ///
    /// `env` is the environment of that block.
    pub fn next_block(&mut self, engine: &Engine, env: &BlockEnv) -> Option<Block> {
        self.plan(engine.resources().planning(), env, false)
    }
}
