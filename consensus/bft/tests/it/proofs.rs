//! True statements that prove something else than what they are shown for.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{lab::Lab, sbft::lab};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Batch, Domain, Group, Index, Protocol as _, Signed, Statement as _,
    lanes::{Car, Header},
    pbft::{Checkpoint, Leaving, Msg},
    sbft,
};
use phalanx_world::sign;

/// A quorum has signed the checkpoint of slot 4, and not that of slot 8.
#[test]
fn a_checkpoint_is_not_proven_by_another() {
    let lab = Lab::new(4, 1, 4, &[1]);
    let proven = Checkpoint { slot: 4, digest: B256::repeat_byte(1) };
    let proof: Vec<_> = [0, 2, 3].into_iter().map(|signer| lab.signed(signer, proven)).collect();
    for (stable, is_wanted) in [(proven, true), (Checkpoint { slot: 8, ..proven }, false)] {
        let mut body = lab.empty_change(3, 1).body;
        body.stable = stable;
        let change = Msg::ViewChange(Leaving { change: lab.signed(3, body), proof: proof.clone() });
        assert_eq!(lab.replicas[&1].wants(Index(3), &change), is_wanted, "{stable:?}");
    }
}

/// π of f+1 replicas is for clients, and decides no slot.
#[test]
fn the_signature_of_a_state_decides_nothing() {
    let lab = lab::Lab::new(lab::config(4, 1), [1]);
    let vote = sbft::Vote { view: 0, slot: 1, digest: B256::repeat_byte(1) };
    for (group, is_wanted) in [(Group::Slow, true), (Group::Fast, true), (Group::State, false)] {
        let signature = sign(group.signer(), &vote.signed_bytes(Domain::default()));
        let decided = vec![sbft::Decision { vote, group, signature }];
        let (accepted, prepared) = (Vec::new(), Vec::new());
        let body = sbft::ViewChange { view: 1, stable: sbft::Stable::default(), accepted, prepared, decided };
        let change = sbft::Msg::ViewChange(lab::signed(3, body));
        assert_eq!(lab.replicas[&1].wants(Index(3), &change), is_wanted, "{group:?}");
    }
}

#[test]
fn a_car_is_signed_by_the_owner_of_its_lane() {
    let batch = Batch::new(1, Address::ZERO, Vec::new());
    let body = Header { lane: Index(3), position: 1, parent: B256::ZERO, batch: batch.digest() };
    let car = |signer| Car {
        header: Signed { signer: Index(signer), signature: Bytes::new(), body },
        batch: batch.clone(),
        proof: Vec::new(),
    };
    assert!(car(3).is_well_formed(2, 4) && !car(2).is_well_formed(2, 4));
}
