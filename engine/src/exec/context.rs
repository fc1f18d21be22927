//! Input of every execution of a block: the engine's resources, and the parts of the block. [`ExecContext::new`] is the
//! only constructor.

use crate::{
    bal::Record,
    chain::ChainSpec,
    exec::{block_gas::BlockGas, overlay::Overlay, policy::Policy},
    model::{Edit, Executor, GasRoom, GasRules, Observer, StoreStage, Traces, Txs},
    plan::PlanContext,
    state::{AccountRules, StateRef},
};
use phalanx_paralyze::VmConfig;
use phalanx_parascheduler::Workers;
use revm::{
    context::BlockEnv,
    context_interface::result::{ExecutionResult, InvalidTransaction},
    primitives::hardfork::SpecId,
};

/// Options of execution that change no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExecOptions {
    /// True if plain transfers run without the EVM.
    pub(crate) fast_path: bool,
    /// Replay of recorded calls.
    pub(crate) traces: Traces,
    /// True if all workers take part in every wave, also where one is as fast.
    pub(crate) force_parallel: bool,
    /// Seed that disturbs the schedule, for tests.
    pub(crate) schedule_seed: Option<u64>,
}

impl ExecOptions {
    /// Chooses between serial and parallel execution.
    pub(crate) fn policy<'a>(self, cfg: &'a VmConfig, state: StateRef<'a>, workers: &Workers) -> Policy<'a> {
        let Self { force_parallel, schedule_seed, .. } = self;
        Policy { cfg, state, threads: workers.threads(), force_parallel, schedule_seed }
    }
}

/// The parts of an engine that planning, execution and sealing share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecResources<'e> {
    pub(crate) state: StateRef<'e>,
    pub(crate) workers: &'e Workers,
    pub(crate) cfg: &'e VmConfig,
    pub(crate) chain: &'e ChainSpec,
    pub(crate) observer: &'e (dyn Observer + 'static),
    pub(crate) store_stage: &'e StoreStage,
    pub(crate) executor: Executor,
    pub(crate) options: ExecOptions,
    /// True if blocks get their access list.
    pub(crate) access_lists: bool,
    /// Edits of a whole block, before its transactions.
    pub(crate) edits: &'e [Edit],
}

impl<'e> ExecResources<'e> {
    /// The part that planning needs.
    pub(crate) fn planning(self) -> PlanContext<'e> {
        let Self { state, workers, observer, executor, options, .. } = self;
        let builds_graphs = executor == Executor::Dag;
        PlanContext { state, workers, observer, builds_graphs, force_parallel: options.force_parallel }
    }

    /// True if whole blocks get their access list: it is wanted, or their header has its hash (EIP-7928).
    pub(crate) fn wants_access_list(&self) -> bool {
        self.access_lists || self.cfg.spec.is_enabled_in(SpecId::AMSTERDAM)
    }

    /// Chooses between serial and parallel execution.
    pub(crate) fn policy(self) -> Policy<'e> {
        self.options.policy(self.cfg, self.state, self.workers)
    }
}

/// Limits of a block that a builder still extends.
#[derive(Clone, Copy)]
pub(crate) struct BuildLimits<'a> {
    /// Gas that the block may use.
    pub(crate) gas: GasRoom,
    /// Returns true if no further transaction is to be started.
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    /// The chain, if the block is a whole one.
    pub(crate) chain: Option<&'a ChainSpec>,
}

impl BuildLimits<'_> {
    /// Reason for which a transaction with this result cannot be in a block, although revm accepts it: a log that
    /// imitates a deposit makes the whole block invalid (EIP-6110).
    fn refuses(&self, spec: SpecId, result: &ExecutionResult) -> Option<InvalidTransaction> {
        let chain = self.chain.filter(|_| spec.is_enabled_in(SpecId::PRAGUE))?;
        let error = chain.deposit_requests(result.logs()).err()?;
        Some(InvalidTransaction::from(error.to_string()))
    }
}

/// Everything that the execution of one block needs.
#[derive(Clone, Copy)]
pub(crate) struct ExecContext<'a> {
    pub(crate) state: StateRef<'a>,
    pub(crate) workers: &'a Workers,
    pub(crate) cfg: &'a VmConfig,
    /// Rules by which transactions count in the block.
    pub(crate) gas_rules: GasRules,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) options: ExecOptions,
    pub(crate) env: &'a BlockEnv,
    pub(crate) txs: Txs<'a>,
    /// Changes of the block before its transactions, above the state; then the state after them is an overlay too.
    pub(crate) base: Option<&'a Overlay<'a>>,
    /// Gas limit of a block that is judged: its outcomes end with the first transaction that makes it invalid.
    pub(crate) gas: Option<u64>,
    /// Limits of a block that is still extended.
    pub(crate) limits: Option<BuildLimits<'a>>,
    /// Takes the footprint of each transaction, where a block access list is wanted.
    pub(crate) record: Option<&'a Record>,
}

impl<'a> ExecContext<'a> {
    /// A context for the transactions `txs` in the environment `env`, without base, gas limit, build limits and record.
    pub(crate) fn new(resources: ExecResources<'a>, env: &'a BlockEnv, txs: Txs<'a>) -> Self {
        let ExecResources { state, workers, cfg, observer, options, .. } = resources;
        let gas_rules = GasRules::of(cfg);
        let (base, gas, limits, record) = (None, None, None, None);
        Self { state, workers, cfg, gas_rules, observer, options, env, txs, base, gas, limits, record }
    }

    /// The block's gas before its transactions.
    pub(crate) fn block_gas(&self) -> BlockGas {
        BlockGas::new(self.gas_rules, self.gas.map(GasRoom::new))
    }

    /// The rules by which transactions change accounts.
    pub(crate) fn rules(&self) -> AccountRules {
        self.state.rules(self.cfg.spec)
    }

    /// Chooses between serial and parallel execution.
    pub(crate) fn policy(&self) -> Policy<'a> {
        self.options.policy(self.cfg, self.state, self.workers)
    }

    /// The state before the transactions.
    pub(crate) fn overlay(&self) -> Overlay<'a> {
        self.base.cloned().unwrap_or_else(|| Overlay::new(self.state, self.rules()))
    }

    /// The reason for which a transaction with this result is left out.
    pub(crate) fn refuses(&self, result: &ExecutionResult) -> Option<InvalidTransaction> {
        self.limits.and_then(|limits| limits.refuses(self.cfg.spec, result))
    }

    /// Returns true if no further transaction is to be started.
    pub(crate) fn stops(&self) -> bool {
        self.limits.is_some_and(|limits| (limits.stop)())
    }
}
