//! Junk in every message: mutated bytes either do not decode or change nothing that matters.

use crate::junk::{LIAR, assert_encodings, junk};
use alloy_primitives::{Address, Bytes};
use phalanx_bft::{
    Base, Batch, Domain, Index, Out, Protocol as _, Quorums, Signed, Statement as _,
    pbft::{
        Checkpoint, Config, Decision, Fetch, Leaving, Msg, NewView, Pbft, PrePrepare, Report, Status, ViewChange, Vote,
    },
};
use phalanx_world::sign;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Makes a message of each kind.
fn messages(domain: Domain) -> Vec<Msg> {
    let batch = Batch::new(5, Address::ZERO, vec![Bytes::from(vec![1, 2, 3])]);
    let digest = batch.digest();
    let report = Report { slot: 1, digest, view: 0 };
    let signed = |signer: u16| {
        let body =
            ViewChange { view: 1, stable: Checkpoint::default(), prepared: vec![report], preprepared: vec![report] };
        Signed { signer: Index(signer), signature: sign(Index(signer), &body.signed_bytes(domain)), body }
    };
    let checkpoint = Checkpoint { slot: 128, digest };
    let new_view = NewView {
        view: 1,
        changes: vec![signed(0), signed(1), signed(2)],
        stable: Checkpoint::default(),
        proof: Vec::new(),
        choices: vec![digest],
    };
    vec![
        Msg::PrePrepare(PrePrepare { view: 0, slot: 1, batch: batch.clone() }),
        Msg::Prepare(Vote { view: 0, slot: 1, digest }),
        Msg::Commit(Vote { view: 0, slot: 1, digest }),
        Msg::Checkpoint(Signed {
            signer: Index(1),
            signature: sign(Index(1), &checkpoint.signed_bytes(domain)),
            body: checkpoint,
        }),
        Msg::ViewChange(Leaving { change: signed(1), proof: Vec::new() }),
        Msg::NewView(Signed {
            signer: Index(1),
            signature: sign(Index(1), &new_view.signed_bytes(domain)),
            body: new_view,
        }),
        Msg::Fetch(Fetch { digest }),
        Msg::Fetched(batch),
        Msg::Decided(Decision { slot: 1, digest }),
        Msg::Status(Status { view: 0, active: true, opened: 0, stable: 0, decided: 0 }),
        Msg::Complaint(0),
    ]
}

#[test]
fn every_kind_of_message_survives_encoding() {
    assert_encodings(messages(Domain::default()));
}

#[test]
fn junk_neither_panics_nor_decides_nor_grows() {
    let domain = Domain::unnamed(9, 1);
    let config = Arc::new(Config { interval: 4, ..Config::new(Quorums::new(4, 1).unwrap(), domain) });
    let (mut rng, messages) = (ChaCha8Rng::seed_from_u64(7), messages(domain));
    let mut decoded = 0;
    for round in 0..400 {
        let mut out = Vec::new();
        let mut replica = Pbft::open(Index((round % 4) as u16), config.clone(), Base::default(), &[], &mut out);
        for _ in 0..500 {
            let Some(checked) = junk(&messages, domain, &mut rng) else { continue };
            decoded += 1;
            out.clear();
            replica.on_message(0, LIAR, checked, &mut out);
            assert!(
                !out.iter().any(|out| matches!(out, Out::Decided { .. } | Out::Conflict { .. } | Out::Stable { .. }))
            );
            assert!(out.len() < 300);
        }
    }
    assert!(decoded > 10_000, "{decoded} messages got through");
}
