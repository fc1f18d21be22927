//! A fixed primary and one round of votes: the smallest protocol that survives crashes, loss and lies of backups.
//!
//! The primary's acceptance of a batch is its proposal. A slot is decided with a quorum of acceptances; each replica accepts one
//! batch per slot, durably before it says so. There is no view change: without its primary the protocol stands still.

use alloy_primitives::B256;
use alloy_rlp::{RlpDecodable, RlpEncodable};
use phalanx_bft::{
    Base, Batch, Checked, Claim, ConfigError, Domain, Index, Input, Message, Micros, Out, Outs, Protocol, Quorums,
    ReplicaSet, Slot, To, View,
};
use phalanx_world::{Facts, Lie, Pace, Vote, kind};
use std::{collections::BTreeMap, sync::Arc};

const PRIMARY: Index = Index(0);
/// Slots in flight, and in one answer.
const WINDOW: u64 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) quorums: Quorums,
    pub(crate) resend: Micros,
    /// True for a replica that accepts before its record is durable: the world has to notice.
    pub(crate) is_hasty: bool,
}

/// Acceptance of a batch in a slot. Without a batch, asks for what is accepted from this slot on.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
pub(crate) struct Accept {
    slot: Slot,
    batch: Option<Batch>,
}

impl Message for Accept {
    fn claims(&self, _: Domain, _: &mut Vec<Claim>) {}

    fn batches(&self) -> Vec<&Batch> {
        self.batch.iter().collect()
    }

    fn label(&self) -> u64 {
        self.slot ^ u64::from(self.batch.is_some()) << 56
    }
}

pub(crate) struct Toy {
    me: Index,
    config: Arc<Config>,
    accepted: BTreeMap<Slot, Batch>,
    votes: BTreeMap<(Slot, B256), ReplicaSet>,
    /// Every slot up to this one is decided.
    decided: Slot,
}

impl Toy {
    fn accept(&mut self, slot: Slot, batch: Batch, out: &mut Outs<Self>) {
        let accept = Accept { slot, batch: Some(batch.clone()) };
        let (record, send) = (Out::Persist(accept.clone()), Out::Send(To::All, accept));
        out.extend(if self.config.is_hasty { [send, record] } else { [record, send] });
        self.votes.entry((slot, batch.digest())).or_default().insert(self.me);
        self.accepted.insert(slot, batch);
        self.decide(out);
    }

    fn decide(&mut self, out: &mut Outs<Self>) {
        while let Some(batch) = self.accepted.get(&(self.decided + 1)) {
            let votes = self.votes.get(&(self.decided + 1, batch.digest())).map_or(0, ReplicaSet::len);
            if votes < self.config.quorums.quorum() {
                return;
            }
            self.decided += 1;
            out.push(Out::Decided { slot: self.decided, batch: Some(batch.clone()) });
        }
    }
}

impl Protocol for Toy {
    type Config = Config;
    type Msg = Accept;
    type Record = Accept;
    type Timer = ();

    fn check(config: &Config) -> Result<(), ConfigError> {
        ConfigError::within("resend", config.resend, 1, 3_600_000_000)
    }

    fn batch_bytes(_: &Config) -> usize {
        1 << 20
    }

    fn open(me: Index, config: Arc<Config>, base: Base, log: &[Accept], out: &mut Outs<Self>) -> Self {
        let accepted: BTreeMap<Slot, Batch> =
            log.iter().filter_map(|accept| Some((accept.slot, accept.batch.clone()?))).collect();
        let own = |(slot, batch): (&Slot, &Batch)| ((*slot, batch.digest()), [me].into_iter().collect());
        let votes = accepted.iter().map(own).collect();
        out.push(Out::Timer((), config.resend));
        Self { me, config, accepted, votes, decided: base.slot }
    }

    fn wants(&self, _: Index, accept: &Accept) -> bool {
        accept.slot > self.decided || accept.batch.is_none()
    }

    fn on_message(&mut self, _: Micros, from: Index, message: Checked<Accept>, out: &mut Outs<Self>) {
        let Accept { slot, batch } = message.into_inner();
        let Some(batch) = batch else {
            let known = self.accepted.range(slot..).take(WINDOW as usize);
            let again = |(slot, batch): (&Slot, &Batch)| Accept { slot: *slot, batch: Some(batch.clone()) };
            return out.extend(known.map(|entry| Out::Send(To::One(from), again(entry))));
        };
        if slot > self.decided && slot <= self.decided + 2 * WINDOW {
            self.votes.entry((slot, batch.digest())).or_default().insert(from);
            if from == PRIMARY && !self.accepted.contains_key(&slot) {
                self.accept(slot, batch, out);
            }
            self.decide(out);
        }
    }

    fn on_timer(&mut self, _: Micros, (): (), out: &mut Outs<Self>) {
        out.push(Out::Send(To::All, Accept { slot: self.decided + 1, batch: None }));
        out.push(Out::Timer((), self.config.resend));
    }

    fn on_input(&mut self, _: Micros, input: Input, out: &mut Outs<Self>) {
        match input {
            Input::Batch(batch) if self.room() > 0 => {
                let slot = self.accepted.last_key_value().map_or(self.decided, |(slot, _)| *slot) + 1;
                self.accept(slot, batch, out);
            }
            Input::Batch(batch) => out.push(Out::Returned(batch)),
            _ => {}
        }
    }

    fn room(&self) -> u64 {
        let last = self.accepted.last_key_value().map_or(self.decided, |(slot, _)| *slot);
        if self.me == PRIMARY { (self.decided + WINDOW).saturating_sub(last) } else { 0 }
    }

    fn leader(&self) -> Index {
        PRIMARY
    }

    fn view(&self) -> View {
        0
    }

    fn journal(&self) -> Vec<Accept> {
        self.accepted.iter().map(|(slot, batch)| Accept { slot: *slot, batch: Some(batch.clone()) }).collect()
    }
}

impl Facts for Toy {
    fn quorums(config: &Config) -> Quorums {
        config.quorums
    }

    fn domain(_: &Config) -> Domain {
        Domain::default()
    }

    fn config(quorums: Quorums, _: Domain, pace: Pace) -> Config {
        Config { quorums, resend: pace.resend, is_hasty: false }
    }

    fn vote(accept: &Accept) -> Option<Vote> {
        Some((kind::ORDER, 0, accept.slot, accept.batch.as_ref()?.digest()))
    }

    fn locks(record: &Accept, _: View, slot: Slot, digest: Option<B256>) -> bool {
        let of = record.batch.as_ref().map(Batch::digest);
        record.slot == slot && (digest.is_none() || digest == of)
    }

    fn is_in_flight(&self, digest: B256) -> bool {
        self.accepted.values().any(|batch| batch.digest() == digest)
    }

    fn decided(&self) -> Slot {
        self.decided
    }

    fn stable(&self) -> Slot {
        0
    }

    fn lie(accept: &Accept, lie: &Lie) -> Vec<Accept> {
        vec![Accept { slot: accept.slot, batch: Some(lie.batch.clone()) }]
    }
}
