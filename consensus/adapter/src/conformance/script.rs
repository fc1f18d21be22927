//! A scripted consensus that does everything a consensus may do.

use super::{ConformanceReport, Machine};
use crate::{
    consensus::{Consensus, Decided, DecidedBlock, Standing},
    node::Node,
};
use alloy_primitives::{B256, Bytes, keccak256};
use phalanx_engine_api::{
    BlockEnv, BlockId, CommittedTip, EngineStatus, ExecId, ExecutionEngine as _, FatalCause, Payload,
};
use phalanx_pipeline::{BlockMeta, Committee, Config, ConsensusEvent, Effect, PayloadRef, StateRule};
use std::collections::{BTreeMap, VecDeque};

/// Number of heights of a script.
const HEIGHT: u64 = 12;
/// Number of polls before a script counts as stuck.
const PATIENCE: u64 = 20_000;

/// Oddity of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oddity {
    /// The plain script.
    None,
    /// Blocks are never proposed, only ordered: the node has to fetch them.
    NeverProposed,
    /// Every event comes three times.
    Repeats,
    /// Payloads come long after their blocks.
    LatePayloads,
    /// Only every fourth block is ordered, and its ancestors with it.
    Prefixes,
    /// Orders come before the proposals.
    OrderFirst,
    /// Every block is proposed in three views, and ordered in the last.
    LaterViews,
    /// Every height has losers, which are staged before they lose.
    Losers,
    /// Losers are declared abandoned before the winner is ordered.
    Abandons,
    /// The engine loses power in the middle.
    Restart,
    /// The node rests in the middle, as before a state sync.
    Rests,
}

const ODDITIES: [(Oddity, &str); 11] = [
    (Oddity::None, "proposes and orders"),
    (Oddity::NeverProposed, "orders what it never proposed"),
    (Oddity::Repeats, "says everything three times"),
    (Oddity::LatePayloads, "sends payloads late"),
    (Oddity::Prefixes, "orders four blocks at once"),
    (Oddity::OrderFirst, "orders before it proposes"),
    (Oddity::LaterViews, "proposes the same block in three views"),
    (Oddity::Losers, "proposes siblings that lose"),
    (Oddity::Abandons, "abandons siblings before it orders"),
    (Oddity::Restart, "goes on after the engine lost power"),
    (Oddity::Rests, "rests and resumes"),
];

struct Script {
    decided: BTreeMap<u64, DecidedBlock>,
    events: VecDeque<ConsensusEvent>,
    /// Acknowledged heights and names, in order.
    acks: Vec<(u64, BlockId)>,
    /// Height of the engine, as far as acknowledgements tell.
    height: u64,
    rested: bool,
    standing: Standing,
    /// Number of heights that may be sent before they are committed. A cut in the middle needs more than one.
    ahead: u64,
}

/// Makes a block whose content does not depend on the view, unlike its name.
fn block(machine: &impl Machine, parent: BlockId, height: u64, view: u64, content: u8) -> DecidedBlock {
    let env = BlockEnv { height, timestamp_ms: height * 1000, gas_limit: u64::MAX, ..BlockEnv::default() };
    let payload = Payload::new(vec![machine.tx(content, height)]);
    let mut name = parent.0.to_vec();
    name.extend_from_slice(&view.to_be_bytes());
    name.push(content);
    let meta = BlockMeta { id: BlockId(keccak256(name)), parent, height };
    DecidedBlock { meta, env, payload: payload.into(), proof: Bytes::from_static(b"script"), certificate: None }
}

fn proposed(block: &DecidedBlock) -> ConsensusEvent {
    let payload = PayloadRef::Here(block.payload.clone());
    ConsensusEvent::Proposed { meta: block.meta, env: block.env, payload }
}

fn ordered(block: &DecidedBlock) -> ConsensusEvent {
    ConsensusEvent::Ordered { tip: block.meta.id, height: block.meta.height, proof: block.proof.clone() }
}

impl Script {
    fn new(oddity: Oddity, machine: &impl Machine) -> Self {
        let block = |parent, height, view, content| block(machine, parent, height, view, content);
        let mut events = VecDeque::new();
        let mut decided = BTreeMap::new();
        let mut parent = BlockId::default();
        let mut late = Vec::new();
        for height in 1..=HEIGHT {
            let view = if oddity == Oddity::LaterViews { 3 } else { 1 };
            let winner = block(parent, height, view, 0);
            let loser = block(parent, height, 9, 1);
            match oddity {
                Oddity::NeverProposed => events.push_back(ordered(&winner)),
                Oddity::OrderFirst => events.extend([ordered(&winner), proposed(&winner)]),
                Oddity::LatePayloads => {
                    let payload = PayloadRef::Named(winner.payload.digest());
                    events.push_back(ConsensusEvent::Proposed { meta: winner.meta, env: winner.env, payload });
                    events.push_back(ordered(&winner));
                    late.push(ConsensusEvent::Payload(winner.payload.clone()));
                }
                Oddity::LaterViews => {
                    events.extend((1..3).map(|view| proposed(&block(parent, height, view, 0))));
                    events.extend([proposed(&winner), ordered(&winner)]);
                }
                Oddity::Losers => {
                    let grandchild = block(loser.meta.id, height + 1, 9, 1);
                    events.extend([proposed(&loser), proposed(&grandchild), proposed(&winner), ordered(&winner)]);
                }
                Oddity::Abandons => {
                    let abandoned = ConsensusEvent::Abandoned(loser.meta.id);
                    events.extend([proposed(&loser), proposed(&winner), abandoned, ordered(&winner)]);
                }
                Oddity::Prefixes if height % 4 != 0 => events.push_back(proposed(&winner)),
                Oddity::Repeats => {
                    for _ in 0..3 {
                        events.extend([proposed(&winner), ordered(&winner)]);
                        events.push_back(ConsensusEvent::OrderVoteDurable(winner.meta.id));
                    }
                }
                _ => events.extend([proposed(&winner), ordered(&winner)]),
            }
            if oddity == Oddity::Rests && height == HEIGHT / 2 {
                events.push_back(ConsensusEvent::SyncStart);
            }
            parent = winner.meta.id;
            decided.insert(height, winner);
        }
        events.extend(late);
        let ahead = if oddity == Oddity::Restart { 2 } else { HEIGHT };
        Self {
            decided,
            events,
            acks: Vec::new(),
            height: 0,
            rested: false,
            standing: Standing { first: 1, last: None },
            ahead,
        }
    }
}

impl Consensus for &mut Script {
    fn config(&self) -> Config {
        Config { rule: StateRule::Ordered, ..Config::validator(Committee::equal(1)) }
    }

    fn standing(&self) -> Standing {
        self.standing
    }

    fn resumed(&mut self, committed: &CommittedTip) {
        self.height = committed.height;
    }

    fn block(&mut self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        Ok(self.decided.get(&height).cloned())
    }

    fn next(&mut self, _now_us: u64) -> Result<Option<ConsensusEvent>, FatalCause> {
        let said = match self.events.front() {
            Some(ConsensusEvent::Proposed { meta, .. }) => meta.height,
            Some(ConsensusEvent::Ordered { height, .. }) => *height,
            _ => 0,
        };
        Ok(if said > self.height + self.ahead { None } else { self.events.pop_front() })
    }

    fn apply(&mut self, effect: Effect) -> Result<(), FatalCause> {
        match effect {
            Effect::Ack { meta, .. } => {
                self.acks.push((meta.height, meta.id));
                self.height = meta.height;
            }
            Effect::AtRest => self.rested = true,
            _ => {}
        }
        Ok(())
    }
}

/// Runs an engine through all oddities: each must end in the same state as the plain script.
pub fn engine<M: Machine>(name: &str, machine: &mut M) -> ConformanceReport {
    let mut report = ConformanceReport { subject: name.to_owned(), cases: Vec::new() };
    let mut expected: Option<(ExecId, B256)> = None;
    for (oddity, name) in ODDITIES {
        machine.wipe();
        let result = run(machine, oddity).and_then(|found| match &expected {
            Some(expected) if *expected != found => Err("another state than the plain script's".to_owned()),
            Some(_) => Ok(()),
            None => {
                expected = Some(found);
                Ok(())
            }
        });
        report.note(format!("consensus {name}"), result);
    }
    report
}

/// Runs one script; returns the last execution and its root. Identities and roots cover everything below them.
fn run<M: Machine>(machine: &mut M, oddity: Oddity) -> Result<(ExecId, B256), String> {
    let mut script = Script::new(oddity, machine);
    let mut engine = machine.open();
    let mut restarts = u32::from(oddity == Oddity::Restart);
    let mut now = 0;
    loop {
        let (mut node, _) = Node::open(engine.clone(), &mut script, now).map_err(|cause| cause.to_string())?;
        let mut cut = false;
        while node.consensus().height < HEIGHT && !cut {
            now += 1000;
            if now > PATIENCE * 1000 {
                return Err(format!("stuck at height {}", node.consensus().height));
            }
            node.poll(now).map_err(|cause| cause.to_string())?;
            machine.settle(&engine);
            let consensus = node.consensus();
            if consensus.rested {
                consensus.rested = false;
                consensus.events.push_front(ConsensusEvent::SyncDone(Box::new(engine.status())));
                // Events at rest were ignored.
                let missed: Vec<_> = consensus.decided.values().flat_map(|b| [proposed(b), ordered(b)]).collect();
                consensus.events.extend(missed);
            }
            cut = restarts > 0 && consensus.height >= HEIGHT / 2;
        }
        drop(node);
        if !cut {
            break;
        }
        restarts -= 1;
        machine.crash(engine);
        engine = machine.open();
        // Consensus has decided everything meanwhile, and hands it over on request.
        script.standing.last =
            script.decided.last_key_value().map(|(height, b)| Decided { height: *height, id: b.meta.id });
        script.events.clear();
    }
    finished(&script, &engine.status(), oddity)
}

/// Checks that every height was acknowledged once, in order, as the ordered block, and that no staged block is left.
fn finished(script: &Script, status: &EngineStatus, oddity: Oddity) -> Result<(ExecId, B256), String> {
    let heights: Vec<u64> = script.acks.iter().map(|(height, _)| *height).collect();
    // Only a crash may come between a commit and its acknowledgement.
    let whole = heights.len() as u64 == HEIGHT || oddity == Oddity::Restart;
    if !whole || !heights.is_sorted_by(|a, b| a < b) {
        return Err(format!("heights were acknowledged as {heights:?}"));
    }
    let other = |(height, id): &&(u64, BlockId)| script.decided.get(height).is_none_or(|block| block.meta.id != *id);
    if let Some((height, _)) = script.acks.iter().find(other) {
        return Err(format!("another block than the ordered one at height {height}"));
    }
    if status.committed.height != HEIGHT || !status.staged.is_empty() {
        return Err(format!("ends at height {} with {} staged blocks", status.committed.height, status.staged.len()));
    }
    Ok((status.committed.exec, status.committed.state_root))
}
