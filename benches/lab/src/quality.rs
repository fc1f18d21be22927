//! Quality of predictions by source: coverage, extra keys, and cost beside simulation. The libraries have no clock, so the
//! cost is measured here.

use phalanx::{
    State,
    access::{Access, AccessSets},
    paralyze::{Batch, Layers, ParaLyze, Source, StateKey},
    revm::{
        context::{BlockEnv, TxEnv},
        primitives::map::HashMap,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt::Write as _, time::Instant};

/// Repetitions of each cost, of which the minimum counts.
const REPEATS: usize = 5;

/// Line of the ERC20 rule's transactions, predicted by templates.
const LEARNED: &str = "(learned)";

/// Quality over all blocks.
#[derive(Debug, Default)]
pub struct Quality {
    sources: BTreeMap<Source, Tally>,
    /// Transactions of the ERC20 rule, predicted by templates with the rule switched off.
    learned: Tally,
    blocks: usize,
}

/// Counts of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tally {
    /// Transactions.
    txs: usize,
    /// Transactions whose prediction covers the true set.
    covered: usize,
    /// Covered transactions without extra keys.
    exact: usize,
    /// Predicted keys that are not touched.
    extra_keys: usize,
    /// Transactions that touch a key outside their prediction: they escape.
    escapes: usize,
    /// Sum of their gas limits.
    gas_limit: u64,
    /// Time to predict them all, in ns.
    ns: f64,
    /// Time to predict them all by simulation, in ns.
    simulated_ns: f64,
}

/// Counts of one source of predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Source of the predictions.
    source: String,
    #[serde(flatten)]
    tally: Tally,
}

/// Quality of predictions, in results.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Qualities {
    /// Counts by source.
    quality: Vec<Line>,
    /// Blocks that were predicted.
    blocks: usize,
}

impl Quality {
    /// Predicts the transactions of a block and compares with `truth`, their sets in a sequential run. As in a builder, dry
    /// runs are not limited.
    pub fn add(
        &mut self,
        paralyze: &mut ParaLyze,
        state: &State,
        env: &BlockEnv,
        txs: &[TxEnv],
        truth: &AccessSets<StateKey>,
    ) {
        let all: Vec<&TxEnv> = txs.iter().collect();
        let mut batch = Batch::new();
        paralyze.use_layers(Layers::All);
        paralyze.analyse(state, env, &all, &mut batch);
        self.blocks += 1;
        let mut members: BTreeMap<Source, Vec<usize>> = BTreeMap::new();
        for (index, truth) in truth.iter().enumerate() {
            let source = batch.source(index);
            members.entry(source).or_default().push(index);
            self.sources.entry(source).or_default().compare(batch.sets().get(index), truth, all[index]);
        }
        for (source, places) in members {
            let txs: Vec<&TxEnv> = places.iter().map(|place| all[*place]).collect();
            let tally = self.sources.entry(source).or_default();
            let simulated = cost(paralyze, Layers::Simulation, state, env, &txs);
            tally.simulated_ns += simulated;
            tally.ns += match source {
                Source::Simulated | Source::Unknown => simulated,
                _ => cost(paralyze, Layers::All, state, env, &txs),
            };
            if source == Source::Erc20 {
                self.learned.simulated_ns += simulated;
                self.learned.ns += cost(paralyze, Layers::WithoutStandards, state, env, &txs);
                batch.clear();
                paralyze.analyse(state, env, &txs, &mut batch);
                for (index, place) in places.into_iter().enumerate() {
                    self.learned.compare(batch.sets().get(index), truth.get(place), txs[index]);
                }
            }
        }
        paralyze.use_layers(Layers::All);
    }

    /// Lines as a table.
    pub fn text(&self) -> String {
        format!("\nprediction over {} blocks\n{}", self.blocks, table(&self.lines()))
    }

    /// Lines by source.
    pub fn lines(&self) -> Vec<Line> {
        let line = |(source, tally): (&Source, &Tally)| Line { source: name(*source).into(), tally: tally.clone() };
        let mut lines: Vec<Line> = self.sources.iter().map(line).collect();
        if self.learned.txs > 0 {
            lines.push(Line { source: LEARNED.into(), tally: self.learned.clone() });
        }
        lines
    }

    /// Lines for programs.
    pub fn written(&self) -> Qualities {
        Qualities { quality: self.lines(), blocks: self.blocks }
    }
}

impl Tally {
    fn compare(&mut self, predicted: &[(StateKey, Access)], truth: &[(StateKey, Access)], tx: &TxEnv) {
        let held: HashMap<StateKey, Access> = predicted.iter().copied().collect();
        let covered = truth.iter().all(|(key, access)| held.get(key).is_some_and(|held| held.covers(*access)));
        let touched = truth.iter().filter(|(key, _)| held.contains_key(key)).count();
        let extra = predicted.len() - touched;
        self.txs += 1;
        self.gas_limit += tx.gas_limit;
        self.extra_keys += extra;
        self.covered += usize::from(covered);
        self.exact += usize::from(covered && extra == 0);
        self.escapes += usize::from(!covered);
    }
}

/// Table with a row per source.
pub(crate) fn table(lines: &[Line]) -> String {
    let mut text = format!(
        "{:10} {:>7} {:>6} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>7}\n",
        "source", "txs", "gas %", "covered", "exact", "escapes", "extra/tx", "ns/tx", "sim. ns", "ratio"
    );
    let gas: u64 = lines.iter().filter(|line| line.source != LEARNED).map(|line| line.tally.gas_limit).sum();
    for Line { source, tally } in lines {
        let per_tx = |total: f64| total / tally.txs.max(1) as f64;
        _ = writeln!(
            text,
            "{:10} {:>7} {:>6.1} {:>8} {:>8} {:>8} {:>9.2} {:>9.0} {:>9.0} {:>7.1}",
            source,
            tally.txs,
            100.0 * tally.gas_limit as f64 / gas.max(1) as f64,
            tally.covered,
            tally.exact,
            tally.escapes,
            per_tx(tally.extra_keys as f64),
            per_tx(tally.ns),
            per_tx(tally.simulated_ns),
            tally.simulated_ns / tally.ns.max(1.0),
        );
    }
    if lines.iter().any(|line| line.source == LEARNED) {
        text.push_str("(learned): the erc20 line again, predicted by templates with its rule switched off\n");
    }
    text
}

/// Nanoseconds to predict `txs` once templates are learned.
fn cost(paralyze: &mut ParaLyze, layers: Layers, state: &State, env: &BlockEnv, txs: &[&TxEnv]) -> f64 {
    paralyze.use_layers(layers);
    let mut batches = Vec::new();
    let mut least = f64::INFINITY;
    for _ in 0..REPEATS {
        let start = Instant::now();
        paralyze.analyse_batches(state, env, txs, None, &mut batches);
        least = least.min(start.elapsed().as_nanos() as f64);
    }
    least
}

const fn name(source: Source) -> &'static str {
    match source {
        Source::Native => "native",
        Source::Declared => "declared",
        Source::Erc20 => "erc20",
        Source::Template => "template",
        Source::Simulated => "simulated",
        Source::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::revm::primitives::{Address, U256};

    #[test]
    fn sets_are_compared_key_by_key() {
        let slot = |n: u64| StateKey::Slot(Address::ZERO, U256::from(n));
        let tx = TxEnv { gas_limit: 7, ..TxEnv::default() };
        let truth = [(slot(1), Access::Write), (slot(2), Access::Read)];
        let mut tally = Tally::default();
        tally.compare(&truth, &truth, &tx);
        tally.compare(&[(slot(1), Access::Write), (slot(2), Access::Write), (slot(3), Access::Read)], &truth, &tx);
        tally.compare(&[(slot(1), Access::Read), (slot(2), Access::Read)], &truth, &tx);
        tally.compare(&[(slot(4), Access::Read)], &truth, &tx);
        assert_eq!((tally.txs, tally.covered, tally.exact, tally.escapes, tally.extra_keys), (4, 2, 1, 2, 2));
        assert_eq!(tally.gas_limit, 28);
    }
}
