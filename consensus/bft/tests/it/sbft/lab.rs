//! SBFT replicas under full control.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

pub(super) use crate::manual::batch;
use crate::manual::{Manual, Subject};
use phalanx_bft::{
    Batch, Domain, Group, Index, Quorums, Signed, Slot, Statement as _, View,
    sbft::{
        Certificate, Config, Decision, Msg, NewView, PrePrepare, Prepared, Proposal, Sbft, Timer, ViewChange, Vote,
    },
};
use phalanx_world::{is_genuine, sign};

pub(crate) fn config(n: usize, f: usize) -> Config {
    Config { interval: 4, ..Config::new(Quorums::new(n, f).unwrap(), Domain::default()) }
}

/// τ over a vote.
pub(crate) fn certificate(vote: Vote) -> Certificate {
    Certificate { vote, signature: sign(Group::Slow.signer(), &vote.signed_bytes(Domain::default())) }
}

/// A decision of the fast path, or of the slow one.
pub(crate) fn decision(vote: Vote, fast: bool) -> Decision {
    let bytes = match fast {
        true => vote.signed_bytes(Domain::default()),
        false => Prepared(vote).signed_bytes(Domain::default()),
    };
    let group = if fast { Group::Fast } else { Group::Slow };
    Decision { vote, group, signature: sign(group.signer(), &bytes) }
}

pub(crate) fn signed<T: phalanx_bft::Statement + alloy_rlp::Decodable>(signer: u16, body: T) -> Signed<T> {
    phalanx_world::signed(Index(signer), body, Domain::default())
}

pub(crate) fn proposal(view: View, slot: Slot, primary: u16, batch: &Batch) -> Msg {
    let vote = Vote { view, slot, digest: batch.digest() };
    Msg::PrePrepare(PrePrepare { signed: signed(primary, Proposal(vote)), batch: batch.clone() })
}

impl Subject for Sbft {
    const PROGRESS: Timer = Timer::Progress;

    fn complaint(view: View) -> Msg {
        Msg::Complaint(view)
    }

    fn resend(config: &Config) -> u64 {
        config.resend
    }
}

pub(crate) type Lab = Manual<Sbft>;

impl Manual<Sbft> {
    pub(crate) fn new(config: Config, correct: impl IntoIterator<Item = u16>) -> Self {
        let mut lab = Self::begin(config, |claims| claims.iter().all(is_genuine), correct);
        lab.wire.clear();
        lab
    }

    /// The last VIEW-CHANGE that a correct replica has sent.
    pub(super) fn change(&self, node: u16) -> Signed<ViewChange> {
        let sent = self.wire.iter().rev().find_map(|(from, _, message)| match message {
            Msg::ViewChange(change) if *from == node && change.signer.0 == node => Some(change.clone()),
            _ => None,
        });
        sent.expect("a view change was sent")
    }

    pub(super) fn new_view(&self, view: View, mut changes: Vec<Signed<ViewChange>>) -> Msg {
        changes.sort_by_key(|change| change.signer);
        Msg::NewView(signed(self.config.primary(view).0, NewView { view, changes }))
    }
}
