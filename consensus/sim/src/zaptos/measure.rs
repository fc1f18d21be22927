//! Computes the figures of a report from the marks of blocks.

use super::{BATCH_US, Experiment};
use crate::{
    machine::{Batch, Machine},
    marks::{BlockMarks, Span},
    node::{Done, Node},
    world::World,
};
use core::ops::Range;
use phalanx_engine_api::BlockId;
use phalanx_pipeline::Mode;
use std::collections::BTreeMap;

/// Number of submission times that stand for all transactions of a batch.
const SAMPLES: u64 = 8;

/// Quantiles of the latency, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// A quarter.
    pub p25: u64,
    /// Half.
    pub p50: u64,
    /// Three quarters.
    pub p75: u64,
    /// All but one in a hundred.
    pub p99: u64,
}

/// Contribution of a stage to the latency, in µs on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name of the stage.
    pub name: &'static str,
    /// Time that the block waited before the stage began.
    pub wait_us: u64,
    /// Time that the stage worked.
    pub work_us: u64,
}

/// Result of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Schedule of the stages.
    pub mode: Mode,
    /// Committed transactions per second of the measured time.
    pub tps: f64,
    /// Latency from a client's submission to its confirmation.
    pub latency: Quantiles,
    /// Latency from a validator's input to its order, on average, in µs: dissemination and ordering.
    pub consensus_us: u64,
    /// Latency outside of ordering, on average, in µs: the stages that the order does not shadow.
    pub rest_us: u64,
    /// Stage by stage.
    pub stages: Vec<Stage>,
    /// Share of execution, roots, staging, certification and flip that lies between proposal and order.
    pub shadowed: f64,
    /// Share of the executors' time that went into blocks that lost.
    pub wasted: f64,
    /// Number of messages between validators, per block.
    pub messages_per_block: f64,
    /// Hash of all events.
    pub trace: u64,
}

/// A batch in flight: its origin, number of transactions, and times.
struct Journey<'a> {
    made: u64,
    txs: u64,
    /// Latency from its author to the leader.
    distance: u64,
    validator: &'a BlockMarks,
    fullnode: &'a BlockMarks,
}

pub(super) fn report<M: Machine>(
    experiment: &Experiment,
    mode: Mode,
    world: &World<M>,
    window: Range<u64>,
) -> Option<Report> {
    let setup = &world.shared.setup;
    let n = setup.bft.n;
    let (validators, fullnodes) = world.nodes.split_at(n as usize);
    let by_id: Vec<BTreeMap<BlockId, &Done>> =
        validators.iter().map(|node| node.done.iter().map(|done| (done.meta.id, done)).collect()).collect();
    let machine = &world.nodes.first()?.machine;
    let mut journeys = Vec::new();
    for fullnode in fullnodes {
        let upstream = fullnode.upstream?;
        for done in &fullnode.done {
            let Some(there) = by_id.get(upstream as usize).and_then(|done_by| done_by.get(&done.meta.id)) else {
                continue;
            };
            for tx in done.executed() {
                if let Some((made, distance)) = origin(experiment, upstream, machine.batch_of(tx), &there.marks, n)
                    && window.contains(&made)
                {
                    let (validator, fullnode) = (&there.marks, &done.marks);
                    journeys.push(Journey { made, txs: machine.weight(tx), distance, validator, fullnode });
                }
            }
        }
    }
    let reference = validators.iter().find(|node| setup.behaviour(node.index) == crate::setup::Behaviour::Honest)?;
    let committed: Vec<&Done> = reference.done.iter().filter(|done| window.contains(&done.marks.committed)).collect();
    let txs: u64 = committed.iter().flat_map(|done| done.executed()).map(|tx| machine.weight(tx)).sum();
    let blocks = world.ledger().height().max(1);
    Some(Report {
        mode,
        tps: txs as f64 * 1e6 / (window.end - window.start) as f64,
        latency: quantiles(experiment, &journeys)?,
        consensus_us: mean(&journeys, |j| queue(experiment) + j.validator.ordered.saturating_sub(j.made)),
        rest_us: mean(&journeys, |j| j.fullnode.committed.saturating_sub(j.validator.ordered)),
        stages: stages(experiment, mode, &journeys),
        shadowed: shadowed(&journeys),
        wasted: wasted(&world.nodes),
        messages_per_block: world.traffic().0 as f64 / blocks as f64,
        trace: world.trace(),
    })
}

/// Time at which a validator had the transaction, and its latency to the leader. Only batches of its own clients are
/// measured.
fn origin(experiment: &Experiment, at: u32, batch: Option<Batch>, marks: &BlockMarks, n: u32) -> Option<(u64, u64)> {
    if experiment.ideal {
        let distance = experiment.topology.between(at, 0);
        return Some((marks.made.checked_sub(distance)?, distance));
    }
    let batch = batch.filter(|batch| batch.author == at)?;
    let made = BATCH_US * u64::from(at) / u64::from(n) + batch.number * BATCH_US;
    Some((made, marks.distance))
}

/// Mean wait for a batch, in µs.
const fn queue(experiment: &Experiment) -> u64 {
    if experiment.ideal { 0 } else { BATCH_US / 2 }
}

/// Latencies of single transactions. Clients send at any moment, so the waits within a batch are uniform up to an
/// interval.
fn quantiles(experiment: &Experiment, journeys: &[Journey<'_>]) -> Option<Quantiles> {
    let travel = 2 * experiment.topology.client() + experiment.topology.fullnode();
    let mut latencies: Vec<(u64, u64)> = journeys
        .iter()
        .flat_map(|j| {
            let base = j.fullnode.committed.saturating_sub(j.made) + travel;
            (0..SAMPLES).map(move |i| (base + queue(experiment) * 2 * (2 * i + 1) / (2 * SAMPLES), j.txs))
        })
        .collect();
    latencies.sort_unstable();
    let total: u64 = latencies.iter().map(|(_, txs)| txs).sum();
    let at = |percent: u64| {
        let mut left = total * percent / 100;
        latencies.iter().find(|(_, txs)| {
            let found = left < *txs;
            left = left.saturating_sub(*txs);
            found
        })
    };
    Some(Quantiles { p25: at(25)?.0, p50: at(50)?.0, p75: at(75)?.0, p99: at(99)?.0 })
}

/// Mean over transactions.
fn mean(journeys: &[Journey<'_>], value: impl Fn(&Journey<'_>) -> u64) -> u64 {
    let total: u128 = journeys.iter().map(|j| u128::from(j.txs)).sum();
    let sum: u128 = journeys.iter().map(|j| u128::from(value(j)) * u128::from(j.txs)).sum();
    u64::try_from(sum / total.max(1)).unwrap_or(u64::MAX)
}

fn stages(experiment: &Experiment, mode: Mode, journeys: &[Journey<'_>]) -> Vec<Stage> {
    let gap = |from: u64, to: u64| to.saturating_sub(from);
    let stage = |name, wait: &dyn Fn(&Journey<'_>) -> u64, work: &dyn Fn(&Journey<'_>) -> u64| Stage {
        name,
        wait_us: mean(journeys, wait),
        work_us: mean(journeys, work),
    };
    let optimistic = mode == Mode::Optimistic;
    let ready = |m: &BlockMarks| if optimistic { m.seen } else { m.ordered.max(m.seen) };
    let writable = |m: &BlockMarks| if optimistic { m.root.to } else { m.root.to.max(m.certify.to).max(m.ordered) };
    let votable = |m: &BlockMarks| m.root.to;
    vec![
        stage("submit", &|_| 0, &|_| experiment.topology.client() + experiment.topology.fullnode()),
        stage("batch_queue", &|_| queue(experiment), &|_| 0),
        stage("broadcast", &|_| 0, &|j| j.distance),
        stage("block_queue", &|j| gap(j.made + j.distance, j.validator.made), &|_| 0),
        stage("order", &|_| 0, &|j| gap(j.validator.made, j.validator.ordered)),
        stage("prepare", &|j| gap(ready(j.validator), j.validator.execute.from), &|_| 0),
        stage("execute", &|_| 0, &|j| j.validator.execute.work()),
        stage("merkleize", &|j| gap(j.validator.execute.to, j.validator.root.from), &|j| j.validator.root.work()),
        stage("certify", &|j| gap(votable(j.validator), j.validator.certify.from), &|j| j.validator.certify.work()),
        stage("stage", &|j| gap(writable(j.validator), j.validator.stage.from), &|j| j.validator.stage.work()),
        stage("commit", &|j| gap(j.validator.stage.to.max(j.validator.certify.to), j.validator.flip.from), &|j| {
            j.validator.flip.work()
        }),
        stage("fullnode_execute", &|j| gap(ready(j.fullnode), j.fullnode.execute.from), &|j| {
            gap(j.fullnode.execute.from, j.fullnode.root.to)
        }),
        stage("fullnode_commit", &|j| gap(writable(j.fullnode), j.fullnode.stage.from), &|j| {
            j.fullnode.stage.work() + j.fullnode.flip.work()
        }),
        stage("confirm", &|_| 0, &|_| experiment.topology.client()),
    ]
}

/// Share of the work after the proposal that ends before the order.
fn shadowed(journeys: &[Journey<'_>]) -> f64 {
    let spans = |m: &BlockMarks| [m.execute, m.root, m.stage, m.flip];
    let (mut hidden, mut total) = (0u128, 0u128);
    for j in journeys {
        let shadow = Span { from: j.validator.seen, to: j.validator.ordered };
        let certify = [j.validator.certify];
        for span in spans(j.validator).into_iter().chain(spans(j.fullnode)).chain(certify) {
            hidden += u128::from(span.overlap(shadow) * j.txs);
            total += u128::from(span.work() * j.txs);
        }
    }
    if total == 0 { 1.0 } else { hidden as f64 / total as f64 }
}

fn wasted<M: Machine>(nodes: &[Node<M>]) -> f64 {
    let lost: u64 = nodes.iter().map(|node| node.wasted_us).sum();
    let used: u64 = nodes.iter().map(|node| node.used_us).sum();
    if lost + used == 0 { 0.0 } else { lost as f64 / (lost + used) as f64 }
}
