//! What an open block runs in order: those who may touch anything, and a given order in which somebody escaped.

use super::{Left, Open, Why};
use crate::{
    Error, Outcome, Stage,
    admission::Admission,
    block_access_list::Footprint,
    dag::Machine,
    observer::observe,
    overlay::Overlay,
    sequential::Sequential,
    settle::{Settled, Settlement},
    stm::StmExecutor,
    transfer::FastPath,
    view::Shared,
};

/// So many transactions that did not complete are settled one after the other; more, if they are also a quarter of the
/// block, go to Block-STM with all that follows them.
pub(super) const MAX_SETTLED: usize = 32;

impl Open<'_> {
    /// Runs another batch in order on stock revm, transfers by `path` if that is given. Gives the position from which on
    /// order and outcomes are new.
    ///
    /// # Errors
    /// If the store is corrupt or the EVM fails.
    pub(crate) fn extend_in_order(
        &mut self,
        machine: &Machine<'_>,
        path: Option<&FastPath>,
        txs: Vec<u32>,
    ) -> Result<usize, Error> {
        self.left.clear();
        if self.since < self.order.len() {
            self.fold(machine)?;
        }
        let from = self.order.len();
        observe(machine.observer, Stage::Execute, || self.in_order(machine, path, txs))?;
        Ok(from)
    }

    /// Takes back what the cells hold, and runs those transactions in order, `more` behind them.
    pub(super) fn run_again(
        &mut self,
        machine: &Machine<'_>,
        path: Option<&FastPath>,
        more: Vec<u32>,
    ) -> Result<usize, Error> {
        let from = self.since;
        let mut order = self.order.split_off(from);
        order.extend(more);
        self.outcomes.truncate(from);
        self.forget_cells();
        self.stats.fallback = true;
        self.in_order(machine, path, order)?;
        Ok(from)
    }

    /// Runs transactions one after the other, free to touch anything, on a ground without cells.
    pub(super) fn in_order(
        &mut self,
        machine: &Machine<'_>,
        path: Option<&FastPath>,
        txs: Vec<u32>,
    ) -> Result<(), Error> {
        debug_assert!(self.keys.is_empty(), "the changes of cells would not be seen");
        let used = self.outcomes.iter().map(Outcome::gas_used).sum();
        let mut admission = match machine.making {
            Some(making) => Admission::choosing(making.gas.saturating_sub(used)),
            None => Admission::new(machine.gas.map(|gas| gas.saturating_sub(used))),
        };
        let overlay = self.ground.get_or_insert_with(|| Overlay::new(self.state, machine.rules()));
        let mut sequential = Sequential::new(overlay, machine.cfg, machine.env);
        self.order.reserve(txs.len());
        self.outcomes.reserve(txs.len());
        for tx in txs {
            let run = &machine.txs[tx as usize];
            if machine.stops() || !admission.admits(run) {
                if admission.has_ended() {
                    break;
                }
                self.left.push(Left { tx, why: Why::Unstarted });
                continue;
            }
            let outcome = match sequential.transfer(path, run)? {
                // Nobody has anything against one without logs.
                Some(outcome) => outcome,
                None => {
                    let (outcome, state) = sequential.run(self.order.len(), run)?;
                    match outcome.result().and_then(|result| machine.refuses(result)) {
                        Some(reason) => Outcome::Skipped(reason),
                        None => {
                            if let Some(record) = machine.record {
                                record.put(tx, Footprint::paid(&state, sequential.overlay().rules()));
                            }
                            sequential.overlay().commit(&state);
                            outcome
                        }
                    }
                }
            };
            admission.follow(&outcome);
            self.order.push(tx);
            self.outcomes.push(outcome);
        }
        // They ran one after the other.
        self.stats.critical_path += self.order.len() - self.since;
        self.since = self.order.len();
        Ok(())
    }

    /// Makes a given order's wave with escapes right. `rest`, if given, runs all that follows the first escape.
    pub(super) fn settle(
        &mut self,
        machine: &Machine<'_>,
        order: Vec<u32>,
        shared: &Shared,
        wave: impl Iterator<Item = Option<Settled>>,
        escapes: usize,
        rest: Option<&mut StmExecutor>,
    ) -> Result<(), Error> {
        let overlay = self.ground.get_or_insert_with(|| Overlay::new(self.state, machine.rules()));
        let mut admission = Admission::new(machine.gas);
        let mut settlement = Settlement::new(machine, &order, shared);
        match rest {
            None => {
                let outcomes = settlement.settle(overlay, &mut admission, wave)?;
                self.outcomes.extend(outcomes);
                self.stats.reexecutions += settlement.reexecutions + escapes;
            }
            Some(stm) => {
                let mut ran = 0;
                let mut wave = wave.inspect(|settled| ran += usize::from(settled.is_some()));
                let prefix: Vec<_> = wave.by_ref().map_while(|settled| settled.map(Some)).collect();
                let outcomes = settlement.settle(overlay, &mut admission, prefix)?;
                wave.for_each(drop);
                let rest = if admission.has_ended() { &[] } else { &order[outcomes.len()..] };
                self.outcomes.extend(outcomes);
                let (rest, executions) = stm.extend(machine, rest, admission, overlay, 1)?;
                self.outcomes.extend(rest);
                self.stats.fallback = true;
                self.stats.reexecutions += (ran + escapes + executions).saturating_sub(order.len());
            }
        }
        self.order.extend(order);
        Ok(())
    }
}
