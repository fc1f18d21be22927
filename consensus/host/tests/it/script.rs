//! A protocol that does what the test says, and its host.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::cluster::DOMAIN;
use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::Consensus as _;
use phalanx_bft::{
    Base, Batch, Checked, Claim, ConfigError, Domain, Index, Input, Lean, Message, Micros, Out, Protocol, Quorums,
    Signed, Slot, Statement as _, To, View,
};
use phalanx_engine_api::{BlockResult, CommittedTip};
use phalanx_host::{Action, Frame, Host, HostConfig, StateVote};
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

thread_local!(static SCRIPT: std::cell::RefCell<Vec<Out<Script>>> = const { std::cell::RefCell::new(Vec::new()) });

/// Emits the thread's script at the next message.
pub(crate) struct Script;

impl Script {
    /// Sets what the next message causes.
    pub(crate) fn next(outs: Vec<Out<Self>>) {
        SCRIPT.with_borrow_mut(|script| *script = outs);
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
    fn open(_: Index, _: Arc<()>, _: Base, _: &[()], _: &mut Vec<Out<Self>>) -> Self {
        Self
    }
    fn batch_bytes((): &()) -> usize {
        usize::MAX
    }
    fn wants(&self, _: Index, _: &NoMsg) -> bool {
        true
    }
    fn on_message(&mut self, _: Micros, _: Index, _: Checked<NoMsg>, out: &mut Vec<Out<Self>>) {
        SCRIPT.with_borrow_mut(|script| out.append(script));
    }
    fn on_timer(&mut self, _: Micros, (): (), _: &mut Vec<Out<Self>>) {}
    fn on_input(&mut self, _: Micros, _: Input, _: &mut Vec<Out<Self>>) {}
    fn room(&self) -> u64 {
        0
    }
    fn journal(&self) -> Vec<()> {
        Vec::new()
    }
    fn leader(&self) -> Index {
        Index(0)
    }
    fn view(&self) -> View {
        0
    }
}

pub(crate) fn host() -> Host<Script> {
    let config = HostConfig::new(Quorums::new(4, 1).unwrap(), DOMAIN);
    let scheme = Arc::new(Simulated::new(Index(2), 64));
    let mut host = Host::new(Index(2), config, Arc::new(()), scheme, Vec::new()).unwrap();
    let genesis = CommittedTip {
        height: 0,
        exec: phalanx_engine_api::ExecId::GENESIS,
        state_root: B256::ZERO,
        meta: phalanx_engine_api::CommitMeta::default(),
    };
    host.resumed(&genesis);
    host
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
    let metas = events.iter().filter_map(|event| match event {
        ConsensusEvent::Proposed { meta, .. } => Some(*meta),
        _ => None,
    });
    metas.last().expect("a proposal")
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
