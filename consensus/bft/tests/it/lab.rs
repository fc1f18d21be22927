//! PBFT replicas under full control.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

pub(crate) use crate::manual::batch;
use crate::manual::{Manual, Subject};
use alloy_primitives::B256;
use phalanx_bft::{
    Domain, Index, Quorums, Signed, View,
    pbft::{Checkpoint, Config, Leaving, Msg, Mutation, NewView, Pbft, Timer, ViewChange},
};

impl Subject for Pbft {
    const PROGRESS: Timer = Timer::Progress;

    fn complaint(view: View) -> Msg {
        Msg::Complaint(view)
    }

    fn resend(config: &Config) -> u64 {
        config.resend
    }
}

pub(crate) type Lab = Manual<Pbft>;

impl Manual<Pbft> {
    pub(crate) fn new(n: usize, f: usize, interval: u64, correct: &[u16]) -> Self {
        Self::broken(None, n, f, interval, correct)
    }

    pub(crate) fn broken(mutation: Option<Mutation>, n: usize, f: usize, interval: u64, correct: &[u16]) -> Self {
        let config = Config { interval, mutation, ..Config::new(Quorums::new(n, f).unwrap(), Domain::default()) };
        Self::begin(config, |_| true, correct.iter().copied())
    }

    pub(crate) fn signed<T: phalanx_bft::Statement + alloy_rlp::Decodable>(&self, signer: u16, body: T) -> Signed<T> {
        phalanx_world::signed(Index(signer), body, self.config.domain)
    }

    /// The last VIEW-CHANGE that a correct replica has sent.
    pub(crate) fn change(&self, node: u16) -> Signed<ViewChange> {
        let sent = self.wire.iter().rev().find_map(|(from, _, message)| match message {
            Msg::ViewChange(leaving) if *from == node && leaving.change.signer.0 == node => {
                Some(leaving.change.clone())
            }
            _ => None,
        });
        sent.expect("a view change was sent")
    }

    pub(crate) fn empty_change(&self, signer: u16, view: View) -> Signed<ViewChange> {
        self.signed(signer, ViewChange { view, ..ViewChange::default() })
    }

    pub(crate) fn new_view(
        &self,
        view: View,
        changes: Vec<Signed<ViewChange>>,
        stable: Checkpoint,
        choices: Vec<B256>,
    ) -> Signed<NewView> {
        let signer = self.config.primary(view).0;
        self.signed(signer, NewView { view, changes, stable, proof: Vec::new(), choices })
    }
}

/// VIEW-CHANGE on the genesis state.
pub(crate) const fn leaving(change: Signed<ViewChange>) -> Msg {
    Msg::ViewChange(Leaving { change, proof: Vec::new() })
}

pub(crate) const GENESIS: Checkpoint = Checkpoint { slot: 0, digest: B256::ZERO };
