//! Junk in every message: mutated bytes either do not decode or change nothing that matters.

use super::lone::{DOMAIN, block, vote};
use crate::junk::{LIAR, assert_encodings, junk};
use alloy_primitives::B256;
use phalanx_bft::{
    Base, Index, Out, Protocol as _, Quorums, Signed, Statement as _,
    rounds::{CertKind, Certificate, Chain, Checkpoint, Config, Msg, Rounds, Signature, Status, Vote},
};
use phalanx_world::sign;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Makes a message of each kind.
fn messages() -> Vec<Msg> {
    let first = block(1, None, 1, 1);
    let second = block(2, Some(&first), 2, 2);
    let signature = |signer: u16, kind, view, id| {
        let signed = vote(signer, kind, view, id);
        Signature { signer: signed.signer, bytes: signed.signature }
    };
    let certificate = |kind, view, id| Certificate {
        vote: Vote { kind, view, id },
        // Of too few: a traitor has the signatures of f+1 at most.
        signatures: [2, 3].map(|signer| signature(signer, kind, view, id)).to_vec(),
    };
    let checkpoint = Checkpoint { slot: 4, view: 4, id: first.id, digest: second.id };
    let signature = sign(Index(3), &checkpoint.signed_bytes(DOMAIN));
    vec![
        Msg::Proposal(first.clone()),
        Msg::Proposal(second.clone()),
        // The liar's own, children first.
        Msg::Proposal(block(7, Some(&block(3, None, 1, 3)), 2, 4)),
        Msg::Proposal(block(3, None, 1, 3)),
        Msg::Proposal(block(3, Some(&block((1 << 62) + 3, None, 1, 6)), 2, 5)),
        Msg::Proposal(block((1 << 62) + 3, None, 1, 6)),
        Msg::Vote(vote(3, CertKind::Notarise, 1, first.id)),
        Msg::Vote(vote(3, CertKind::Order, 1, first.id)),
        Msg::Vote(vote(3, CertKind::Nullify, 2, B256::ZERO)),
        Msg::Certificate(certificate(CertKind::Notarise, 1, first.id)),
        Msg::Certificate(certificate(CertKind::Nullify, 2, B256::ZERO)),
        Msg::Fetch(first.id),
        Msg::Checkpoint(Signed { signer: Index(3), signature, body: checkpoint }),
        Msg::Status(Status { view: 1, stable: 0, decided: 0 }),
        Msg::Chain(Chain { certificate: certificate(CertKind::Order, 2, second.id), blocks: vec![first, second] }),
    ]
}

#[test]
fn every_kind_of_message_survives_encoding() {
    assert_encodings(messages());
}

#[test]
fn junk_neither_panics_nor_decides_nor_grows() {
    let quorums = Quorums::new(4, 1).expect("a legal size");
    let config = Arc::new(Config { interval: 4, ..Config::new(quorums, DOMAIN) });
    let (mut rng, messages) = (ChaCha8Rng::seed_from_u64(7), messages());
    let mut decoded = 0;
    for round in 0..400 {
        let mut out = Vec::new();
        let mut replica = Rounds::open(Index((round % 3) as u16), config.clone(), Base::default(), &[], &mut out);
        for _ in 0..500 {
            let Some(checked) = junk(&messages, DOMAIN, &mut rng) else { continue };
            decoded += 1;
            out.clear();
            replica.on_message(0, LIAR, checked, &mut out);
            let done =
                |out: &Out<Rounds>| matches!(out, Out::Decided { .. } | Out::Conflict { .. } | Out::Stable { .. });
            assert!(!out.iter().any(done));
            assert!(out.len() < 100);
        }
        assert!(replica.journal().len() < 100, "{} records", replica.journal().len());
    }
    assert!(decoded > 10_000, "{decoded} messages got through");
}
