//! State votes by hand: which a host casts, and which of those of others count and are answered.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{
    epochs::change,
    script::{
        NoMsg, Script, acknowledged, batch, blocks, certified, committed, computed, events, host, host_on, play,
        proposed, result, state_votes, vote,
    },
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::Consensus as _;
use phalanx_bft::{Batch, Index, Lean, Out, Signed, To};
use phalanx_host::{Action, Frame, Host, HostRecord, HostTimer, StateProof, StateVote, Tip};
use phalanx_pipeline::BlockMeta;

const X: B256 = B256::repeat_byte(1);
const Y: B256 = B256::repeat_byte(2);
const DIGEST: B256 = B256::repeat_byte(3);

fn receive(host: &mut Host<Script>, vote: &Signed<StateVote>) {
    host.on_frame(0, vote.signer, Frame::StateVote(vote.clone()));
}

/// The host's answer to a vote of replica 0.
fn answer(host: &mut Host<Script>, now: u64, frame: Frame<NoMsg>) -> Option<Frame<NoMsg>> {
    host.take_actions();
    host.on_frame(now, Index(0), frame);
    host.take_actions().into_iter().find_map(|action| match action {
        Action::Send(To::One(Index(0)), frame) => Some(frame),
        _ => None,
    })
}

/// Returns true if three votes for a slot certify it: the first one, repeated, is answered with all.
fn counts(host: &mut Host<Script>, slot: u64, signers: [u16; 3]) -> bool {
    let votes = signers.map(|signer| vote(signer, slot, X, DIGEST, Lean::Final));
    votes.iter().for_each(|vote| receive(host, vote));
    match answer(host, 0, Frame::StateVote(votes[0].clone())) {
        Some(Frame::Certificate(found)) => found == votes,
        None => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn votes_count_in_the_retained_slots_and_one_retention_ahead() {
    let tip = Tip { slot: 5, ..Tip::default() };
    let log = vec![HostRecord::Base(tip), HostRecord::Block(6, None)];
    let mut host = host_on(|config| config.retention = 10, log, &committed(5));
    for (slot, kept) in [(0, false), (5, false), (6, true), (16, true), (17, false), (u64::MAX, false)] {
        assert_eq!(counts(&mut host, slot, [0, 1, 3]), kept, "slot {slot}");
    }
}

#[test]
fn a_vote_of_no_replica_counts_for_nothing() {
    let mut host = host();
    assert!(!counts(&mut host, 1, [4, 5, 6]) && !counts(&mut host, 2, [0, 1, 4]));
    assert!(counts(&mut host, 3, [0, 1, 3]));
    // One of them contradicts itself, which is no evidence against anyone.
    host.take_actions();
    receive(&mut host, &vote(4, 2, Y, DIGEST, Lean::Final));
    assert!(host.take_actions().iter().all(|action| !matches!(action, Action::Evidence(..))));
}

#[test]
fn a_certificate_has_no_more_votes_than_replicas() {
    for (signers, counts) in [(&[0, 1, 3, 0, 1][..], false), (&[0, 1, 3, 0], true)] {
        let mut host = host();
        let votes: Vec<_> = signers.iter().map(|signer| vote(*signer, 1, X, DIGEST, Lean::Final)).collect();
        host.on_frame(0, Index(1), Frame::Certificate(votes.clone()));
        assert_eq!(answer(&mut host, 0, Frame::StateVote(votes[0].clone())).is_some(), counts, "{signers:?}");
    }
}

#[test]
fn a_vote_for_another_block_takes_the_earlier_one_away() {
    for (block, digest) in [(Y, DIGEST), (X, Y)] {
        let mut host = host();
        receive(&mut host, &vote(0, 1, X, DIGEST, Lean::Early(0)));
        receive(&mut host, &vote(0, 1, block, digest, Lean::Early(1)));
        receive(&mut host, &vote(1, 1, X, DIGEST, Lean::Early(0)));
        let third = vote(3, 1, X, DIGEST, Lean::Early(0));
        receive(&mut host, &third);
        assert_eq!(answer(&mut host, 0, Frame::StateVote(third.clone())), None, "two votes are left");
        // An older vote changes nothing.
        receive(&mut host, &vote(0, 1, X, DIGEST, Lean::Early(0)));
        assert_eq!(answer(&mut host, 0, Frame::StateVote(third)), None);
    }
}

#[test]
fn a_vote_is_answered_within_a_budget_and_a_certificate_never() {
    let mut host = host();
    assert!(counts(&mut host, 1, [0, 1, 3]));
    let first = vote(0, 1, X, DIGEST, Lean::Final);
    assert_eq!(answer(&mut host, 0, Frame::Certificate(vec![first.clone()])), None);
    let answered = (0..12_000).filter(|_| answer(&mut host, 0, Frame::StateVote(first.clone())).is_some()).count();
    assert_eq!(answered, (8 << 20) / (3 * 256) - 1, "8 MiB in a period");
    assert!(answer(&mut host, 50_000, Frame::StateVote(first)).is_some(), "another period");
}

#[test]
fn the_final_vote_for_a_committed_block_alone_is_an_answer() {
    let mut host = host();
    let meta = proposed(&play(&mut host, vec![Out::Decided { slot: 1, batch: Some(batch(1)) }]));
    host.apply(computed(meta, 5)).unwrap();
    let other = vote(0, 1, meta.id.0, B256::new(result(5).digest()), Lean::Final);
    receive(&mut host, &other);
    assert_eq!(answer(&mut host, 0, Frame::StateVote(other.clone())), None, "its block is not committed");
    play(&mut host, Vec::new());
    host.apply(acknowledged(meta)).unwrap();
    let Some(Frame::StateVote(own)) = answer(&mut host, 0, Frame::StateVote(other.clone())) else { panic!("no vote") };
    assert_eq!((own.signer, own.body), (Index(2), other.body));
}

#[test]
fn a_certificate_is_handed_on_again_until_its_block_is_committed() {
    let mut host = host();
    let meta = proposed(&play(&mut host, vec![Out::Decided { slot: 1, batch: Some(batch(1)) }]));
    host.apply(computed(meta, 5)).unwrap();
    for signer in [0, 1] {
        receive(&mut host, &vote(signer, 1, meta.id.0, B256::new(result(5).digest()), Lean::Final));
    }
    for _ in 0..2 {
        assert_eq!(certified(&play(&mut host, Vec::new())), [1]);
        host.on_timer(0, HostTimer::Votes);
    }
    play(&mut host, Vec::new());
    host.apply(acknowledged(meta)).unwrap();
    host.on_timer(0, HostTimer::Votes);
    assert!(certified(&events(&mut host)).is_empty());
}

/// Blocks that were proposed and order voted in view 0, from slot 1 on.
fn ordered(host: &mut Host<Script>, batches: &[Batch]) -> Vec<BlockMeta> {
    let slots = (1..).zip(batches);
    let outs = slots.flat_map(|(slot, batch)| {
        [Out::Proposed { slot, view: 0, batch: Some(batch.clone()) }, Out::OrderVoted { slot, view: 0 }]
    });
    let metas = blocks(&play(host, outs.collect()));
    host.take_actions();
    metas
}

/// Slots and bases of the own votes once these blocks have results.
fn votes(host: &mut Host<Script>, metas: &[BlockMeta]) -> Vec<(u64, Lean)> {
    metas.iter().for_each(|meta| host.apply(computed(*meta, 5)).unwrap());
    state_votes(host).into_iter().map(|vote| (vote.slot, vote.lean())).collect()
}

#[test]
fn an_own_vote_is_not_cast_for_two_blocks_on_one_basis() {
    let mut host = host();
    let metas = ordered(&mut host, &[batch(1), batch(2)]);
    assert_eq!(votes(&mut host, &metas), [(1, Lean::Early(0)), (2, Lean::Early(0))]);
    // The content of slot 2 has another parent, and with it another name.
    let other = proposed(&play(&mut host, vec![Out::Decided { slot: 1, batch: Some(batch(9)) }]));
    assert_eq!(other.height, 2);
    assert_eq!(votes(&mut host, &[other]), []);
    play(&mut host, vec![Out::OrderVoted { slot: 2, view: 1 }]);
    assert_eq!(votes(&mut host, &[]), [(2, Lean::Early(1))]);
}

#[test]
fn an_early_vote_leans_on_one_view_for_all_slots_below() {
    let mut host = host();
    let metas = ordered(&mut host, &[batch(1), batch(2)]);
    play(&mut host, vec![Out::OrderVoted { slot: 1, view: 1 }]);
    assert_eq!(votes(&mut host, &metas), [(1, Lean::Early(1))]);
    play(&mut host, vec![Out::OrderVoted { slot: 2, view: 1 }]);
    assert_eq!(votes(&mut host, &[]), [(2, Lean::Early(1))]);
}

#[test]
fn no_vote_is_cast_above_an_undecided_change_or_the_end_of_an_epoch() {
    // One that no quorum has signed may turn out to be none, which no vote anticipates.
    for (value, above) in [(change(1, &[0, 1, 3]), vec![]), (change(1, &[0, 1]), vec![(2, Lean::Final)])] {
        let mut host = host();
        let last = Batch::new(1, Address::ZERO, vec![value]);
        let metas = ordered(&mut host, &[last.clone(), batch(2)]);
        assert_eq!(votes(&mut host, &metas), [(1, Lean::Early(0))]);
        play(
            &mut host,
            vec![Out::Decided { slot: 2, batch: Some(batch(2)) }, Out::Decided { slot: 1, batch: Some(last) }],
        );
        assert_eq!(votes(&mut host, &[]), [vec![(1, Lean::Final)], above.clone()].concat());
        assert_eq!(votes(&mut host, &metas[1..]), above, "with a result that comes late");
    }
}

#[test]
fn an_uncommitted_block_is_neither_replayed_nor_retained() {
    let mut host = host();
    let metas = ordered(&mut host, &[batch(1), batch(2)]);
    votes(&mut host, &metas);
    assert!(host.block(1).unwrap().is_none(), "it is not decided");
    play(&mut host, vec![Out::Decided { slot: 1, batch: Some(batch(1)) }]);
    assert!(host.block(1).unwrap().is_some() && host.block(2).unwrap().is_none());
    assert!(host.retained(1).is_none(), "it is not committed");
    host.apply(acknowledged(metas[0])).unwrap();
    assert!(host.retained(1).is_some() && host.retained(2).is_none());
}

#[test]
fn a_commit_without_decision_or_result_stops_the_node() {
    for (decides, result) in [(true, false), (false, true)] {
        let mut host = host();
        let metas = ordered(&mut host, &[batch(1)]);
        if decides {
            play(&mut host, vec![Out::Decided { slot: 1, batch: Some(batch(1)) }]);
        }
        if result {
            votes(&mut host, &metas);
        }
        host.apply(acknowledged(metas[0])).unwrap();
        assert_eq!(host.next(0).unwrap_err(), phalanx_engine_api::FatalCause::Contradiction { height: 1 });
    }
}

#[test]
fn a_result_is_logged_once_and_again_for_a_block_that_comes_back() {
    let mut host = host();
    let metas = ordered(&mut host, &[batch(1)]);
    let logged = |host: &mut Host<Script>| {
        let actions = host.take_actions();
        actions.iter().filter(|action| matches!(action, Action::Append(_, HostRecord::Outcome(1, _)))).count()
    };
    for times in [1, 0] {
        host.apply(computed(metas[0], 5)).unwrap();
        assert_eq!(logged(&mut host), times);
    }
    play(&mut host, vec![Out::Proposed { slot: 1, view: 1, batch: Some(batch(2)) }]);
    assert_eq!(logged(&mut host), 0);
    let back = play(&mut host, vec![Out::Proposed { slot: 1, view: 2, batch: Some(batch(1)) }]);
    assert_eq!((proposed(&back).id, logged(&mut host)), (metas[0].id, 1));
    let (_, records) = host.compacted().unwrap();
    let results = records.iter().filter(|record| matches!(record, HostRecord::Outcome(1, _)));
    assert_eq!(results.count(), 1, "an undecided block may be committed right after its decision");
}

/// Blocks stay for a retention below the checkpoint, votes and transactions for one below the commit.
#[test]
fn what_is_older_than_the_retention_is_forgotten() {
    let mut host = host_on(|config| config.retention = 2, Vec::new(), &committed(0));
    let outs = (1..=6).map(|slot| Out::Decided { slot, batch: Some(batch(slot as u8)) });
    let metas = blocks(&play(&mut host, outs.collect()));
    votes(&mut host, &metas);
    let known = |host: &mut Host<Script>, byte: u8| {
        host.take_actions();
        host.submit(0, Bytes::from(vec![byte]));
        host.take_actions().iter().all(|action| !matches!(action, Action::Send(..)))
    };
    for meta in &metas {
        assert!(known(&mut host, 1), "before block {}", meta.height);
        host.apply(acknowledged(*meta)).unwrap();
        if meta.height == 4 {
            assert!(!known(&mut host, 1), "slot 1 is more than two below");
            assert!(known(&mut host, 2));
            break;
        }
    }
    metas[4..].iter().for_each(|meta| host.apply(acknowledged(*meta)).unwrap());
    let base = phalanx_bft::Base { slot: 6, digest: B256::ZERO };
    play(&mut host, vec![Out::Stable { base, proof: Bytes::new() }]);
    assert_eq!(host.base().slot, 3, "blocks 4 and 5 are retained below the checkpoint");
    let (_, records) = host.compacted().unwrap();
    let of_base = records.iter().filter(|record| matches!(record, HostRecord::Outcome(3, _)));
    assert_eq!(of_base.count(), 1, "the base has its result");
}

#[test]
fn the_votes_for_one_block_are_no_certificate_of_another() {
    let mut host = host();
    let metas = ordered(&mut host, &[batch(1)]);
    play(&mut host, vec![Out::Decided { slot: 1, batch: Some(batch(1)) }]);
    votes(&mut host, &metas);
    let certificate = |slot, block| {
        let votes = [0, 1, 3].map(|signer| vote(signer, slot, block, DIGEST, Lean::Final));
        StateProof::Votes(votes.to_vec()).encode()
    };
    let right = certificate(1, metas[0].id.0);
    assert_eq!(host.certified(1, &right), None, "the block is not committed");
    host.apply(acknowledged(metas[0])).unwrap();
    assert_eq!(host.certified(1, &right).map(|block| block.certificate), Some(right));
    assert_eq!(host.certified(1, &certificate(1, X)), None, "of another block");
    assert_eq!(host.certified(1, &certificate(2, metas[0].id.0)), None, "of another slot");
}
