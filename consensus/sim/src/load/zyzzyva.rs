//! Zyzzyva's path without failures, a baseline for the simulator only.
//!
//! The primary orders a batch and all execute it at once. Clients need the answers of all replicas, or those of a quorum and a
//! second phase. There is no view change: the published one is unsafe. So no replica outside the simulator may run this.

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use phalanx_bft::{
    Base, Batch, Checked, Claim, ConfigError, Domain, Index, Input, Message, Micros, Out, Outs, Protocol, Quorums,
    Slot, To, View,
};
use phalanx_world::{Facts, Pace, Vote, kind};
use std::sync::Arc;

/// Constants of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Replicas and faults.
    pub quorums: Quorums,
}

/// The primary's order of a batch.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Order {
    /// Slot of the batch.
    pub slot: Slot,
    /// The batch.
    pub batch: Batch,
}

impl Message for Order {
    fn claims(&self, _: Domain, _: &mut Vec<Claim>) {}

    fn batches(&self) -> Vec<&Batch> {
        vec![&self.batch]
    }

    fn label(&self) -> u64 {
        self.slot
    }
}

/// A replica.
#[derive(Clone, Debug)]
pub struct Zyzzyva {
    me: Index,
    slot: Slot,
}

const PRIMARY: Index = Index(0);

impl Protocol for Zyzzyva {
    type Config = Config;
    type Msg = Order;
    type Record = Bytes;
    type Timer = ();

    fn check(_: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    fn batch_bytes(_: &Config) -> usize {
        usize::MAX
    }

    fn open(me: Index, _: Arc<Config>, base: Base, _: &[Bytes], _: &mut Outs<Self>) -> Self {
        Self { me, slot: base.slot }
    }

    fn wants(&self, from: Index, message: &Order) -> bool {
        from == PRIMARY && self.me != PRIMARY && message.slot > self.slot
    }

    fn on_message(&mut self, _: Micros, from: Index, message: Checked<Order>, out: &mut Outs<Self>) {
        if self.wants(from, message.get()) {
            let Order { slot, batch } = message.into_inner();
            // Links keep the order of messages, so that a gap means a lost one: the replica stays behind it.
            if slot == self.slot + 1 {
                self.slot = slot;
                out.push(Out::Decided { slot, batch: Some(batch) });
            }
        }
    }

    fn on_timer(&mut self, _: Micros, (): (), _: &mut Outs<Self>) {}

    fn on_input(&mut self, _: Micros, input: Input, out: &mut Outs<Self>) {
        match input {
            Input::Batch(batch) if self.me == PRIMARY => {
                self.slot += 1;
                out.push(Out::Send(To::All, Order { slot: self.slot, batch: batch.clone() }));
                out.push(Out::Decided { slot: self.slot, batch: Some(batch) });
            }
            Input::Batch(batch) => out.push(Out::Returned(batch)),
            _ => {}
        }
    }

    fn room(&self) -> u64 {
        if self.me == PRIMARY { u64::MAX } else { 0 }
    }

    fn leader(&self) -> Index {
        PRIMARY
    }

    fn view(&self) -> View {
        0
    }

    fn journal(&self) -> Vec<Bytes> {
        Vec::new()
    }
}

impl Facts for Zyzzyva {
    fn quorums(config: &Config) -> Quorums {
        config.quorums
    }

    fn domain(_: &Config) -> Domain {
        Domain::default()
    }

    fn config(quorums: Quorums, _: Domain, _: Pace) -> Config {
        Config { quorums }
    }

    fn vote(message: &Order) -> Option<Vote> {
        Some((kind::PROPOSAL, 0, message.slot, message.batch.digest()))
    }

    /// Nothing is durable.
    fn locks(_: &Bytes, _: View, _: Slot, _: Option<B256>) -> bool {
        false
    }

    /// Proposed batches leave the pool.
    fn is_in_flight(&self, _: B256) -> bool {
        false
    }

    fn decided(&self) -> Slot {
        self.slot
    }

    fn stable(&self) -> Slot {
        0
    }

    fn answers(quorums: Quorums) -> usize {
        quorums.n()
    }

    fn answers_late(quorums: Quorums) -> Option<usize> {
        Some(quorums.quorum())
    }
}
