//! A replica by itself, which hears what a test makes up.

use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Base, Batch, Checked, Domain, Index, Input, Out, Protocol as _, Quorums, Signed, Statement as _, View,
    rounds::{Block, CertKind, Config, Msg, Mutation, Offer, Offered, Place, Record, Rounds, Timer, Vote},
};
use phalanx_world::{is_genuine, sign, work};
use std::sync::Arc;

pub(super) const DOMAIN: Domain = Domain::unnamed(3, 1);

pub(super) fn batch(byte: u8) -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from(vec![byte])])
}

/// A block that its author has signed, one above its parent if there is one.
pub(super) fn block(view: View, parent: Option<&Block<Offered>>, height: u64, byte: u8) -> Arc<Block<Offered>> {
    let (parent, parent_view) = parent.map_or((B256::ZERO, 0), |parent| (parent.id, parent.place.view));
    let author = Index((view % 4) as u16);
    let place = Place { view, parent, parent_view, author, height };
    let signature = sign(author, &Offer::new(&place, &batch(byte)).signed_bytes(DOMAIN));
    Arc::new(Block::new(place, Offered { batch: batch(byte), signature }))
}

pub(super) fn vote(signer: u16, kind: CertKind, view: View, id: B256) -> Signed<Vote> {
    let (signer, body) = (Index(signer), Vote { kind, view, id });
    Signed { signer, signature: sign(signer, &body.signed_bytes(DOMAIN)), body }
}

/// A replica of four, and its effects so far.
pub(super) struct Lone {
    pub(super) me: Index,
    pub(super) replica: Rounds,
    pub(super) out: Vec<Out<Rounds>>,
}

impl Lone {
    pub(super) fn new(me: u16) -> Self {
        Self::open(me, &[], None)
    }

    pub(super) fn open(me: u16, log: &[Record], mutation: Option<Mutation>) -> Self {
        let quorums = Quorums::new(4, 1).expect("a legal size");
        let config = Config { interval: 4, mutation, ..Config::new(quorums, DOMAIN) };
        let mut out = Vec::new();
        let replica = Rounds::open(Index(me), Arc::new(config), Base::default(), log, &mut out);
        let mut lone = Self { me: Index(me), replica, out: Vec::new() };
        lone.perform(out);
        lone
    }

    /// Signs what is to be signed, and keeps the rest.
    fn perform(&mut self, out: Vec<Out<Rounds>>) {
        for effect in out {
            match effect {
                Out::Work { job, crypto } => self.input(work(self.me, job, crypto, false)),
                other => self.out.push(other),
            }
        }
    }

    pub(super) fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.replica.on_input(0, input, &mut out);
        self.perform(out);
    }

    pub(super) fn timer(&mut self, timer: Timer) {
        let mut out = Vec::new();
        self.replica.on_timer(0, timer, &mut out);
        self.perform(out);
    }

    pub(super) fn hear(&mut self, from: u16, message: Msg) {
        let checked = Checked::new(message, DOMAIN, |claims| claims.iter().all(is_genuine)).expect("signed");
        let mut out = Vec::new();
        self.replica.on_message(0, Index(from), checked, &mut out);
        self.perform(out);
    }

    /// Votes of the three others.
    pub(super) fn votes(&mut self, kind: CertKind, view: View, id: B256) {
        let me = self.me;
        for signer in (0..4).filter(|signer| Index(*signer) != me) {
            self.hear(signer, Msg::Vote(vote(signer, kind, view, id)));
        }
    }

    /// Records so far.
    pub(super) fn log(&self) -> Vec<Record> {
        let of = |out: &Out<Rounds>| if let Out::Persist(record) = out { Some(record.clone()) } else { None };
        self.out.iter().filter_map(of).collect()
    }

    /// Replicas that evidence came out against.
    pub(super) fn guilty(&self) -> Vec<u16> {
        let of = |out: &Out<Rounds>| if let Out::Evidence { against, .. } = out { Some(against.0) } else { None };
        self.out.iter().filter_map(of).collect()
    }

    /// Slots and batches that the host was told of.
    pub(super) fn proposed(&self) -> Vec<(u64, Batch)> {
        let of = |out: &Out<Rounds>| {
            if let Out::Proposed { slot, batch: Some(batch), .. } = out { Some((*slot, batch.clone())) } else { None }
        };
        self.out.iter().filter_map(of).collect()
    }
}
