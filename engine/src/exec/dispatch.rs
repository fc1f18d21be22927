//! Chooses the executor of a block: the DAG with predictions, otherwise Block-STM or serial revm. The session of the
//! block is above all executors, and each executor knows only its own input.

use crate::{
    exec::{
        context::{ExecContext, ExecOptions},
        dag::DagExecutor,
        fast_path::FastPath,
        list::ListExecutor,
        run::{Run, RunStats},
        session::BlockSession,
        stm::StmExecutor,
    },
    model::{Error, Executor, Stage, observe},
    plan::Block,
};
use phalanx_access::Salt;
use phalanx_paralyze::VmConfig;

/// The executors, one of each kind, with an EVM per worker.
#[derive(Debug)]
pub(crate) struct Executors {
    pub(crate) dag: DagExecutor,
    stm: StmExecutor,
    /// Executes blocks on the values of their access lists.
    pub(crate) list: ListExecutor,
}

impl Executors {
    pub(crate) fn new(cfg: &VmConfig, threads: usize, options: ExecOptions, salt: Salt) -> Self {
        Self {
            dag: DagExecutor::new(cfg, threads, options),
            stm: StmExecutor::new(cfg, threads, options.fast_path, salt),
            list: ListExecutor::new(cfg, threads, options.fast_path),
        }
    }

    /// Executes the transactions of a block. Without predictions there is no DAG: a given order goes to Block-STM instead.
    ///
    /// # Errors
    /// The store is corrupt or the EVM fails.
    pub(crate) fn execute<'s>(
        &mut self,
        executor: Executor,
        ctx: &ExecContext<'s>,
        block: Block,
    ) -> Result<Run<'s>, Error> {
        let tx = |index: &u32| &ctx.txs[*index as usize];
        if let (true, Some(state)) = (block.is_unpredicted(), ctx.state.own()) {
            state.announce_named(block.order.iter().map(tx));
        }
        match executor {
            Executor::Dag if !block.is_unpredicted() => self.on_dag(ctx, block),
            Executor::Dag if ctx.policy().prefers_serial(block.order.iter().map(tx)) => {
                self.serial(ctx, self.dag.fast_path(), block.order, true)
            }
            Executor::BlockStm if ctx.policy().has_nothing_ahead(block.order.iter().map(tx)) => {
                self.serial(ctx, self.stm.fast_path(), block.order, false)
            }
            Executor::Dag | Executor::BlockStm => {
                let stats = RunStats { fallback: executor == Executor::Dag, ..RunStats::default() };
                observe(ctx.observer, Stage::Execute, || self.stm.execute(ctx, block.order, stats))
            }
            Executor::Sequential => self.serial(ctx, None, block.order, false),
        }
    }

    /// Executes a block in one batch; Block-STM takes over a given order with useless predictions.
    fn on_dag<'s>(&mut self, ctx: &ExecContext<'s>, block: Block) -> Result<Run<'s>, Error> {
        let Self { dag, stm, .. } = self;
        let mut session = BlockSession::new(ctx.state, ctx.base.cloned(), dag.take_cells());
        let (_, handed_over) = session.extend(dag, ctx, block)?;
        if let Some(rest) = handed_over {
            session.take_over(ctx, rest, |order, gas, overlay| stm.extend(ctx, order, gas, overlay, 1))?;
        }
        session.take(ctx)
    }

    /// Executes a block serially, transfers by `path`; `falls_back` if its predictions were useless.
    fn serial<'s>(
        &self,
        ctx: &ExecContext<'s>,
        path: Option<&FastPath>,
        order: Vec<u32>,
        falls_back: bool,
    ) -> Result<Run<'s>, Error> {
        let mut session = BlockSession::new(ctx.state, ctx.base.cloned(), Default::default());
        session.extend_serial(ctx, path, order)?;
        let mut run = session.take(ctx)?;
        run.stats.fallback = falls_back;
        Ok(run)
    }
}
