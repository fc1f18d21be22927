//! Ends and beginnings of epochs by hand, and logs that pass between them.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{
    cluster::{DOMAIN, Net, Setup},
    epochs::change,
    script::{
        Script, acknowledged, batch, blocks, certified, committed, computed, events, host, host_on, play, proposed,
        result, state_votes, vote,
    },
    transfers::source,
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::Consensus as _;
use phalanx_bft::{Base, Batch, Domain, Index, Input, Lean, Out, Quorums, Signed, To, pbft::Pbft};
use phalanx_engine_api::{CommitMeta, CommittedTip};
use phalanx_host::{
    Action, Anchor, Boundary, Change, ChangeError, Frame, Host, HostConfig, HostRecord, HostTimer, SignedChange,
    StateProof, StateVote, Tip, certifies,
};
use phalanx_keys::{Scheme as _, Simulated};
use phalanx_pipeline::{BlockMeta, ConsensusEvent};

const SCHEME: Simulated = Simulated::new(Index(9), 64);

fn config(epoch: u64) -> HostConfig {
    HostConfig::new(Quorums::new(4, 1).unwrap(), Domain { epoch, ..DOMAIN })
}

/// A batch that ends the first epoch.
fn last() -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from_static(b"tx"), change(1, &[0, 1, 3])])
}

/// The boundary of an epoch that has ended in a world, and the anchor that it is.
fn boundary() -> (Boundary, Anchor) {
    let mut cluster = Net::<Pbft>::new(Setup { epochs: vec![vec![0, 1, 2, 3]], ..Setup::new(4) });
    (0..3).for_each(|number| cluster.submit(number * 5_000, number));
    cluster.run(100_000);
    (0..4).for_each(|node| cluster.submit_tx(node, change(1, &[0, 1, 3])));
    cluster.run(1_000_000);
    let boundary = cluster.boundary(1).expect("the first epoch has ended");
    let anchor = boundary.check(&config(0), &SCHEME).expect("a quorum has signed it");
    (boundary, anchor)
}

#[test]
fn a_changed_boundary_is_none() {
    let (boundary, _) = boundary();
    let check = |boundary: &Boundary| boundary.check(&config(0), &SCHEME).is_some();
    assert!(check(&boundary));
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Boundary));
    let changes: [Change<'_>; 8] = [
        ("epoch", &|boundary| boundary.change.epoch += 1),
        ("network", &|boundary| boundary.change.network.0[0] ^= 1),
        ("name", &|boundary| boundary.block.block.0[0] ^= 1),
        ("slot", &|boundary| boundary.block.slot += 1),
        ("parent", &|boundary| boundary.parent.0[0] ^= 1),
        ("time of the content", &|boundary| {
            let batch = &boundary.batch;
            boundary.batch = Batch::new(9, batch.beneficiary(), batch.transactions().to_vec());
        }),
        ("content", &|boundary| boundary.batch = batch(1)),
        ("certificate", &|boundary| boundary.block.certificate = Bytes::new()),
    ];
    for (what, change) in changes {
        let mut changed = boundary.clone();
        change(&mut changed);
        assert!(!check(&changed), "{what}");
    }
    assert!(boundary.check(&config(1), &SCHEME).is_none(), "of another epoch");
}

#[test]
fn votes_certify_their_own_slot_and_no_more_than_the_replicas_vote() {
    let (boundary, anchor) = boundary();
    let StateProof::Votes(votes) = StateProof::decode(&boundary.block.certificate).unwrap() else { panic!("no votes") };
    let digest = B256::new(anchor.result().digest());
    let proves = |votes: &[Signed<StateVote>], slot| {
        certifies(votes, (slot, boundary.block.block, digest), config(0).quorums, DOMAIN, &SCHEME)
    };
    let slot = boundary.slot();
    assert!(proves(&votes, slot) && !proves(&votes, slot + 1));
    let many = [&votes[..], &votes[..]].concat();
    assert!(!proves(&many, slot), "{} votes of four replicas", many.len());
    assert!(proves(&many[..4], slot), "one is repeated");
    let longer = [boundary.block.certificate.as_ref(), &[0]].concat();
    assert_eq!(StateProof::decode(&longer), None, "a byte follows");
}

#[test]
fn members_sign_one_change_once() {
    let check = |value: &[u8]| SignedChange::check(value, config(0).quorums, DOMAIN, &SCHEME).map(drop);
    assert_eq!(check(&change(1, &[0, 1, 3])), Ok(()));
    assert_eq!(check(&change(1, &[0, 1, 3, 3])), Err(ChangeError::Few { signed: 3, needed: 3 }), "one signs twice");
    let signed = [(0, 1), (1, 1), (3, 2)].map(|(signer, network)| {
        let body = Change { epoch: 1, network: B256::repeat_byte(network) };
        let signature = Simulated::new(Index(signer), 64).sign(&phalanx_bft::Statement::signed_bytes(&body, DOMAIN));
        Signed { signer: Index(signer), signature, body }
    });
    assert_eq!(check(&SignedChange::new(signed.to_vec()).to_value()), Err(ChangeError::Differs));
}

/// Kinds of the records of a log, with their slots.
fn kinds(log: &[HostRecord<()>]) -> Vec<String> {
    let kind = |record: &HostRecord<()>| match record {
        HostRecord::Base(tip) => format!("base {}", tip.slot),
        HostRecord::Protocol(()) => "protocol".to_owned(),
        HostRecord::Block(slot, _) => format!("block {slot}"),
        HostRecord::Outcome(slot, _) => format!("result {slot}"),
        HostRecord::Silent(silent) => format!("silent {silent}"),
        HostRecord::Epoch(boundary) => format!("epoch {}", boundary.change.epoch),
    };
    log.iter().map(kind).collect()
}

#[test]
fn a_log_passes_to_the_next_epoch_with_its_blocks_and_its_silence() {
    let (boundary, anchor) = boundary();
    let end = boundary.slot();
    let earlier = Boundary { change: Change { epoch: 0, ..boundary.change }, ..boundary.clone() };
    let log = |silent: &[bool]| {
        let mut log = vec![HostRecord::Epoch(Box::new(earlier.clone())), HostRecord::Base(Tip::default())];
        for slot in [end, end + 1] {
            log.extend([
                HostRecord::Outcome(slot, Bytes::new()),
                HostRecord::Protocol(()),
                HostRecord::Block(slot, None),
            ]);
        }
        log.extend(silent.iter().map(|silent| HostRecord::Silent(*silent)));
        HostRecord::pass(&boundary, log)
    };
    let passed = ["epoch 1".to_owned(), "base 0".to_owned(), format!("result {end}"), format!("block {end}")];
    assert_eq!(kinds(&log(&[])), passed);
    assert_eq!(kinds(&log(&[true, false])), passed, "it speaks");
    assert_eq!(kinds(&log(&[false, true])), [&passed[..], &["silent true".to_owned()]].concat());
    // One that joins has the state after a block, and nothing else.
    let joined = [format!("base {end}"), format!("result {end}")];
    assert_eq!(kinds(&HostRecord::joined(None, &anchor, false)), joined);
    let all = [&["epoch 1".to_owned()][..], &joined, &["silent true".to_owned()]].concat();
    assert_eq!(kinds(&HostRecord::joined(Some(&boundary), &anchor, true)), all);
}

/// A host of the second epoch with this log and this committed height.
fn second(boundary: &Boundary, log: Vec<HostRecord<()>>, height: u64) -> Host<Script> {
    let log = [vec![HostRecord::Epoch(Box::new(boundary.clone()))], log].concat();
    host_on(|config| config.domain.epoch = 1, log, &committed(height))
}

#[test]
fn a_host_that_joins_begins_the_epoch_above_its_boundary() {
    let (boundary, anchor) = boundary();
    let end = boundary.slot();
    let mut host = second(&boundary, HostRecord::joined(None, &anchor, true), end);
    assert!(host.is_silent() && host.base() == anchor.tip());
    let standing = host.standing();
    assert_eq!((standing.first, standing.last.map(|last| last.height)), (end + 1, Some(end)), "it has a block");
    assert_eq!((host.slot_of(end), host.slot_of(end + 1)), (None, Some(1)));
    let kept = ["epoch 1".to_owned(), format!("base {end}"), format!("result {end}"), "silent true".to_owned()];
    assert_eq!(kinds(&host.compacted().unwrap().1), kept);
    assert!(host.certified(end, &Bytes::new()).is_some_and(|block| block == boundary.block));
    // Clients learn the slot that the certificate names.
    Script::next(vec![Out::Certificate { slot: 2, digest: B256::ZERO, signature: Bytes::new(), answers: true }]);
    host.on_timer(0, HostTimer::Protocol(()));
    let numbers = host.take_actions().into_iter().find_map(|action| match action {
        Action::Certified { slot, in_epoch, .. } => Some((slot, in_epoch)),
        _ => None,
    });
    assert_eq!(numbers, Some((end + 2, 2)));
}

#[test]
fn a_host_below_its_epoch_fetches_the_blocks_up_to_the_boundary() {
    let (boundary, _) = boundary();
    let wants = |host: &mut Host<Script>| {
        let wants = host.take_actions().into_iter().filter_map(|action| match action {
            Action::Send(To::One(_), Frame::WantBlocks(want)) => Some((want.from, want.to)),
            _ => None,
        });
        wants.collect::<Vec<_>>()
    };
    let end = boundary.slot();
    let tip = |slot| vec![HostRecord::Base(Tip { slot, ..Tip::default() })];
    for (height, wanted) in [(0, vec![(1, end)]), (end - 1, vec![(end, end)]), (end, vec![])] {
        let mut host = second(&boundary, tip(height), height);
        assert_eq!(wants(&mut host), wanted, "at height {height}");
        assert_eq!(host.certified(end, &Bytes::new()).is_some(), height == end, "others need the state");
    }
}

/// Final votes of a quorum for a result of a block.
fn quorum(meta: BlockMeta) -> Vec<Signed<StateVote>> {
    let digest = B256::new(result(5).digest());
    [0, 1, 3].map(|signer| vote(signer, meta.height, meta.id.0, digest, Lean::Final)).to_vec()
}

/// Boundaries among the actions, and certificates to all.
fn ended(host: &mut Host<Script>) -> (usize, usize) {
    let actions = host.take_actions();
    let sent = actions.iter().filter(|action| matches!(action, Action::Send(To::All, Frame::Certificate(_))));
    let ended = actions.iter().filter(|action| matches!(action, Action::Ended(_)));
    (ended.count(), sent.count())
}

#[test]
fn an_epoch_ends_once_its_last_block_is_committed_and_votes_prove_it() {
    let mut host = host();
    let meta = proposed(&play(&mut host, vec![Out::Decided { slot: 1, batch: Some(last()) }]));
    // A checkpoint certifies the block, and no member of another epoch can check that.
    let base = Base { slot: 1, digest: B256::new(result(5).digest()) };
    play(&mut host, vec![Out::Stable { base, proof: Bytes::new() }]);
    host.apply(computed(meta, 5)).unwrap();
    assert_eq!(certified(&play(&mut host, Vec::new())), [1]);
    host.apply(acknowledged(meta)).unwrap();
    assert_eq!(ended(&mut host), (0, 0), "one vote proves nothing");
    // The own vote is repeated until others have answered.
    host.on_timer(0, HostTimer::Votes);
    assert_eq!(state_votes(&mut host).len(), 1);
    host.on_frame(0, Index(1), Frame::Certificate(quorum(meta)));
    assert_eq!(ended(&mut host), (1, 1));
    host.on_timer(0, HostTimer::Votes);
    assert_eq!((ended(&mut host), state_votes(&mut host).len()), ((0, 0), 0), "it is over");
}

#[test]
fn votes_alone_end_no_epoch_before_its_last_block_is_committed() {
    let mut host = host();
    let meta = proposed(&play(&mut host, vec![Out::Decided { slot: 1, batch: Some(last()) }]));
    host.apply(computed(meta, 5)).unwrap();
    host.on_frame(0, Index(1), Frame::Certificate(quorum(meta)));
    host.durable(0, 1_000_000);
    assert_eq!(ended(&mut host), (0, 0));
    host.apply(acknowledged(meta)).unwrap();
    assert_eq!(ended(&mut host), (1, 1));
}

#[test]
fn a_start_on_the_last_block_of_an_epoch_ends_it() {
    let (mut first, results) = source(&[Some(last())]);
    let meta = first.block(1).unwrap().expect("it is decided").meta;
    let tip = |certificate: Option<Bytes>| CommittedTip {
        meta: CommitMeta { state_certificate: certificate, ..CommitMeta::default() },
        ..committed(1)
    };
    let digest = B256::new(results[0].digest());
    let votes = [0, 1, 3].map(|signer| vote(signer, 1, meta.id.0, digest, Lean::Final));
    let votes = StateProof::Votes(votes.to_vec()).encode();
    for (certificate, ends) in [(Some(votes), true), (None, false)] {
        let mut host = host_on(|_| (), first.compacted().unwrap().1, &tip(certificate));
        let actions = host.take_actions();
        let own = actions.iter().filter(|action| matches!(action, Action::Send(To::All, Frame::StateVote(_))));
        assert_eq!(own.count(), 1, "others may need its vote");
        assert_eq!(actions.iter().any(|action| matches!(action, Action::Ended(_))), ends);
    }
}

#[test]
fn what_is_ordered_above_the_end_of_an_epoch_is_void() {
    let above = batch(2);
    let mut host = host();
    let propose = |slot, batch: &Batch| Out::Proposed { slot, view: 0, batch: Some(batch.clone()) };
    let outs = vec![propose(1, &last()), propose(2, &above), Out::OrderVoted { slot: 2, view: 0 }];
    let metas = blocks(&play(&mut host, outs));
    metas.iter().for_each(|meta| host.apply(computed(*meta, 5)).unwrap());
    let decided = |slot, batch: &Batch| Out::Decided { slot, batch: Some(batch.clone()) };
    let mut seen = play(&mut host, vec![decided(2, &above), decided(1, &last())]);
    seen.extend(play(&mut host, vec![Out::OrderVoted { slot: 2, view: 1 }, propose(3, &batch(3)), decided(3, &above)]));
    host.on_frame(0, Index(1), Frame::Certificate(quorum(metas[1])));
    seen.extend(play(&mut host, Vec::new()));
    assert_eq!((host.decided_slot(), certified(&seen), blocks(&seen)), (1, vec![], vec![]));
    assert!(seen.iter().all(|event| *event != ConsensusEvent::OrderVoteDurable(metas[1].id)), "{seen:?}");
    assert_eq!(state_votes(&mut host).iter().map(|vote| vote.slot).collect::<Vec<_>>(), [1]);
    // A quorum certifies the end, and the block above has no certificate for the pipeline.
    host.on_frame(0, Index(1), Frame::Certificate(quorum(metas[0])));
    assert_eq!(certified(&events(&mut host)), [1]);
}

#[test]
fn nothing_is_proposed_above_the_end_of_an_epoch_and_no_leader_suspected() {
    let (request, interval) = (Bytes::from_static(b"later"), 50_000);
    let mut host = host();
    host.submit(0, request.clone());
    host.submit(0, change(1, &[0, 1]));
    assert_eq!(pending(), Some(0), "and a change that no quorum has signed waits for nothing");
    host.take_actions();
    host.on_timer(interval, HostTimer::Requests);
    assert_eq!(requests(&mut host), [request], "the leader has not ordered it");
    Script::set(|play| (play.leader, play.room) = (Index(2), 9));
    play(&mut host, vec![Out::Decided { slot: 1, batch: Some(last()) }]);
    assert_eq!(pending(), None);
    host.on_timer(2 * interval, HostTimer::Requests);
    host.on_timer(2 * interval, HostTimer::Batch);
    let inputs = Script::inputs();
    assert!(!inputs.iter().any(|input| matches!(input, Input::Batch(_) | Input::Pending(Some(_)))), "{inputs:?}");
    assert_eq!(requests(&mut host), Vec::<Bytes>::new());
}

/// The last request that the protocol knows of.
fn pending() -> Option<u64> {
    let inputs = Script::inputs();
    let pending = inputs.iter().rev().find_map(|input| match input {
        Input::Pending(oldest) => Some(*oldest),
        _ => None,
    });
    pending.expect("the protocol is up to date")
}

/// Requests that are sent to all.
fn requests(host: &mut Host<Script>) -> Vec<Bytes> {
    let requests = host.take_actions().into_iter().filter_map(|action| match action {
        Action::Send(To::All, Frame::Request(tx)) => Some(tx),
        _ => None,
    });
    requests.collect()
}
