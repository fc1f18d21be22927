//! Certificates reach the pipeline when the log has what decides and names their blocks, and not before.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{
    cluster::DOMAIN,
    script::{Script, batch, computed, events, host, play, proposed, result, vote},
};
use alloy_primitives::B256;
use phalanx_adapter::Consensus as _;
use phalanx_bft::{Index, Lean, Out, Quorums, Signed};
use phalanx_engine_api::FatalCause;
use phalanx_host::{Action, Frame, Host, HostRecord, StateProof, StateVote, certifies};
use phalanx_keys::Simulated;
use phalanx_pipeline::{BlockMeta, ConsensusEvent};

/// A host that has a proposal for slot 1, and has appended no more than the test lets it write.
fn with_a_proposal() -> (Host<Script>, BlockMeta) {
    let mut host = host();
    let meta = proposed(&play(&mut host, vec![Out::Proposed { slot: 1, view: 0, batch: Some(batch(1)) }]));
    host.take_actions();
    (host, meta)
}

fn votes(meta: BlockMeta, signers: [u16; 3], lean: Lean) -> Vec<Signed<StateVote>> {
    let digest = B256::new(result(5).digest());
    signers.into_iter().map(|signer| vote(signer, meta.height, meta.id.0, digest, lean)).collect()
}

fn certificates(events: &[ConsensusEvent]) -> usize {
    events.iter().filter(|event| matches!(event, ConsensusEvent::StateCertificate { .. })).count()
}

/// Numbers of the appended decisions and results.
fn appended(host: &mut Host<Script>) -> Vec<u64> {
    let numbers = host.take_actions().into_iter().filter_map(|action| match action {
        Action::Append(number, HostRecord::Block(..) | HostRecord::Outcome(..)) => Some(number),
        _ => None,
    });
    numbers.collect()
}

/// A certificate implies the order. The block is committed only once its decision is in the log, and the own result.
#[test]
fn a_certificate_waits_for_the_decision_and_the_own_result() {
    for result_first in [true, false] {
        let (mut host, meta) = with_a_proposal();
        // Records are durable when the test says so.
        let durable = 1_000_000;
        if result_first {
            host.apply(computed(meta, 5)).unwrap();
        }
        host.on_frame(0, Index(1), Frame::Certificate(votes(meta, [0, 1, 3], Lean::Final)));
        if !result_first {
            assert_eq!(certificates(&events(&mut host)), 0, "no result");
            host.apply(computed(meta, 5)).unwrap();
        }
        let numbers = appended(&mut host);
        assert_eq!(numbers.len(), 2, "the decision, and the result");
        host.durable(0, durable);
        assert_eq!(certificates(&events(&mut host)), 1);
        assert_eq!(host.decided_slot(), 1);
    }
}

/// The event of a certificate waits for the records.
#[test]
fn a_certificate_waits_until_its_records_are_durable() {
    let mut host = host();
    Script::next(vec![Out::Proposed { slot: 1, view: 0, batch: Some(batch(1)) }]);
    host.on_frame(0, Index(0), Script::message());
    let meta = proposed(&events(&mut host));
    host.on_frame(0, Index(1), Frame::Certificate(votes(meta, [0, 1, 3], Lean::Final)));
    host.apply(computed(meta, 5)).unwrap();
    let numbers = appended(&mut host);
    assert_eq!(numbers, [1, 2]);
    for durable in [0, 1] {
        host.durable(0, durable);
        assert_eq!(certificates(&events(&mut host)), 0, "{durable} of 2 records are durable");
    }
    host.durable(0, 2);
    assert_eq!(certificates(&events(&mut host)), 1);
}

/// A certificate that comes before its block is kept, and one with a known vote is counted.
#[test]
fn a_certificate_that_comes_before_its_block_is_kept() {
    let (mut other, meta) = with_a_proposal();
    drop(events(&mut other));
    let mut host = host();
    let votes = votes(meta, [0, 1, 3], Lean::Final);
    host.on_frame(0, Index(0), Frame::StateVote(votes[0].clone()));
    host.on_frame(0, Index(1), Frame::Certificate(votes));
    assert!(events(&mut host).is_empty());
    let events = play(&mut host, vec![Out::Proposed { slot: 1, view: 0, batch: Some(batch(1)) }]);
    assert!(events.iter().any(|event| matches!(event, ConsensusEvent::Ordered { height: 1, .. })), "{events:?}");
    host.apply(computed(meta, 5)).unwrap();
    host.durable(0, 1_000_000);
    assert_eq!(certificates(&self::events(&mut host)), 1);
}

/// A certificate of a block that is not the decided one stops the node.
#[test]
fn a_certificate_against_the_decided_block_stops_the_node() {
    let (mut host, meta) = with_a_proposal();
    play(&mut host, vec![Out::Decided { slot: 1, batch: Some(batch(2)) }]);
    host.on_frame(0, Index(1), Frame::Certificate(votes(meta, [0, 1, 3], Lean::Final)));
    assert_eq!(host.next(0).unwrap_err(), FatalCause::Fork { height: 1 });
}

/// The votes of one certificate lean on one view, and its bytes prove that to others.
#[test]
fn a_certificate_that_is_handed_on_certifies() {
    let (mut host, meta) = with_a_proposal();
    let digest = B256::new(result(5).digest());
    let cast = |signer, lean| vote(signer, 1, meta.id.0, digest, lean);
    for signer in [0, 1, 3] {
        host.on_frame(0, Index(signer), Frame::StateVote(cast(signer, Lean::Early(1))));
    }
    host.apply(computed(meta, 5)).unwrap();
    host.durable(0, 1_000_000);
    let events = events(&mut host);
    let Some(ConsensusEvent::StateCertificate { bytes, .. }) = events.last() else { panic!("no certificate") };
    let Some(StateProof::Votes(votes)) = StateProof::decode(bytes) else { panic!("no votes") };
    let (quorums, scheme) = (Quorums::new(4, 1).unwrap(), Simulated::new(Index(9), 64));
    let proves = |votes: &[Signed<StateVote>]| certifies(votes, (1, meta.id.0, digest), quorums, DOMAIN, &scheme);
    assert!(proves(&votes) && !proves(&votes[1..]));
    let mut mixed = votes;
    mixed[0] = cast(mixed[0].signer.0, Lean::Early(2));
    assert!(!proves(&mixed), "views are mixed");
    // Two of them repeat their votes for newer views.
    host.on_frame(0, Index(0), Frame::StateVote(cast(0, Lean::Early(2))));
    host.on_frame(0, Index(1), Frame::StateVote(cast(1, Lean::Early(3))));
    host.take_actions();
    host.on_frame(0, Index(3), Frame::StateVote(cast(3, Lean::Early(1))));
    let sent = host.take_actions().into_iter().find_map(|action| match action {
        Action::Send(_, Frame::Certificate(votes)) => Some(votes),
        _ => None,
    });
    let (mut other, _) = with_a_proposal();
    other.on_frame(0, Index(2), Frame::Certificate(sent.expect("an answer")));
    other.apply(computed(meta, 5)).unwrap();
    other.durable(0, 1_000_000);
    assert_eq!(certificates(&self::events(&mut other)), 1);
}
