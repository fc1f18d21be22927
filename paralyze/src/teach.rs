//! Learns templates: within a batch, from traced dry runs of transactions that no rule predicts; and afterwards, from the
//! accesses that transactions turned out to make.

use crate::{
    analyse::{BATCH_LEN, Chunk, ParaLyze, Pending},
    batch::Source,
    key::StateKey,
    snapshot::Snapshot,
    template::{Evaluator, Function, Predicted, Request, Trace, Tracing},
};
use phalanx_access::Access;
use rayon::prelude::*;
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::{
        TxKind,
        map::{B256Set, HashMap, HashSet},
    },
};

/// Rounds of traced dry runs over a batch. Round *n* traces up to 2^n of a function's transactions that earlier rounds left
/// without a prediction.
const ROUNDS: usize = 3;

/// Cost of a traced dry run, in executions (measured: 3 to 4).
const TRACE_COST: f64 = 4.0;

/// Maximum gas of a traced dry run. A call that needs more is not learned.
const MAX_TRACE_GAS: u64 = 8_000_000;

/// Maximum number of a function's calls that are traced because of one block's accesses.
const MAX_TRACED: usize = 4;

/// Maximum gas of all traced dry runs of a batch: this part of the batch's gas, or [`MIN_TRACE_GAS`] if that is more.
const MAX_TRACE_SHARE: u64 = 8;

/// Gas of traced dry runs that every batch may use.
const MIN_TRACE_GAS: u64 = 16_000_000;

/// Intrinsic gas of a transaction, paid before its execution begins.
const INTRINSIC: u64 = 21_000;

/// Work of a transfer, which runs nothing, in gas.
const TRANSFER: u64 = 3_000;

/// Part of a batch that may always be simulated for layouts, since these are known from then on.
const LAYOUT_SHARE: f64 = 1.0 / 16.0;

/// Returns a share of a total. An infinite share of zero is infinite: transactions without gas are analysed as well.
const fn share(max_share: f64, total: f64) -> f64 {
    if max_share.is_infinite() { f64::INFINITY } else { max_share * total }
}

impl ParaLyze {
    /// Learns from pending transactions as long as that pays, and predicts them again. Returns true if the dry runs of this
    /// batch cost at most `max_share` of its gas.
    pub(crate) fn teach<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        chunks: &mut [Chunk],
        max_share: f64,
        max_gas: u64,
    ) -> bool {
        let total = work_of(txs, chunks);
        let mut budget = MIN_TRACE_GAS.max(gas_of(txs) / MAX_TRACE_SHARE).min(max_gas / MAX_TRACE_SHARE);
        let mut spent = 0.0;
        for round in 0..ROUNDS {
            let mut lesson = self.lesson(txs, chunks, round);
            if spent * TRACE_COST + lesson.least_gas > share(max_share, total) {
                self.note(chunks);
                return false;
            }
            lesson.traced.retain(|(_, tx)| {
                let gas = tx.gas_limit.min(MAX_TRACE_GAS);
                let fits = gas <= budget;
                budget -= if fits { gas } else { 0 };
                fits
            });
            if lesson.traced.is_empty() {
                break;
            }
            spent += lesson.traced.iter().map(|(_, tx)| work(tx)).sum::<f64>();
            self.trace_all(snapshot, env, &lesson.traced);
            self.predict_pending(snapshot, env, txs, chunks);
        }
        self.note(chunks);
        let pending = chunks
            .iter()
            .zip(txs.chunks(BATCH_LEN))
            .flat_map(|(chunk, txs)| chunk.pending.iter().map(|(index, _)| txs[*index]));
        spent * TRACE_COST + pending.map(work).sum::<f64>() <= share(max_share, total)
    }

    /// Returns true if dry runs must cost more than `max_share` of the gas, however much is learned.
    pub(crate) fn is_hopeless(&self, txs: &[&TxEnv], chunks: &[Chunk], max_share: f64) -> bool {
        let (lesson, total) = (self.lesson(txs, chunks, 0), work_of(txs, chunks));
        let affordable = share(max_share, total);
        lesson.least_gas > affordable || lesson.layouts > affordable.max(total * LAYOUT_SHARE)
    }

    /// Chooses the transactions to trace in a round.
    fn lesson<'t>(&self, txs: &[&'t TxEnv], chunks: &[Chunk], round: usize) -> Lesson<'t> {
        let mut groups: HashMap<Function, Vec<&'t TxEnv>> = HashMap::default();
        let (mut order, mut codes) = (Vec::new(), B256Set::default());
        let mut lesson = Lesson::default();
        for (chunk, txs) in chunks.iter().zip(txs.chunks(BATCH_LEN)) {
            for (index, why) in &chunk.pending {
                let tx = txs[*index];
                match why {
                    _ if chunk.is_doubtful(*index) => lesson.least_gas += work(tx),
                    Pending::Template(function) => {
                        let group = groups.entry(*function).or_default();
                        if group.is_empty() {
                            order.push(*function);
                        }
                        group.push(tx);
                    }
                    // Each code takes one simulation, or a few.
                    Pending::Layout(code) if codes.insert(*code) => lesson.layouts += work(tx),
                    Pending::Layout(_) => {}
                    Pending::Simulation => lesson.least_gas += work(tx),
                }
            }
        }
        for function in order {
            let group = &groups[&function];
            if self.templates.is_worth_a_trace(&function, group.len()) {
                lesson.traced.extend(group.iter().take(1 << round).map(|tx| (function, *tx)));
                lesson.least_gas += work(group[0]) * TRACE_COST.min(group.len() as f64);
            } else {
                lesson.least_gas += group.iter().map(|tx| work(tx)).sum::<f64>();
            }
        }
        lesson
    }

    /// Notes the functions that had no template.
    fn note(&mut self, chunks: &[Chunk]) {
        for (_, why) in chunks.iter().flat_map(|chunk| &chunk.pending) {
            if let Pending::Template(function) = why {
                self.templates.note(*function);
            }
        }
    }

    /// Traces dry runs, in parallel, and learns from them, in order.
    fn trace_all<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, txs: &[(Function, &TxEnv)]) {
        let cfg = &self.cfg;
        let trace = |tracing: &mut Tracing<'_, S>, tx: &TxEnv| {
            if tx.gas_limit <= MAX_TRACE_GAS {
                return tracing.trace(tx);
            }
            tracing.trace(&TxEnv { gas_limit: MAX_TRACE_GAS, ..tx.clone() })
        };
        let traces: Vec<Option<Trace>> = txs
            .par_iter()
            .map_init(|| Tracing::new(snapshot, cfg, env), |tracing, (_, tx)| trace(tracing, tx))
            .collect();
        for ((function, tx), trace) in txs.iter().zip(traces) {
            match trace {
                Some(trace) => self.learn_trace(snapshot, env, *function, tx, trace),
                None => self.templates.barren(*function),
            }
        }
    }

    /// Learns from a traced dry run, and judges the function's template by it.
    fn learn_trace<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, function: Function, tx: &TxEnv, trace: Trace) {
        for (code, to) in trace.delegations {
            self.templates.delegates(code, to);
        }
        for (inner, path) in &trace.paths {
            self.templates.learn(*inner, path);
        }
        match self.evaluate(snapshot, env, tx) {
            Some(set) => {
                let right = covers(&set, trace.set.as_slice());
                self.templates.judge(&function, right);
                if right {
                    self.templates.fruitful(&function);
                }
            }
            None => self.templates.barren(function),
        }
    }

    /// Predicts one transaction by templates.
    fn evaluate<S: Snapshot>(&self, snapshot: &S, env: &BlockEnv, tx: &TxEnv) -> Option<Vec<(StateKey, Access)>> {
        let TxKind::Call(to) = tx.kind else { return None };
        let (delegate, function) = self.function(snapshot, tx, snapshot.code_hash(&to)?);
        let request = Request { tx, to, delegate, template: self.templates.trusted(&function)? };
        let mut predicted = Predicted::default();
        Evaluator::new(&self.templates, snapshot, env, &mut predicted).predict(&[request], &mut predicted);
        let range = predicted.spans.pop()??.set;
        Some(predicted.sets[range].to_vec())
    }

    /// Learns from the accesses that transactions made on states like `snapshot`. A function whose template predicts otherwise
    /// is traced again, and trusted less. A function without a template is traced for the first time.
    ///
    /// Costs one evaluation per transaction, and one traced dry run per transaction that teaches something. Runs in the current
    /// rayon pool; the result does not depend on threads.
    pub fn learn<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, truth: &[(&TxEnv, &[(StateKey, Access)])]) {
        self.learn_within(snapshot, env, truth, u64::MAX);
    }

    /// Learns like [`Self::learn`], from traced dry runs of at most `max_gas`, by gas limits.
    pub fn learn_within<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        truth: &[(&TxEnv, &[(StateKey, Access)])],
        max_gas: u64,
    ) {
        let mut left = max_gas;
        let mut traced: Vec<(Function, &TxEnv)> = Vec::new();
        let mut times: HashMap<Function, usize> = HashMap::default();
        for (tx, touched) in truth {
            let TxKind::Call(to) = tx.kind else { continue };
            let Some(code) = snapshot.code_hash(&to).filter(|_| tx.authorization_list.is_empty()) else { continue };
            let (_, function) = self.function(snapshot, tx, code);
            let exact = match self.evaluate(snapshot, env, tx) {
                Some(set) => {
                    let right = covers(&set, touched);
                    self.templates.judge(&function, right);
                    // A prediction of too much costs no escape, but parallelism.
                    right && is_within(&set, touched)
                }
                None => false,
            };
            let times = times.entry(function).or_default();
            let rest = left.checked_sub(tx.gas_limit.min(MAX_TRACE_GAS));
            if let Some(rest) = rest
                && !exact
                && *times < MAX_TRACED
                && self.templates.is_worth_a_trace(&function, 2)
            {
                left = rest;
                *times += 1;
                traced.push((function, tx));
            }
        }
        self.trace_all(snapshot, env, &traced);
    }
}

/// Transactions to trace in a round, and their cost.
#[derive(Default)]
struct Lesson<'t> {
    traced: Vec<(Function, &'t TxEnv)>,
    /// Minimum cost of predicting the batch, in gas of one execution, without layouts.
    least_gas: f64,
    /// Cost of learning the unknown layouts.
    layouts: f64,
}

/// Sum of the transactions' gas limits.
fn gas_of(txs: &[&TxEnv]) -> u64 {
    txs.iter().fold(0, |gas: u64, tx| gas.saturating_add(tx.gas_limit))
}

/// Approximate work of executing a transaction, in gas.
const fn work(tx: &TxEnv) -> f64 {
    (tx.gas_limit.saturating_sub(INTRINSIC) + TRANSFER) as f64
}

/// Approximate work of executing transactions, in gas. A transfer's limit does not count: it uses its intrinsic gas alone.
fn work_of(txs: &[&TxEnv], chunks: &[Chunk]) -> f64 {
    let of_chunk = |(chunk, txs): (&Chunk, &[&TxEnv])| -> f64 {
        let is_transfer = |index: usize| chunk.batch.source(index) == Source::Native;
        txs.iter().enumerate().map(|(index, tx)| if is_transfer(index) { TRANSFER as f64 } else { work(tx) }).sum()
    };
    chunks.iter().zip(txs.chunks(BATCH_LEN)).map(of_chunk).sum()
}

/// Returns true if a prediction, in which a key may come more than once, permits all accesses.
fn covers(predicted: &[(StateKey, Access)], truth: &[(StateKey, Access)]) -> bool {
    let mut joined: HashMap<StateKey, Access> = HashMap::default();
    for (key, access) in predicted {
        joined.entry(*key).and_modify(|held| *held = held.join(*access)).or_insert(*access);
    }
    truth.iter().all(|(key, access)| joined.get(key).is_some_and(|held| held.covers(*access)))
}

/// Returns true if a prediction names touched keys only.
fn is_within(predicted: &[(StateKey, Access)], truth: &[(StateKey, Access)]) -> bool {
    let touched: HashSet<StateKey> = truth.iter().map(|(key, _)| *key).collect();
    predicted.iter().all(|(key, _)| touched.contains(key))
}
