//! A protocol that does what the test says, and its host.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::cluster::DOMAIN;
use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::Consensus as _;
use phalanx_bft::{
    Base, Batch, Checked, Claim, ConfigError, Domain, Index, Input, Lean, Message, Micros, Out, Protocol, Quorums,
    Reach, Signed, Slot, Statement as _, To, View,
};
use phalanx_engine_api::{BlockResult, CommittedTip, ExecOutcome};
use phalanx_host::{Action, Frame, Host, HostConfig, HostRecord, StateVote};
use phalanx_keys::{Scheme as _, Simulated};
use phalanx_pipeline::{BlockMeta, ConsensusEvent, Effect};
use std::sync::Arc;

pub(crate) fn vote(signer: u16, slot: Slot, block: B256, digest: B256, lean: Lean) -> Signed<StateVote> {
    let body = StateVote::new(slot, block, digest, lean);
    let signature = Simulated::new(Index(signer), 64).sign(&body.signed_bytes(DOMAIN));
    Signed { signer: Index(signer), signature, body }
}

#[derive(Clone, Debug, PartialEq, Eq, alloy_rlp::RlpEncodable, alloy_rlp::RlpDecodable)]
pub(crate) struct NoMsg {
    number: u64,
}

impl Message for NoMsg {
    fn claims(&self, _: Domain, _: &mut Vec<Claim>) {}
    fn label(&self) -> u64 {
        0
    }
}

/// The thread's protocol: what it does next, what its host has given it, and how it looks to its host.
#[derive(Default)]
pub(crate) struct Play {
    outs: Vec<Out<Script>>,
    inputs: Vec<Input>,
    pub(crate) leader: Index,
    pub(crate) room: u64,
    pub(crate) view: View,
    pub(crate) reach: Option<Reach>,
}

thread_local!(static PLAY: std::cell::RefCell<Play> = std::cell::RefCell::default());

/// Emits the thread's script at the next message, timer or start.
pub(crate) struct Script;

impl Script {
    /// Sets what the next message, timer or start causes.
    pub(crate) fn next(outs: Vec<Out<Self>>) {
        Self::set(|play| play.outs = outs);
    }

    /// Changes how the protocol looks to its host.
    pub(crate) fn set(change: impl FnOnce(&mut Play)) {
        PLAY.with_borrow_mut(change);
    }

    /// Inputs since the last call.
    pub(crate) fn inputs() -> Vec<Input> {
        PLAY.with_borrow_mut(|play| core::mem::take(&mut play.inputs))
    }

    pub(crate) const fn message() -> Frame<NoMsg> {
        Frame::Protocol(NoMsg { number: 0 })
    }
}

impl Protocol for Script {
    type Config = ();
    type Msg = NoMsg;
    type Record = ();
    type Timer = ();

    fn check((): &()) -> Result<(), ConfigError> {
        Ok(())
    }
    fn open(_: Index, _: Arc<()>, _: Base, _: &[()], out: &mut Vec<Out<Self>>) -> Self {
        PLAY.with_borrow_mut(|play| out.append(&mut play.outs));
        Self
    }
    fn batch_bytes((): &()) -> usize {
        usize::MAX
    }
    fn wants(&self, _: Index, _: &NoMsg) -> bool {
        true
    }
    fn on_message(&mut self, _: Micros, _: Index, _: Checked<NoMsg>, out: &mut Vec<Out<Self>>) {
        PLAY.with_borrow_mut(|play| out.append(&mut play.outs));
    }
    fn on_timer(&mut self, _: Micros, (): (), out: &mut Vec<Out<Self>>) {
        PLAY.with_borrow_mut(|play| out.append(&mut play.outs));
    }
    fn on_input(&mut self, _: Micros, input: Input, _: &mut Vec<Out<Self>>) {
        PLAY.with_borrow_mut(|play| play.inputs.push(input));
    }
    fn room(&self) -> u64 {
        PLAY.with_borrow(|play| play.room)
    }
    fn journal(&self) -> Vec<()> {
        Vec::new()
    }
    fn leader(&self) -> Index {
        PLAY.with_borrow(|play| play.leader)
    }
    fn view(&self) -> View {
        PLAY.with_borrow(|play| play.view)
    }
    fn reach(&self) -> Option<Reach> {
        PLAY.with_borrow(|play| play.reach)
    }
}

/// Replica 2 of four, at the genesis.
pub(crate) fn host() -> Host<Script> {
    host_on(|_| (), Vec::new(), &committed(0))
}

/// Replica 2 of four with this log, whose engine has committed a block.
pub(crate) fn host_on(
    change: impl FnOnce(&mut HostConfig),
    log: Vec<HostRecord<()>>,
    committed: &CommittedTip,
) -> Host<Script> {
    let mut host = closed(change, log);
    host.resumed(committed);
    host
}

/// Replica 2 of four with this log, before it knows where its engine is.
pub(crate) fn closed(change: impl FnOnce(&mut HostConfig), log: Vec<HostRecord<()>>) -> Host<Script> {
    Script::set(|play| *play = Play::default());
    let mut config = HostConfig::new(Quorums::new(4, 1).unwrap(), DOMAIN);
    change(&mut config);
    let scheme = Arc::new(Simulated::new(Index(2), 64));
    Host::new(Index(2), config, Arc::new(()), scheme, log).unwrap()
}

/// The block of this height, committed.
pub(crate) fn committed(height: u64) -> CommittedTip {
    CommittedTip {
        height,
        exec: phalanx_engine_api::ExecId::GENESIS,
        state_root: B256::ZERO,
        meta: phalanx_engine_api::CommitMeta::default(),
    }
}

pub(crate) fn play(host: &mut Host<Script>, outs: Vec<Out<Script>>) -> Vec<ConsensusEvent> {
    Script::next(outs);
    host.on_frame(0, Index(0), Script::message());
    host.durable(0, 1_000_000);
    events(host)
}

/// Events for the pipeline.
pub(crate) fn events(host: &mut Host<Script>) -> Vec<ConsensusEvent> {
    let mut events = Vec::new();
    while let Some(event) = host.next(0).unwrap() {
        events.push(event);
    }
    events
}

pub(crate) fn state_votes(host: &mut Host<Script>) -> Vec<StateVote> {
    let votes = host.take_actions().into_iter().filter_map(|action| match action {
        Action::Send(To::All, Frame::StateVote(vote)) => Some(vote.body),
        _ => None,
    });
    votes.collect()
}

pub(crate) fn batch(byte: u8) -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from(vec![byte])])
}

pub(crate) fn proposed(events: &[ConsensusEvent]) -> BlockMeta {
    blocks(events).pop().expect("a proposal")
}

/// Blocks among the events, in order.
pub(crate) fn blocks(events: &[ConsensusEvent]) -> Vec<BlockMeta> {
    let metas = events.iter().filter_map(|event| match event {
        ConsensusEvent::Proposed { meta, .. } => Some(*meta),
        _ => None,
    });
    metas.collect()
}

/// Slots of the certificates among the events.
pub(crate) fn certified(events: &[ConsensusEvent]) -> Vec<u64> {
    let slots = events.iter().filter_map(|event| match event {
        ConsensusEvent::StateCertificate { height, .. } => Some(*height),
        _ => None,
    });
    slots.collect()
}

/// The pipeline's effect once a block is committed.
pub(crate) fn acknowledged(meta: BlockMeta) -> Effect {
    let outcome = ExecOutcome {
        id: phalanx_engine_api::ExecId::GENESIS,
        state_root: B256::ZERO,
        receipts_root: B256::ZERO,
        transactions_root: B256::ZERO,
        gas_used: 0,
        txs: Arc::new([]),
    };
    Effect::Ack { meta, outcome }
}

/// The pipeline's effect once a block has this result.
pub(crate) fn computed(meta: BlockMeta, result: u8) -> Effect {
    let result = self::result(result);
    Effect::StateVote { meta, digest: B256::new(result.digest()), result }
}

pub(crate) const fn result(byte: u8) -> BlockResult {
    let root = [byte; 32];
    BlockResult { execution: root, state_root: root, receipts_root: root, transactions_root: root, gas_used: 0 }
}
