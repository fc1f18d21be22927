//! Batches: choose what fits, predict, execute, requeue what escaped.

use super::{BuildJob, context};
use crate::{
    builder::{Budget, Reason, Target, budget::GasCounts, peek::Peek},
    exec::{
        context::BuildLimits,
        session::{Left, Why},
    },
    model::{Error, Executor, Order, Outcome, Stage, observe},
    plan::{
        Block,
        intern::{WAVE, intern},
        requeue::{MAX_ESCAPES, TAUGHT_SHARE},
    },
};
use phalanx_access::AccessSets;
use phalanx_paralyze::{ChainRules, Preimages, Source, StateKey};
use revm::{context::TxEnv, context_interface::result::InvalidTransaction};

/// Minimum size of a batch: smaller ones do not pay for their graph.
pub(super) const MIN_BATCH: usize = 256;

/// Maximum size of a batch: larger ones gain nothing, and smaller ones end sooner.
const MAX_BATCH: usize = 8192;

impl BuildJob<'_> {
    /// Assembles the next batch, in order: as many candidates as have room at any place in the batch. Candidates
    /// without room in the rest of the block are dropped.
    pub(super) fn cut(&mut self, forced: bool) -> Vec<u32> {
        let limits = if forced { self.rules } else { self.budget };
        let room = limits.minus(self.used);
        let most = self.session.order().len().clamp(MIN_BATCH, MAX_BATCH);
        let mut batch = Vec::new();
        let mut reserved = Budget::NOTHING;
        while batch.len() < most {
            let Some(index) = self.next(forced) else { break };
            let need = Budget::of(self.gas_rules, &*self.intake.candidates()[index as usize].tx);
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
        self.requeue.waiting.front().copied().or_else(|| self.intake.peek())
    }

    fn pop(&mut self, forced: bool) {
        if forced {
            self.forced.pop_front();
        } else if self.requeue.waiting.pop_front().is_none() {
            self.intake.pop();
        }
    }

    /// Executes a batch.
    pub(super) fn run(&mut self, batch: Vec<u32>, forced: bool, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
        let is_serial = forced || self.resources.executor == Executor::Sequential;
        let before = self.session.order().len();
        let block = if is_serial {
            Block::unpredicted(batch)
        } else {
            observe(self.resources.observer, Stage::Analyse, || self.predicted(batch))
        };
        let Self { resources, dag, session, intake, env, rules, budget, target, record, .. } = self;
        let resources = *resources;
        if let Some(record) = record {
            record.extend(&block.order);
        }
        let gas = if forced { rules.room() } else { budget.room() };
        let chain = matches!(target, Target::Whole(_)).then_some(resources.chain);
        let limits = Some(BuildLimits { gas, stop, chain });
        let ctx = context(resources, env, intake.candidates(), limits, record.as_ref());
        let from = if is_serial {
            // A sequential executor means stock revm, without a fast path.
            let path = if resources.executor == Executor::Sequential { None } else { dag.fast_path() };
            session.extend_serial(&ctx, path, block.order)?
        } else {
            let (from, handed_over) = session.extend(dag, &ctx, block)?;
            debug_assert!(handed_over.is_none(), "only a given order is handed over");
            from
        };
        self.count(before, from);
        self.requeue_left(forced);
        Ok(())
    }

    /// The batch with its predictions, by the ids of the open block's keys and new ones.
    fn predicted(&mut self, mut order: Vec<u32>) -> Block {
        let known = self.session.keys().len();
        if known == 0 {
            // The cells were folded into the base state.
            self.interner.clear();
            // The session needs cells of them, and takes its ids from here.
            for to in self.resources.cfg.rules().map(ChainRules::recipients).unwrap_or_default() {
                self.interner.intern(&StateKey::Basic(to));
            }
        }
        let intake = &self.intake;
        let serial_tail = self.requeue.defer_to_serial(&mut order, |index| intake.tx(index).caller);
        let (mut sets, mut preimages) = (AccessSets::new(), Preimages::new());
        let Self { requeue, intake, interner, .. } = self;
        let prediction = |index: &u32| {
            let again = requeue.escaped.get(index).map(|escaped| &escaped.prediction);
            again.filter(|batch| !batch.is_empty()).map(|batch| (batch, 0)).or_else(|| intake.prediction(*index))
        };
        // As a planner does: framing has shuffled the order.
        for wave in order[..order.len() - serial_tail].chunks(WAVE) {
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
        let (sets, keys, preimages) = (sets.into(), keys.into(), preimages.into());
        Block { sets, keys, preimages, serial_tail, ordering: Order::Free, ..Block::unpredicted(order) }
    }

    /// Removes invalid transactions, and updates the use of the budget. The block held `before` transactions; the new
    /// ones start at `from`.
    fn count(&mut self, before: usize, from: usize) {
        let Self { session, dropped, intake, requeue, behind, used, dry_gas, budget, gas_counts, gas_rules, .. } = self;
        session.drop_skipped(from, |index, outcome| {
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
        for (index, outcome) in session.order()[from..].iter().zip(&session.outcomes()[from..]) {
            let tx = &*intake.candidates()[*index as usize].tx;
            let gas = match gas_counts {
                GasCounts::Used => gas_rules.used(outcome),
                GasCounts::Limit => gas_rules.most(tx.env()),
            };
            *used = used.plus(Budget::with_gas(gas, tx));
            let again = requeue.escaped.remove(index).is_some_and(|escaped| !escaped.prediction.is_empty());
            if again || intake.source(*index) == Some(Source::Simulated) {
                // What stays pays for its dry run.
                *dry_gas = dry_gas.saturating_add(tx.env().gas_limit).min(budget.gas);
            }
        }
    }

    /// Requeues the transactions that left the batch; escaped ones with their access sets on the newer state.
    fn requeue_left(&mut self, forced: bool) {
        let Self { resources, session, intake, requeue, paralyze, interner, env, dry_gas, budget, .. } = self;
        let left: Vec<Left> = session.left().to_vec();
        let queue = if forced { &mut self.forced } else { &mut requeue.waiting };
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
                let record = requeue.note_escape(tx);
                if why != Why::Escaped || record.escapes >= MAX_ESCAPES {
                    continue;
                }
                match dry_gas.checked_sub(intake.tx(tx).gas_limit) {
                    Some(rest) => {
                        *dry_gas = rest;
                        escaped.push(tx);
                    }
                    // It needs no prediction in the serial tail.
                    None => record.escapes = MAX_ESCAPES,
                }
            }
        }
        let (base, cells) = session.look();
        let peek = Peek { state: resources.state, ground: base, keys: interner, cells };
        let taught = budget.gas / TAUGHT_SHARE;
        let predict = || requeue.predict_again(paralyze, &peek, env, &escaped, taught, |index| intake.tx(index));
        observe(resources.observer, Stage::Analyse, || resources.workers.install(predict));
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
