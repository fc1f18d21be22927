//! Batches: choose what fits, predict, execute, requeue what escaped.

use super::BuildJob;
use crate::{
    Block, Error, Executor, Order, Outcome, SourceCounts, Stage,
    builder::{Budget, Reason, Target, budget::blob_gas, peek::Peek},
    dag::Making,
    intern::{WAVE, intern},
    observer::observe,
    open::{Left, Why},
};
use phalanx_access::AccessSets;
use phalanx_paralyze::{Batch, Preimages};
use rayon::prelude::*;
use revm::{context::TxEnv, context_interface::result::InvalidTransaction, primitives::map::AddressSet};

/// Minimum size of a batch: smaller ones do not pay for their graph.
const MIN_BATCH: usize = 256;

/// Maximum size of a batch: larger ones gain nothing, and smaller ones end sooner.
const MAX_BATCH: usize = 8192;

/// A transaction that left this many batches, by its own escape or a cascading abort, is deferred to serial, without
/// a prediction. This bounds how often a transaction can delay others.
const MAX_DEPARTURES: u8 = 2;

impl BuildJob<'_> {
    /// Assembles the next batch, in order: as many candidates as have room at any place in the batch. Candidates
    /// without room in the rest of the block are dropped.
    pub(super) fn cut(&mut self, forced: bool) -> Vec<u32> {
        let limits = if forced { self.rules } else { self.budget };
        let room = limits.minus(self.used);
        let most = self.open.order().len().clamp(MIN_BATCH, MAX_BATCH);
        let mut batch = Vec::new();
        let mut reserved = Budget::NOTHING;
        while batch.len() < most {
            let Some(index) = self.next(forced) else { break };
            let need = Budget::of(&*self.intake.candidates()[index as usize].tx);
            if let Some(reason) = room.lacks(need) {
                let TxEnv { caller, nonce, .. } = self.intake.tx(index);
                self.behind.insert(*caller, *nonce);
                self.pop(forced);
                self.dropped.push((index, reason));
                continue;
            }
            reserved = reserved.plus(need);
            if room.lacks(reserved).is_some() {
                // It may still fit when the gas that the others really used is known.
                break;
            }
            self.pop(forced);
            batch.push(index);
        }
        batch
    }

    fn next(&self, forced: bool) -> Option<u32> {
        if forced {
            return self.forced.front().copied();
        }
        self.returned.front().copied().or_else(|| self.intake.peek())
    }

    fn pop(&mut self, forced: bool) {
        if forced {
            self.forced.pop_front();
        } else if self.returned.pop_front().is_none() {
            self.intake.pop();
        }
    }

    /// Executes a batch.
    pub(super) fn run(&mut self, batch: Vec<u32>, forced: bool, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
        let in_order = forced || self.lent.executor == Executor::Sequential;
        let before = self.open.order().len();
        let block = if in_order {
            Block::unpredicted(batch)
        } else {
            observe(self.lent.observer, Stage::Analyse, || self.predicted(batch))
        };
        let Self { lent, dag, stm, open, intake, env, rules, budget, target, record, .. } = self;
        if let Some(record) = record {
            record.extend(&block.order);
        }
        let gas = if forced { rules.gas } else { budget.gas };
        let chain = matches!(target, Target::Whole(_)).then_some(lent.chain);
        let machine = lent.machine(env, intake.candidates(), Some(Making { gas, stop, chain }), record.as_ref());
        let from = if in_order {
            // A sequential executor means stock revm, without a fast path.
            let path = if lent.executor == Executor::Sequential { None } else { dag.fast_path(&machine) };
            open.extend_in_order(&machine, path, block.order)?
        } else {
            open.extend(dag, stm, &machine, block)?
        };
        self.count(before, from);
        self.take_back(forced);
        Ok(())
    }

    /// The batch with its predictions, by the ids of the open block's keys and new ones.
    fn predicted(&mut self, mut order: Vec<u32>) -> Block {
        let known = self.open.keys().len();
        if known == 0 {
            // The cells were folded into the base state.
            self.interner.clear();
        }
        let alone = self.move_loners_back(&mut order);
        let (mut sets, mut preimages) = (AccessSets::new(), Preimages::new());
        let Self { again, intake, interner, .. } = self;
        let prediction = |index: &u32| {
            let seen = again.get(index).map(|again| &again.seen).filter(|seen| !seen.is_empty());
            seen.map(|seen| (seen, 0)).or_else(|| intake.prediction(*index))
        };
        // As a planner does: framing has shuffled the order.
        for wave in order[..order.len() - alone].chunks(WAVE) {
            wave.iter().filter_map(prediction).for_each(|(batch, at)| batch.prefetch(at));
            let digests = wave.iter().filter_map(prediction).flat_map(|(batch, at)| batch.digests(at));
            digests.for_each(|(digest, _)| interner.prefetch(*digest));
            for predicted in wave.iter().map(prediction) {
                match predicted {
                    Some((batch, at)) => intern(interner, batch, at, &mut sets, &mut preimages),
                    None => {
                        sets.close();
                        preimages.close();
                    }
                }
            }
        }
        let keys = self.interner.keys()[known..].to_vec();
        let sources = SourceCounts::default();
        let (sets, keys, preimages) = (sets.into(), keys.into(), preimages.into());
        Block { order, sets, keys, preimages, graph: None, alone, ordering: Order::Free, frames: 0, sources }
    }

    /// Moves candidates that escaped too often to the end of the batch, with the later ones of their senders. Returns
    /// their number.
    fn move_loners_back(&self, order: &mut Vec<u32>) -> usize {
        if self.again.is_empty() {
            return 0;
        }
        let mut senders = AddressSet::default();
        let mut loners = Vec::new();
        order.retain(|index| {
            let caller = self.intake.tx(*index).caller;
            let loner = self.again.get(index).is_some_and(|again| again.departures >= MAX_DEPARTURES);
            let moves = loner || senders.contains(&caller);
            if moves {
                senders.insert(caller);
                loners.push(*index);
            }
            !moves
        });
        order.extend_from_slice(&loners);
        loners.len()
    }

    /// Removes invalid transactions, and updates the use of the budget. The block held `before` transactions; the new
    /// ones start at `from`.
    fn count(&mut self, before: usize, from: usize) {
        let Self { open, dropped, intake, again, behind, used, .. } = self;
        open.drop_skipped(from, |index, outcome| {
            if let Outcome::Skipped(reason) = outcome {
                let missing = behind.get(&intake.tx(index).caller).copied();
                dropped.push((index, cause(reason, missing)));
            }
        });
        // Only after a rollback of the block are transactions counted twice.
        let from = if from < before { 0 } else { from };
        if from == 0 {
            *used = Budget::NOTHING;
        }
        for (index, outcome) in open.order()[from..].iter().zip(&open.outcomes()[from..]) {
            let tx = &*intake.candidates()[*index as usize].tx;
            let held = Budget { gas: outcome.gas_used(), blob_gas: blob_gas(tx), bytes: tx.size(), txs: 1 };
            *used = used.plus(held);
            again.remove(index);
        }
    }

    /// Requeues the transactions that left the batch; escaped ones with their access sets on the newer state.
    fn take_back(&mut self, forced: bool) {
        let Self { lent, open, intake, again, returned, paralyze, interner, env, .. } = self;
        let left: Vec<Left> = open.left().to_vec();
        let queue = if forced { &mut self.forced } else { returned };
        for Left { tx, .. } in left.iter().rev() {
            queue.push_front(*tx);
        }
        if forced || left.is_empty() {
            return;
        }
        let stopped = left.iter().any(|left| left.why == Why::Unstarted);
        let mut escaped = Vec::new();
        for Left { tx, why } in left {
            if why == Why::Escaped || (why == Why::Withdrawn && !stopped) {
                let again = again.entry(tx).or_default();
                again.departures += 1;
                if why == Why::Escaped && again.departures < MAX_DEPARTURES {
                    escaped.push((tx, core::mem::take(&mut again.seen)));
                }
            }
        }
        let (ground, cells) = open.look();
        let peek = Peek { state: lent.state, ground, keys: interner, cells };
        observe(lent.observer, Stage::Analyse, || {
            lent.workers.install(|| {
                let simulating = &**paralyze;
                escaped.par_iter_mut().for_each(|(tx, seen): &mut (u32, Batch)| {
                    seen.clear();
                    simulating.simulate(&peek, env, intake.tx(*tx), seen);
                });
                // Some escaped because a template was wrong: later predictions improve.
                let truth: Vec<_> = escaped.iter().map(|(tx, seen)| (intake.tx(*tx), seen.sets().get(0))).collect();
                paralyze.learn(&peek, env, &truth);
            });
        });
        for (tx, seen) in escaped {
            if let Some(again) = again.get_mut(&tx) {
                again.seen = seen;
            }
        }
    }
}

/// Reason for which an invalid transaction is dropped; `missing` is the nonce of its sender that found no room.
fn cause(reason: InvalidTransaction, missing: Option<u64>) -> Reason {
    match (&reason, missing) {
        (InvalidTransaction::NonceTooHigh { tx, state }, Some(nonce)) if (*state..*tx).contains(&nonce) => {
            Reason::Behind { nonce }
        }
        _ => Reason::Invalid(reason),
    }
}
