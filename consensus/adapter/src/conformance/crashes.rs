//! Crashes a consensus and an engine, together and apart.

use super::{ConformanceReport, Machine};
use crate::{consensus::Consensus, node::Node};
use phalanx_engine_api::ExecutionEngine as _;
use std::sync::Arc;

/// A consensus with a power switch. The consensus must make blocks without input.
pub trait Subject {
    /// The consensus under test.
    type Consensus: Consensus;
    /// Opens the consensus: fresh the first time, later with its decided blocks.
    fn open(&mut self) -> Self::Consensus;
    /// Returns the consensus after a crash.
    fn crash(&mut self, consensus: Self::Consensus);
    /// Drops the decided blocks from this height on, like a disk that ignores fsync.
    fn lose_from(&mut self, height: u64);
    /// Erases everything.
    fn wipe(&mut self);
}

/// Number of heights between two crashes.
const STRETCH: u64 = 7;
/// Number of polls before a case counts as stuck.
const PATIENCE: u64 = 20_000;

/// Part that crashes, in each of several lives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// No crash.
    None,
    /// Consensus and engine, at once.
    Both,
    /// The engine, which comes back empty.
    EngineEmpty,
    /// Consensus, which has lost its last decisions.
    ConsensusBehind,
}

/// Runs a consensus on an engine through all crashes.
pub fn consensus<S: Subject, M: Machine>(name: &str, subject: &mut S, machine: &mut M) -> ConformanceReport {
    let mut report = ConformanceReport { subject: name.to_owned(), cases: Vec::new() };
    let cases = [
        (Crash::None, "makes blocks, and the engine commits them in order"),
        (Crash::Both, "finds the engine again after both lost power (start or replay)"),
        (Crash::EngineEmpty, "replays everything to an empty engine"),
        (Crash::ConsensusBehind, "rewinds the engine when it has lost decisions itself"),
    ];
    for (crash, name) in cases {
        subject.wipe();
        machine.wipe();
        report.note(name, lives(subject, machine, crash));
    }
    subject.wipe();
    machine.wipe();
    report.note("gives the same decided block again and none that is not decided", stable(subject, machine));
    report
}

/// Four lives with a crash after each but the last.
fn lives<S: Subject, M: Machine>(subject: &mut S, machine: &mut M, crash: Crash) -> Result<(), String> {
    let mut now = 0;
    for life in 1..=4u64 {
        let engine = machine.open();
        let before = engine.status().committed.height;
        let goal = before.max(STRETCH * (life - 1)) + STRETCH;
        let node = live(subject, machine, &engine, goal, &mut now)?;
        let height = engine.status().committed.height;
        subject.crash(node.close());
        match crash {
            Crash::None => {}
            Crash::Both => machine.crash(engine),
            Crash::EngineEmpty => {
                drop(engine);
                machine.wipe();
            }
            Crash::ConsensusBehind => {
                subject.lose_from(height.saturating_sub(1).max(1));
                machine.crash(engine);
            }
        }
    }
    Ok(())
}

/// Runs a life until the engine has committed `goal`.
fn live<S: Subject, M: Machine>(
    subject: &mut S,
    machine: &M,
    engine: &Arc<M::Engine>,
    goal: u64,
    now: &mut u64,
) -> Result<Node<M::Engine, S::Consensus>, String> {
    let (mut node, found) = Node::open(engine.clone(), subject.open(), *now).map_err(|cause| cause.to_string())?;
    let end = *now + PATIENCE * 1000;
    let mut height = engine.status().committed.height;
    while height < goal {
        *now += 1000;
        if *now > end {
            return Err(format!("stuck at height {height} of {goal}, after {found:?}"));
        }
        node.poll(*now).map_err(|cause| cause.to_string())?;
        machine.settle(engine);
        let status = engine.status();
        if status.committed.height < height {
            return Err(format!("went from height {height} back to {}", status.committed.height));
        }
        if status.committed.meta.cursor < status.committed.height {
            return Err("the cursor is behind the state it was stored with".into());
        }
        height = status.committed.height;
    }
    Ok(node)
}

fn stable<S: Subject, M: Machine>(subject: &mut S, machine: &mut M) -> Result<(), String> {
    let engine = machine.open();
    let mut node = live(subject, machine, &engine, STRETCH, &mut 0)?;
    let consensus = node.consensus();
    for height in 1..=STRETCH {
        let block = consensus.block(height).map_err(|cause| cause.to_string())?;
        if block.as_ref().is_none_or(|block| block.meta.height != height) {
            return Err(format!("lacks the block that it decided at height {height}"));
        }
        if block != consensus.block(height).map_err(|cause| cause.to_string())? {
            return Err(format!("returns two blocks for height {height}"));
        }
    }
    let far = consensus.block(STRETCH * 1000).map_err(|cause| cause.to_string())?;
    far.map_or(Ok(()), |_| Err("returns a block that was not decided".into()))
}
