//! Transfers of decided blocks, by hand: whom a host turns to, what it believes, and what it serves.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{
    cluster::DOMAIN,
    script::{Script, acknowledged, batch, blocks, certified, committed, computed, host, host_on, play, result},
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::Consensus as _;
use phalanx_bft::{Base, Batch, Index, Out, To, Want};
use phalanx_engine_api::{BlockResult, ExecId, TxPolicy};
use phalanx_host::{Action, Blocks, Filled, Frame, Host, HostRecord, HostTimer, Tip, WantBlocks};
use phalanx_pipeline::{ConsensusEvent, Effect, PayloadRef};

/// Repetition of these hosts.
const RESEND: u64 = 50_000;

/// A host that has decided these contents and has their results, which name their executions.
pub(crate) fn source(contents: &[Option<Batch>]) -> (Host<Script>, Vec<BlockResult>) {
    let mut host = host();
    let decided = (1..).zip(contents).map(|(slot, batch)| Out::Decided { slot, batch: batch.clone() });
    let (mut parent, mut results) = (ExecId::GENESIS, Vec::new());
    for event in play(&mut host, decided.collect()) {
        let ConsensusEvent::Proposed { meta, env, payload: PayloadRef::Here(payload) } = event else { continue };
        parent = ExecId::derive(DOMAIN.chain, parent, &env, TxPolicy::SkipInvalid, payload.digest());
        let result = BlockResult { execution: parent.0.0, ..result(5) };
        results.push(result);
        host.apply(Effect::StateVote { meta, digest: B256::new(result.digest()), result }).unwrap();
    }
    host.take_actions();
    (host, results)
}

/// The host's answer to a frame of replica 1.
fn answer(
    host: &mut Host<Script>,
    now: u64,
    frame: Frame<crate::script::NoMsg>,
) -> Option<Frame<crate::script::NoMsg>> {
    host.on_frame(now, Index(1), frame);
    host.take_actions().into_iter().find_map(|action| match action {
        Action::Send(To::One(Index(1)), frame) => Some(frame),
        _ => None,
    })
}

/// Number of blocks in the answer, and whether it has the outcome of the last one; `None` without an answer.
fn served(host: &mut Host<Script>, now: u64, from: u64, to: u64) -> Option<(usize, bool)> {
    match answer(host, now, Frame::WantBlocks(WantBlocks { from, to }))? {
        Frame::Blocks(blocks) if blocks.from == from => Some((blocks.batches.len(), !blocks.outcome.is_empty())),
        other => panic!("{other:?} in answer to a request for {from} to {to}"),
    }
}

#[test]
fn a_peer_serves_decided_blocks_in_parts() {
    let (mut host, _) = source(&vec![None; 70]);
    play(&mut host, vec![Out::Proposed { slot: 71, view: 0, batch: None }]);
    assert_eq!(served(&mut host, 0, 1, 70), Some((64, false)), "64 at most");
    assert_eq!(served(&mut host, 0, 65, 70), Some((6, true)));
    assert_eq!(served(&mut host, 0, 65, 71), Some((6, false)), "slot 71 is not decided, and slot 70 no checkpoint");
    assert_eq!(served(&mut host, 0, 71, 80), None, "none of these is decided");
    assert_eq!(served(&mut host, 0, 9, 8), None, "these are no blocks");
}

#[test]
fn the_bytes_of_an_answer_are_bounded() {
    let long = |length: usize| Some(Batch::new(1, Address::ZERO, vec![Bytes::from(vec![7; length])]));
    let mega = 1 << 20;
    let (mut host, _) = source(&[long(3 * mega / 2), long(3 * mega / 2), long(3 * mega / 2), long(9 * mega / 2)]);
    assert_eq!(served(&mut host, 0, 1, 4), Some((2, false)), "a third block would be too much");
    assert_eq!(served(&mut host, 0, 4, 4), Some((1, true)), "one block of any length passes");
    assert_eq!(served(&mut host, 0, 1, 1), None, "a peer has 8 MiB in a period");
    assert_eq!(served(&mut host, RESEND, 1, 1), Some((1, true)), "another period");
    // Transactions of one byte take more where they arrive.
    let short = Some(Batch::new(1, Address::ZERO, vec![Bytes::from_static(b"x"); 300_000]));
    let (mut host, _) = source(&[short.clone(), short]);
    assert_eq!(served(&mut host, 0, 1, 2), Some((1, false)));
}

#[test]
fn what_a_peer_has_pruned_it_refuses_within_a_budget() {
    let tip = Tip { slot: 5, ..Tip::default() };
    let mut host = host_on(|_| (), vec![HostRecord::Base(tip), HostRecord::Block(6, None)], &committed(5));
    host.take_actions();
    let refused = |host: &mut Host<Script>, now| {
        let frame = answer(host, now, Frame::WantBlocks(WantBlocks { from: 5, to: 6 }));
        assert!(matches!(frame, None | Some(Frame::Pruned(5))), "{frame:?}");
        frame.is_some()
    };
    assert_eq!(served(&mut host, 0, 6, 6), Some((1, false)));
    let most = (8 << 20) / 64;
    assert_eq!((0..most + 10).filter(|_| refused(&mut host, 0)).count(), most - 1, "beside the block");
    assert!(refused(&mut host, RESEND));
}

/// The host's requests to peers, its patience with each, and whether it finds that none has the blocks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Requests {
    wants: Vec<(u16, u64, u64)>,
    patience: Vec<u64>,
    ends: bool,
    behind: bool,
}

fn requests(host: &mut Host<Script>) -> Requests {
    let mut found = Requests::default();
    for action in host.take_actions() {
        match action {
            Action::Send(To::One(to), Frame::WantBlocks(want)) => found.wants.push((to.0, want.from, want.to)),
            Action::Timer(HostTimer::Transfer, after) => found.patience.push(after / RESEND),
            Action::Cancel(HostTimer::Transfer) => found.ends = true,
            Action::Behind(0) => found.behind = true,
            _ => {}
        }
    }
    found
}

/// A host that wants the blocks up to a checkpoint.
fn wanting(slot: u64, digest: B256) -> Host<Script> {
    let mut host = host();
    play(&mut host, vec![Out::Want(Want::State { base: Base { slot, digest }, proof: Bytes::new() })]);
    assert_eq!(requests(&mut host), Requests { wants: vec![(1, 1, slot)], patience: vec![4], ..Requests::default() });
    host
}

/// Blocks from a peer, and the next request.
fn send(host: &mut Host<Script>, peer: u16, from: u64, contents: &[Option<Batch>], outcome: &Bytes) -> Requests {
    let batches = contents.iter().cloned().map(Filled::new).collect();
    host.on_frame(0, Index(peer), Frame::Blocks(Blocks { from, batches, outcome: outcome.clone() }));
    requests(host)
}

#[test]
fn a_peer_that_sends_other_blocks_than_the_checkpoint_names_is_left() {
    let contents: Vec<_> = (1..=3).map(|byte| Some(batch(byte))).collect();
    let (mut source, results) = source(&contents);
    let Some(Frame::Blocks(Blocks { outcome, .. })) =
        answer(&mut source, 0, Frame::WantBlocks(WantBlocks { from: 1, to: 3 }))
    else {
        panic!("no answer")
    };
    let mut host = wanting(3, B256::new(results[2].digest()));
    let quiet = Requests::default();
    assert_eq!(send(&mut host, 3, 1, &contents, &outcome), quiet, "no request went to replica 3");
    assert_eq!(send(&mut host, 1, 2, &contents[1..], &outcome), quiet, "the request was from slot 1 on");
    assert_eq!(send(&mut host, 1, 1, &[], &outcome).wants, [(3, 1, 3)], "nothing is no answer");
    let mut of_another = outcome.to_vec();
    of_another[40] ^= 1;
    assert_eq!(send(&mut host, 3, 1, &contents, &of_another.into()).wants, [(0, 1, 3)], "another digest");
    let others = [contents[0].clone(), None, contents[2].clone()];
    assert_eq!(send(&mut host, 0, 1, &others, &outcome).wants, [(1, 1, 3)], "another execution");
    assert_eq!(host.decided_slot(), 0);
    // The right blocks, in two parts.
    assert_eq!(send(&mut host, 1, 1, &contents[..1], &Bytes::new()).wants, [(1, 2, 3)]);
    let end = send(&mut host, 1, 2, &contents[1..], &outcome);
    assert_eq!((host.decided_slot(), end.ends), (3, true));
}

#[test]
fn blocks_that_are_decided_meanwhile_are_dropped_from_a_transfer() {
    let contents: Vec<_> = (1..=3).map(|byte| Some(batch(byte))).collect();
    let (mut source, results) = source(&contents);
    let Some(Frame::Blocks(all)) = answer(&mut source, 0, Frame::WantBlocks(WantBlocks { from: 1, to: 3 })) else {
        panic!("no answer")
    };
    let mut host = wanting(3, B256::new(results[2].digest()));
    play(&mut host, vec![Out::Decided { slot: 1, batch: contents[0].clone() }]);
    assert_eq!(requests(&mut host), Requests::default());
    let end = send(&mut host, 1, 1, &contents, &all.outcome);
    assert_eq!((host.decided_slot(), end.ends), (3, true));
    assert!(host.next(0).is_ok());
}

#[test]
fn a_peer_that_sends_more_bytes_than_any_retains_is_left() {
    let mut host = wanting(100, B256::ZERO);
    let mega = Some(Batch::new(1, Address::ZERO, vec![Bytes::from(vec![7; 4 << 20])]));
    let next = (1..=100).map(|from| send(&mut host, 1, from, core::slice::from_ref(&mega), &Bytes::new()).wants);
    let left = next.take_while(|wants| wants[0].0 == 1).count();
    assert_eq!(left, 64, "260 MiB, and a little for each block");
}

#[test]
fn a_peer_that_sends_nothing_is_left_with_growing_patience() {
    let mut host = wanting(3, B256::ZERO);
    let waited = (0..18).map(|_| {
        host.on_timer(0, HostTimer::Transfer);
        let Requests { wants, patience, .. } = requests(&mut host);
        (wants[0].0, patience[0])
    });
    let waited: Vec<(u16, u64)> = waited.collect();
    let first = [(1, 4), (3, 8), (3, 8), (0, 16), (0, 16), (1, 32), (1, 32), (3, 64), (3, 64), (0, 128), (0, 128)];
    assert_eq!(waited[..11], first);
    assert_eq!(waited[11..], [(1, 256), (1, 256), (3, 256), (3, 256), (0, 256), (0, 256), (1, 256)]);
}

#[test]
fn a_host_is_behind_once_all_were_left_and_two_have_pruned() {
    let mut host = wanting(3, B256::ZERO);
    let pruned = |host: &mut Host<Script>, peer: u16, slot: u64| {
        host.on_frame(0, Index(peer), Frame::Pruned(slot));
        requests(host)
    };
    let leave = |host: &mut Host<Script>| {
        host.on_timer(0, HostTimer::Transfer);
        requests(host);
        host.on_timer(0, HostTimer::Transfer);
        requests(host)
    };
    for _ in 0..2 {
        assert_eq!(pruned(&mut host, 3, 9), Requests::default(), "no request went to replica 3");
        assert_eq!(pruned(&mut host, 1, 0), Requests::default(), "that is below what is wanted");
        // One refusal in a round is that of a liar, perhaps.
        assert_eq!(pruned(&mut host, 1, 9).wants, [(3, 1, 3)]);
        assert_eq!(leave(&mut host).wants, [(0, 1, 3)]);
        let round = leave(&mut host);
        assert_eq!((round.wants, round.behind), (vec![(1, 1, 3)], false));
        // Two of them have one from a correct replica.
        let (one, two) = (pruned(&mut host, 1, 9), pruned(&mut host, 3, 9));
        assert_eq!((one.behind, two.behind, two.wants), (false, false, vec![(0, 1, 3)]), "replica 0 may have it");
        let round = leave(&mut host);
        assert_eq!((round.wants, round.behind), (vec![(1, 1, 3)], true));
    }
}

#[test]
fn the_newest_checkpoint_certifies_until_its_block_is_committed() {
    let mut host = host();
    let events = play(&mut host, (1..=2).map(|slot| Out::Decided { slot, batch: Some(batch(1)) }).collect());
    let metas = blocks(&events);
    let stable = |slot| Out::Stable {
        base: Base { slot, digest: B256::new(result(5).digest()) },
        proof: Bytes::from_static(b"proof"),
    };
    play(&mut host, vec![stable(2)]);
    play(&mut host, vec![stable(1)]);
    host.apply(computed(metas[0], 5)).unwrap();
    host.apply(computed(metas[1], 5)).unwrap();
    assert_eq!(certified(&play(&mut host, Vec::new())), [2], "one certificate for both blocks");
    metas.iter().for_each(|meta| host.apply(acknowledged(*meta)).unwrap());
    assert!(certified(&play(&mut host, vec![stable(2)])).is_empty(), "its block is committed");
}
