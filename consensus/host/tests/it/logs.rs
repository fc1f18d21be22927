//! Starts by hand: what a host takes from its log and from its engine's certificate, and the end of a silence.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{
    script::{NoMsg, Script, batch, blocks, closed, committed, events, host, host_on, play, vote},
    transfers::source,
};
use alloy_primitives::{B256, Bytes};
use phalanx_adapter::Consensus as _;
use phalanx_bft::{Base, Index, Input, Lean, Out, Reach, To};
use phalanx_engine_api::{BlockId, CommitMeta, CommittedTip, ExecId};
use phalanx_host::{Action, Frame, Host, HostRecord, HostTimer, Reached, StateProof, Tip};
use phalanx_pipeline::ConsensusEvent;

/// Results of slots in a log that is written anew.
fn results(log: Vec<HostRecord<()>>, height: u64) -> Vec<(u64, Bytes)> {
    let (_, records) = host_on(|_| (), log, &committed(height)).compacted().unwrap();
    let results = records.into_iter().filter_map(|record| match record {
        HostRecord::Outcome(slot, outcome) => Some((slot, outcome)),
        _ => None,
    });
    results.collect()
}

#[test]
fn a_result_in_the_log_belongs_to_the_block_that_it_names() {
    let right = results(source(&[Some(batch(1))]).0.compacted().unwrap().1, 0);
    let wrong = results(source(&[Some(batch(2))]).0.compacted().unwrap().1, 0);
    assert_eq!((right.len(), wrong.len()), (1, 1));
    let exec = ExecId(B256::from_slice(&right[0].1[..32]));
    let begins = [HostRecord::Block(1, Some(batch(1))), HostRecord::Base(Tip { slot: 1, exec, ..Tip::default() })];
    for (height, begin) in begins.into_iter().enumerate() {
        let outcome = |of: &[(u64, Bytes)]| HostRecord::Outcome(1, of[0].1.clone());
        assert_eq!(results(vec![begin.clone(), outcome(&wrong)], height as u64), [], "{begin:?}");
        assert_eq!(results(vec![begin, outcome(&right), outcome(&wrong)], height as u64), right);
    }
}

/// An engine may have committed by a certificate what the log lacks the decision of.
#[test]
fn a_decision_that_a_certificate_proves_is_logged_at_the_start() {
    let (mut first, results) = source(&[Some(batch(1))]);
    let meta = first.block(1).unwrap().expect("it is decided").meta;
    let proof = |signers: &[u16]| {
        let digest = B256::new(results[0].digest());
        let votes = signers.iter().map(|signer| vote(*signer, 1, meta.id.0, digest, Lean::Final));
        Some(StateProof::Votes(votes.collect()).encode())
    };
    let right = CommittedTip {
        exec: ExecId(B256::new(results[0].execution)),
        meta: CommitMeta { block: meta.id, state_certificate: proof(&[0, 1, 3]), ..CommitMeta::default() },
        ..committed(1)
    };
    let adopts = |tip: &CommittedTip, byte| {
        let mut host = closed(|_| (), Vec::new());
        Script::next(vec![
            Out::Proposed { slot: 1, view: 0, batch: Some(batch(byte)) },
            Out::Proposed { slot: 2, view: 0, batch: Some(batch(9)) },
        ]);
        let adopts = host.adopt(tip).unwrap();
        let actions = host.take_actions();
        let logged = actions.iter().filter(|action| matches!(action, Action::Append(_, HostRecord::Block(1, Some(_)))));
        assert_eq!((logged.count(), host.decided_slot()), if adopts { (1, 1) } else { (0, 0) });
        adopts
    };
    assert!(adopts(&right, 1));
    assert!(!adopts(&right, 2), "the log leads to another block");
    let with = |meta: CommitMeta| CommittedTip { meta, ..right.clone() };
    let few = CommitMeta { state_certificate: proof(&[0, 1]), ..right.meta.clone() };
    assert!(!adopts(&with(few), 1), "no quorum");
    let other = CommitMeta { block: BlockId(B256::ZERO), ..right.meta.clone() };
    assert!(!adopts(&with(other), 1), "another block");
    assert!(!adopts(&CommittedTip { exec: ExecId::GENESIS, ..right.clone() }, 1), "another execution");
    assert!(!adopts(&with(CommitMeta { state_certificate: None, ..right.meta.clone() }), 1), "no certificate");
}

/// Reach in the answer to a question of replica 1.
fn reach(host: &mut Host<Script>, now: u64) -> Option<Reached> {
    host.take_actions();
    host.on_frame(now, Index(1), Frame::WantReach(4));
    host.take_actions().into_iter().find_map(|action| match action {
        Action::Send(To::One(Index(1)), Frame::Reached(reached)) => Some(reached),
        _ => None,
    })
}

#[test]
fn a_silent_host_speaks_once_its_checkpoint_is_above_all_old_votes() {
    let log = vec![HostRecord::Silent(true)];
    let mut host = host_on(|config| config.start = 7, log, &committed(0));
    let at = |stable| Some(Reach { view: 3, stable, last: stable + 8 });
    Script::set(|play| play.reach = at(0));
    assert_eq!(reach(&mut host, 0), None, "it knows too little");
    let old = Reach { view: 3, stable: 0, last: 8 };
    for (from, start) in [(0, 7), (2, 7), (4, 7), (3, 6), (1, 7)] {
        host.on_frame(0, Index(from), Frame::Reached(Reached { start, reach: old }));
    }
    let stable = |host: &mut Host<Script>, slot| {
        Script::set(|play| play.reach = at(slot));
        Script::next(vec![
            Out::Stable { base: Base { slot, digest: B256::ZERO }, proof: Bytes::new() },
            Out::Proposed { slot: 1, view: 0, batch: Some(batch(1)) },
            Out::OrderVoted { slot: 1, view: 0 },
        ]);
        host.on_timer(0, HostTimer::Protocol(()));
        let voted = events(host).iter().any(|event| matches!(event, ConsensusEvent::OrderVoteDurable(_)));
        assert!(!voted, "an order vote of a silent host");
        !host.is_silent()
    };
    assert!(!stable(&mut host, 100), "two others have answered its question, and three have to");
    host.on_frame(0, Index(3), Frame::Reached(Reached { start: 6, reach: old }));
    assert!(host.is_silent());
    Script::set(|play| play.reach = at(15));
    host.on_frame(0, Index(3), Frame::Reached(Reached { start: 7, reach: old }));
    assert!(!stable(&mut host, 15), "it may have voted in slot 16");
    host.take_actions();
    assert!(stable(&mut host, 16));
    let logged = host.take_actions().into_iter();
    assert_eq!(logged.filter(|action| matches!(action, Action::Append(_, HostRecord::Silent(false)))).count(), 1);
    assert_eq!(reach(&mut host, 0), Some(Reached { start: 4, reach: at(16).unwrap() }));
    let most = (8 << 20) / 128;
    assert_eq!((0..most + 10).filter(|_| reach(&mut host, 0).is_some()).count(), most - 1, "a budget in a period");
    assert!(reach(&mut host, 50_000).is_some(), "another period");
}

/// Requests that a host hands the leader.
fn forwarded(host: &mut Host<Script>) -> Vec<Bytes> {
    let requests = host.take_actions().into_iter().filter_map(|action| match action {
        Action::Send(_, Frame::<NoMsg>::Request(tx)) => Some(tx),
        _ => None,
    });
    requests.collect()
}

#[test]
fn a_transaction_has_its_turn_again_once_the_block_that_skipped_it_is_committed() {
    let mut host = host_on(|config| config.batch_bytes = 100, Vec::new(), &committed(0));
    for (length, fits) in [(92, true), (93, false)] {
        host.submit(0, Bytes::from(vec![1; length]));
        assert_eq!(forwarded(&mut host).len(), usize::from(fits), "{length} bytes and 8 in a batch of 100");
    }
    let skipped = batch(1).transactions()[0].clone();
    let metas = blocks(&play(&mut host, vec![Out::Decided { slot: 1, batch: Some(batch(1)) }]));
    host.apply(crate::script::computed(metas[0], 5)).unwrap();
    host.take_actions();
    host.offer(0, skipped.clone());
    assert_eq!(forwarded(&mut host), Vec::<Bytes>::new(), "its block may not have skipped it");
    host.apply(crate::script::acknowledged(metas[0])).unwrap();
    host.offer(0, skipped.clone());
    assert_eq!(forwarded(&mut host), [skipped]);
}

#[test]
fn a_decided_batch_is_not_proposed_again_while_its_record_is_written() {
    for decided in [false, true] {
        let mut host = host();
        host.submit(0, batch(1).transactions()[0].clone());
        let decision = decided.then_some(Out::Decided { slot: 1, batch: Some(batch(1)) });
        Script::next([Out::Persist(())].into_iter().chain(decision).collect());
        host.on_frame(0, Index(0), Script::message());
        Script::set(|play| (play.leader, play.room) = (Index(2), 9));
        host.on_timer(0, HostTimer::Batch);
        let proposed = Script::inputs().iter().any(|input| matches!(input, Input::Batch(_)));
        assert_eq!(proposed, !decided);
    }
}
