//! A traitor: contradictions become evidence, and inventions change nothing.

use super::lone::{DOMAIN, Lone, batch, block, vote};
use alloy_primitives::{Address, B256};
use phalanx_bft::{
    Batch, Index, Input, Out, Protocol as _, Statement as _,
    rounds::{
        Block, CertKind, Certificate, Kept, Msg, Mutation, Offer, Offered, Place, Record, Settings, Signature, Timer,
        Vote,
    },
};
use phalanx_world::sign;
use std::sync::Arc;

#[test]
fn contradictions_are_kept_as_evidence_once() {
    // Two blocks on one parent in one view.
    let mut lone = Lone::new(0);
    lone.hear(1, Msg::Proposal(block(1, None, 1, 1)));
    assert_eq!(lone.guilty(), []);
    for byte in [2, 3] {
        lone.hear(1, Msg::Proposal(block(1, None, 1, byte)));
        assert_eq!(lone.guilty(), [1]);
    }
    // Two votes of one kind; an order vote and a nullify.
    let pairs = [
        ((CertKind::Notarise, 1), (CertKind::Notarise, 2)),
        ((CertKind::Order, 1), (CertKind::Order, 2)),
        ((CertKind::Order, 1), (CertKind::Nullify, 0)),
        ((CertKind::Nullify, 0), (CertKind::Order, 1)),
    ];
    for (one, two) in pairs {
        let mut lone = Lone::new(0);
        for (kind, byte) in [one, one, two, two] {
            lone.hear(3, Msg::Vote(vote(2, kind, 1, B256::with_last_byte(byte))));
        }
        assert_eq!(lone.guilty(), [2], "{one:?} {two:?}");
    }
    // A leader that proposes on what it has seen, and again on what is notarised, is correct.
    let mut lone = Lone::new(0);
    let (first, other) = (block(1, None, 1, 1), block(1, None, 1, 2));
    lone.hear(2, Msg::Proposal(block(2, Some(&first), 2, 3)));
    lone.hear(2, Msg::Proposal(block(2, Some(&other), 2, 4)));
    assert_eq!(lone.guilty(), []);
}

/// A second vote of a replica is not counted.
#[test]
fn two_voices_of_one_replica_make_no_quorum() {
    let mut lone = Lone::new(0);
    let own = block(1, None, 1, 1);
    lone.hear(1, Msg::Proposal(own.clone()));
    lone.hear(2, Msg::Vote(vote(2, CertKind::Notarise, 1, B256::with_last_byte(9))));
    lone.hear(2, Msg::Vote(vote(2, CertKind::Notarise, 1, own.id)));
    lone.hear(3, Msg::Vote(vote(3, CertKind::Notarise, 1, own.id)));
    assert_eq!(lone.replica.current_view(), 1);
    lone.hear(1, Msg::Vote(vote(1, CertKind::Notarise, 1, own.id)));
    assert_eq!(lone.replica.current_view(), 2);
}

#[test]
fn a_block_in_an_impossible_place_is_not_speculated_on() {
    // No height above its view, whatever the numbers.
    for (view, height) in [(1, u64::MAX), (1, 2), (1 << 60, 1), (u64::MAX, u64::MAX)] {
        let mut lone = Lone::new(2);
        let block = block(view, None, height, 1);
        assert!(!lone.replica.wants(Index(1), &Msg::Proposal(block.clone())));
        lone.hear(1, Msg::Proposal(block));
        assert_eq!(lone.proposed(), []);
    }
    // Replica 0 would make the block behind this one, which has no votes.
    let mut lone = Lone::new(0);
    lone.hear(3, Msg::Proposal(block(3, None, 3, 1)));
    lone.input(Input::Batch(batch(2)));
    assert_eq!(lone.proposed(), []);
}

#[test]
fn a_certificate_of_too_few_is_not_even_verified() {
    let lone = Lone::new(0);
    let id = B256::with_last_byte(1);
    let certificate = |signers: &[u16]| {
        let signature = |signer: &u16| {
            let signed = vote(*signer, CertKind::Order, 1, id);
            Signature { signer: signed.signer, bytes: signed.signature }
        };
        let vote = Vote { kind: CertKind::Order, view: 1, id };
        Msg::Certificate(Certificate { vote, signatures: signers.iter().map(signature).collect() })
    };
    assert!(lone.replica.wants(Index(3), &certificate(&[1, 2, 3])));
    for signers in [&[1, 2][..], &[1, 2, 2], &[1, 2, 4], &[1, 2, 3, 3]] {
        assert!(!lone.replica.wants(Index(3), &certificate(signers)), "{signers:?}");
    }
}

/// A block is notarised and not ordered, the next view fails, and no client asks for anything: the leader makes an empty block, so
/// that the order goes on.
#[test]
fn a_block_that_is_not_ordered_is_followed_by_an_empty_one() {
    let mut lone = Lone::new(3);
    let first = block(1, None, 1, 1);
    lone.hear(1, Msg::Proposal(first.clone()));
    lone.votes(CertKind::Notarise, 1, first.id);
    assert_eq!((lone.replica.current_view(), lone.replica.decided(), lone.replica.room()), (2, 0, 0));
    lone.timer(Timer::View);
    lone.votes(CertKind::Nullify, 2, B256::ZERO);
    assert_eq!(lone.replica.current_view(), 3);
    let sent = lone.out.iter().rev().find_map(|out| match out {
        Out::Send(_, Msg::Proposal(block)) if block.place.author == Index(3) => Some(block.clone()),
        _ => None,
    });
    let sent = sent.expect("a block of view 3");
    assert_eq!((sent.place.view, sent.place.parent, sent.place.height), (3, first.id, 2));
    assert!(sent.content.batch.transactions().is_empty());
    // What the host speculated on below is told again, so that it is not proposed twice.
    assert_eq!(lone.replica.view(), 3);
    assert!(lone.replica.is_in_flight(batch(1).digest()));
}

/// A view fails with its block: what only that block has is free again, and the host's next batch has its place.
#[test]
fn a_failed_block_is_no_longer_in_flight() {
    let mut lone = Lone::new(2);
    lone.hear(1, Msg::Proposal(block(1, None, 1, 1)));
    assert!(lone.replica.is_in_flight(batch(1).digest()) && lone.replica.view() < 2);
    lone.timer(Timer::View);
    lone.votes(CertKind::Nullify, 1, B256::ZERO);
    assert_eq!((lone.replica.view(), lone.replica.current_view()), (2, 2));
    // The block of view 1 is proposed again in its place.
    assert!(lone.proposed().last().is_some_and(|last| *last == (1, batch(1))));
}

/// A certificate of the state may reach the host before that of the order reaches the protocol.
#[test]
fn a_checkpoint_that_is_committed_before_it_is_ordered_is_announced() {
    let mut lone = Lone::new(0);
    let mut parent: Option<Arc<Block<Offered>>> = None;
    for view in 1..=4 {
        let next = block(view, parent.as_deref(), view, view as u8);
        lone.hear(1, Msg::Proposal(next.clone()));
        lone.votes(CertKind::Notarise, view, next.id);
        if view == 4 {
            lone.input(Input::Committed { slot: 4, digest: B256::with_last_byte(7) });
        }
        assert!(!lone.out.iter().any(|out| matches!(out, Out::Send(_, Msg::Checkpoint(_)))));
        lone.votes(CertKind::Order, view, next.id);
        parent = Some(next);
    }
    assert_eq!(lone.replica.decided(), 4);
    assert!(lone.out.iter().any(|out| matches!(out, Out::Send(_, Msg::Checkpoint(signed)) if signed.body.slot == 4)));
}

/// The votes behind an order vote may come from a replica that is gone for good: the voter cannot give the view up, and ends it by
/// the certificate in its log.
#[test]
fn an_order_vote_does_not_lock_its_view_after_a_crash() {
    for mutation in [None, Some(Mutation::ForgetCertificate)] {
        let mut lone = Lone::open(2, &[], mutation);
        let first = block(1, None, 1, 1);
        lone.hear(1, Msg::Proposal(first.clone()));
        for signer in [0, 3] {
            lone.hear(signer, Msg::Vote(vote(signer, CertKind::Notarise, 1, first.id)));
        }
        assert_eq!(lone.replica.current_view(), 2);
        let again = Lone::open(2, &lone.log(), mutation);
        assert_eq!(again.replica.current_view(), if mutation.is_none() { 2 } else { 1 }, "{mutation:?}");
        // Compacted, the log has it as well.
        let again = Lone::open(2, &lone.replica.journal(), None);
        assert_eq!(again.replica.current_view(), 2);
    }
}

/// A child vouches for nothing: its author may be the same liar.
#[test]
fn a_child_that_comes_first_opens_no_door() {
    let mut lone = Lone::new(0);
    let sized = |view: u64, parent: &Block<Offered>, height| block(view, Some(parent), height, view as u8);
    // A timestamp from the far future.
    let place = block(1, None, 1, 1).place;
    let future = Batch::new(u64::MAX, Address::ZERO, Vec::new());
    let signature = sign(Index(1), &Offer::new(&place, &future).signed_bytes(DOMAIN));
    let future = Block::new(place, Offered { batch: future, signature });
    lone.hear(1, Msg::Proposal(sized(5, &future, 2)));
    lone.hear(1, Msg::Proposal(Arc::new(future)));
    assert!(!lone.log().iter().any(|record| matches!(record, Record::Voted(Kept::Voted(_)))));
    assert!(lone.proposed().is_empty());
    // Far views, and any number of blocks.
    let far = block(1 << 62, None, 1, 1);
    // With a true view of its parent, the child would be refused at once.
    let place = Place { view: 3, parent: far.id, parent_view: 0, author: Index(3), height: 2 };
    let signature = sign(Index(3), &Offer::new(&place, &batch(3)).signed_bytes(DOMAIN));
    let near = Arc::new(Block::new(place, Offered { batch: batch(3), signature }));
    lone.hear(3, Msg::Proposal(near));
    assert!(!lone.replica.wants(Index(1), &Msg::Proposal(far)));
    for byte in 0..100 {
        lone.hear(1, Msg::Proposal(block(9, None, 1, byte)));
    }
    let kept = (0..100).filter(|byte| lone.replica.is_in_flight(batch(*byte).digest())).count();
    assert!(kept <= 6, "{kept} blocks of one author are kept");
    // None of them is waited for.
    lone.out.clear();
    lone.timer(Timer::View);
    assert!(lone.log().is_empty(), "a view is given up for a block that cannot be voted for");
}

/// A block that goes around a view which is not nullified gets no vote.
#[test]
fn no_block_goes_around_a_view() {
    for mutation in [None, Some(Mutation::SkipViews)] {
        let mut lone = Lone::open(0, &[], mutation);
        let first = block(1, None, 1, 1);
        lone.hear(1, Msg::Proposal(first.clone()));
        lone.votes(CertKind::Notarise, 1, first.id);
        assert_eq!(lone.replica.current_view(), 2);
        lone.hear(2, Msg::Proposal(block(2, None, 1, 2)));
        let votes = |record: &&Record| matches!(record, Record::Voted(Kept::Voted(block)) if block.place.view == 2);
        assert_eq!(lone.log().iter().filter(votes).count(), usize::from(mutation.is_some()), "{mutation:?}");
    }
}

/// 2f+1 is no quorum where n is not 3f+1.
#[test]
fn quorums_share_a_correct_replica() {
    let settings = |n, f| Settings { n, f, term: 1, timeout_us: 1, optimistic_proposals: true };
    assert_eq!([(4, 1), (5, 1), (6, 1), (8, 2)].map(|(n, f)| settings(n, f).quorum()), [3, 4, 4, 6]);
}
