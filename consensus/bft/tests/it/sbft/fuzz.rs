//! Junk in every message: mutated bytes either do not decode or change nothing that matters.

use super::lab::{batch, certificate, config, decision, proposal, signed};
use crate::junk::{LIAR, assert_encodings, junk};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{
    Base, Domain, Group, Index, Message as _, Out, Protocol as _, Statement as _,
    sbft::{
        Checkpoint, CommitShare, Executed, Msg, NewView, Proposal, Sbft, SignShare, Stable, StateShare, Status,
        ViewChange, Vote,
    },
};
use phalanx_world::{is_genuine, sign};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Makes a message of each kind.
fn messages() -> Vec<Msg> {
    let (batch, share) = (batch(1), Bytes::from_static(b"a share"));
    let vote = Vote { view: 0, slot: 1, digest: batch.digest() };
    let digest = B256::with_last_byte(7);
    let state = StateShare { slot: 4, digest, share: share.clone() };
    let checkpoint = Checkpoint { slot: 4, digest };
    let stable =
        Stable { checkpoint, signature: sign(Group::Slow.signer(), &checkpoint.signed_bytes(Domain::default())) };
    let change = |signer| {
        let (prepared, decided) = (vec![certificate(vote)], vec![decision(vote, true)]);
        signed(signer, ViewChange { view: 1, stable: Stable::default(), accepted: vec![vote], prepared, decided })
    };
    let changes = vec![change(0), change(1), change(2)];
    let other = Vote { digest, ..vote };
    vec![
        proposal(0, 1, 0, &batch),
        Msg::SignShare(SignShare { vote, fast: share.clone(), slow: share.clone() }),
        Msg::Commit(CommitShare { vote, share: share.clone() }),
        Msg::Prepare(certificate(vote)),
        Msg::Decided(decision(vote, true)),
        Msg::Decided(decision(vote, false)),
        Msg::SignState(state.clone()),
        Msg::Executed(Executed { slot: 1, digest }, share),
        Msg::SignCheckpoint(state),
        Msg::Stable(stable),
        Msg::Equivocation(signed(0, Proposal(vote)).into(), signed(0, Proposal(other)).into()),
        Msg::ViewChange(change(1)),
        Msg::NewView(signed(1, NewView { view: 1, changes })),
        Msg::Fetch(batch.digest()),
        Msg::Fetched(batch),
        Msg::Status(Status { view: 0, active: true, stable: 0, decided: 0 }),
        Msg::Complaint(0),
    ]
}

#[test]
fn every_kind_of_message_survives_encoding() {
    assert_encodings(messages());
}

/// Certificates that many view changes share are verified once.
#[test]
fn equal_claims_of_a_new_view_are_verified_once() {
    let mut claims = Vec::new();
    let opening = messages().into_iter().find(|message| matches!(message, Msg::NewView(_)));
    opening.expect("one of each kind").claims(Domain::default(), &mut claims);
    // Its own signature, three view changes, one certificate, one decision.
    assert_eq!(claims.len(), 6);
    assert!(claims.iter().all(is_genuine));
}

#[test]
fn junk_neither_panics_nor_decides_nor_grows() {
    let config = Arc::new(config(4, 1));
    let (mut rng, messages) = (ChaCha8Rng::seed_from_u64(42), messages());
    let (mut decoded, mut proven) = (0, 0);
    for round in 0..400 {
        let mut out = Vec::new();
        let mut replica = Sbft::open(Index((round % 3) as u16), Arc::clone(&config), Base::default(), &[], &mut out);
        for _ in 0..500 {
            let Some(checked) = junk(&messages, Domain::default(), &mut rng) else { continue };
            decoded += 1;
            out.clear();
            replica.on_message(0, LIAR, checked, &mut out);
            // Nothing but what the groups have signed.
            for effect in &out {
                match effect {
                    Out::Decided { slot, batch: decided } => {
                        assert_eq!((*slot, decided.as_ref()), (1, Some(&batch(1))));
                        proven += 1;
                    }
                    Out::Stable { base, .. } => {
                        assert_eq!(*base, Base { slot: 4, digest: B256::with_last_byte(7) });
                    }
                    Out::Conflict { .. } => panic!("two decisions"),
                    _ => {}
                }
            }
            assert!(out.len() < 300);
        }
    }
    assert!(decoded > 10_000 && proven > 10, "{decoded} messages got through, {proven} decisions");
}
