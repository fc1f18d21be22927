//! Serial work of a session: transactions without predictions, and a given order in which transactions escaped.

use super::{
    BlockSession, Followed, HandOver, Left, Why,
    settle::{Settled, Settlement},
};
use crate::{
    bal::Footprint,
    exec::{
        block_gas::BlockGas, context::ExecContext, dag::view::Shared, fast_path::FastPath, overlay::Overlay, run::Took,
        serial::Sequential,
    },
    model::{Error, GasRoom, GasUse, Outcome, Stage, observe},
};

/// Maximum number of incomplete transactions that are settled serially; more, if they are also a quarter of the block,
/// go to Block-STM with all that follows them.
pub(super) const MAX_SETTLED: usize = 32;

impl BlockSession<'_> {
    /// Runs another batch serially on stock revm, transfers by `path` if that is given. Returns the position from which
    /// on order and outcomes are new.
    ///
    /// # Errors
    /// The store is corrupt or the EVM fails.
    pub(crate) fn extend_serial(
        &mut self,
        ctx: &ExecContext<'_>,
        path: Option<&FastPath>,
        txs: Vec<u32>,
    ) -> Result<usize, Error> {
        self.left.clear();
        if self.since < self.order.len() {
            self.fold(ctx)?;
        }
        let from = self.order.len();
        observe(ctx.observer, Stage::Execute, || self.run_serial(ctx, path, txs))?;
        Ok(from)
    }

    /// Runs transactions serially behind those of the DAG.
    pub(super) fn run_tail(
        &mut self,
        ctx: &ExecContext<'_>,
        path: Option<&FastPath>,
        tail: Vec<u32>,
    ) -> Result<(), Error> {
        if !tail.is_empty() {
            self.fold(ctx)?;
            self.run_serial(ctx, path, tail)?;
        }
        Ok(())
    }

    /// Drops the values of the cells, and runs their transactions serially, `more` behind them.
    pub(super) fn run_again(
        &mut self,
        ctx: &ExecContext<'_>,
        path: Option<&FastPath>,
        more: Vec<u32>,
    ) -> Result<Followed, Error> {
        let from = self.since;
        let mut order = self.order.split_off(from);
        order.extend(more);
        self.outcomes.truncate(from);
        self.forget_cells();
        self.stats.fallback = true;
        self.run_serial(ctx, path, order)?;
        Ok(Followed::Done { from })
    }

    /// Runs transactions serially, without restriction, on a base state without cells.
    pub(super) fn run_serial(
        &mut self,
        ctx: &ExecContext<'_>,
        path: Option<&FastPath>,
        txs: Vec<u32>,
    ) -> Result<(), Error> {
        debug_assert!(self.keys.is_empty(), "the changes of cells would not be seen");
        let rules = ctx.gas_rules;
        let used = self.outcomes.iter().fold(GasUse::default(), |sum, outcome| sum.plus(rules.used(outcome)));
        let mut gas = match ctx.limits {
            Some(limits) => BlockGas::choosing(rules, limits.gas.minus(used)),
            None => BlockGas::new(rules, ctx.gas.map(|limit| GasRoom::new(limit).minus(used))),
        };
        let overlay = self.ground.get_or_insert_with(|| Overlay::new(self.state, ctx.rules()));
        let mut sequential = Sequential::new(overlay, ctx.cfg, ctx.env);
        self.order.reserve(txs.len());
        self.outcomes.reserve(txs.len());
        for tx in txs {
            let run = &ctx.txs[tx as usize];
            if ctx.stops() || !gas.admits(run) {
                if gas.has_ended() {
                    break;
                }
                self.left.push(Left { tx, why: Why::Unstarted });
                continue;
            }
            let outcome = match sequential.transfer(path, tx, run, ctx.record)? {
                // The log of a transfer is no deposit, so it is not refused.
                Some(outcome) => outcome,
                None => {
                    let (outcome, state) = sequential.run(self.order.len(), run)?;
                    match outcome.result().and_then(|result| ctx.refuses(result)) {
                        Some(reason) => Outcome::Skipped(reason),
                        None => {
                            if let Some(record) = ctx.record {
                                record.put(tx, Footprint::paid(&state, sequential.overlay().rules()));
                            }
                            sequential.overlay().commit(&state);
                            outcome
                        }
                    }
                }
            };
            gas.follow(&outcome);
            self.order.push(tx);
            self.outcomes.push(outcome);
        }
        // They ran serially.
        self.stats.critical_path += self.order.len() - self.since;
        self.since = self.order.len();
        Ok(())
    }

    /// Settles a given order's wave with escapes: keeps what is right, and runs the rest again.
    pub(super) fn settle(
        &mut self,
        ctx: &ExecContext<'_>,
        order: Vec<u32>,
        shared: &Shared,
        wave: impl Iterator<Item = Option<Settled>>,
        escapes: usize,
    ) -> Result<(), Error> {
        let overlay = self.ground.get_or_insert_with(|| Overlay::new(self.state, ctx.rules()));
        let mut gas = ctx.block_gas();
        let mut settlement = Settlement::new(ctx, &order, shared);
        let outcomes = settlement.settle(overlay, &mut gas, wave)?;
        self.stats.reexecutions += settlement.reexecutions + escapes;
        self.outcomes.extend(outcomes);
        self.order.extend(order);
        Ok(())
    }

    /// Keeps what a given order's wave completed before its first escape, and hands over the rest.
    pub(super) fn settle_prefix(
        &mut self,
        ctx: &ExecContext<'_>,
        order: Vec<u32>,
        shared: &Shared,
        wave: impl Iterator<Item = Option<Settled>>,
        escapes: usize,
    ) -> Result<HandOver, Error> {
        let overlay = self.ground.get_or_insert_with(|| Overlay::new(self.state, ctx.rules()));
        let mut gas = ctx.block_gas();
        let mut ran = 0;
        let mut wave = wave.inspect(|settled| ran += usize::from(settled.is_some()));
        let prefix: Vec<_> = wave.by_ref().map_while(|settled| settled.map(Some)).collect();
        let outcomes = Settlement::new(ctx, &order, shared).settle(overlay, &mut gas, prefix)?;
        wave.for_each(drop);
        let settled = outcomes.len();
        self.outcomes.extend(outcomes);
        Ok(HandOver { order, settled, tail: Vec::new(), gas, executions: ran + escapes })
    }

    /// Executes what was handed over: `execute` returns outcomes and what they took, and leaves the changes in the overlay.
    ///
    /// # Errors
    /// The store is corrupt or the EVM fails.
    pub(crate) fn take_over(
        &mut self,
        ctx: &ExecContext<'_>,
        rest: HandOver,
        execute: impl FnOnce(&[u32], BlockGas, &mut Overlay<'_>) -> Result<(Vec<Outcome>, Took), Error>,
    ) -> Result<(), Error> {
        let HandOver { order, settled, tail, gas, executions } = rest;
        observe(ctx.observer, Stage::Execute, || {
            let overlay = self.ground.get_or_insert_with(|| Overlay::new(self.state, ctx.rules()));
            let rest = if gas.has_ended() { &[] } else { &order[settled..] };
            let (outcomes, took) = execute(rest, gas, overlay)?;
            self.outcomes.extend(outcomes);
            self.stats.fallback = true;
            self.stats.reexecutions += (executions + took.executions).saturating_sub(order.len());
            self.stats.parked += took.parked;
            self.stats.waits += took.waits;
            self.order.extend(order);
            self.since = self.order.len();
            self.run_tail(ctx, None, tail)
        })
    }
}
