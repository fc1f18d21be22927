//! Bounds that hold whatever one traitor sends: patience, journals, answers, signatures, evidence.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::lab::{GENESIS, Lab, batch, leaving};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Base, Batch, ConfigError, Domain, Index, Input, NULL, Protocol as _, Quorums, Signed,
    pbft::{Checkpoint, Config, Leaving, Msg, NewView, Pbft, PrePrepare, Report, Status, Timer, ViewChange, Vote},
};

/// A primary that orders only its own empty batches is replaced: what it orders does not renew patience.
#[test]
fn a_primary_that_ignores_clients_is_replaced() {
    let mut lab = Lab::new(4, 1, 4, &[1, 2, 3]);
    let order = |lab: &mut Lab, slot: u64| {
        let empty = Batch::new(slot, Address::ZERO, Vec::new());
        for node in [1, 2, 3] {
            // Set anew, the timer is back in the map.
            lab.timers.get_mut(&node).unwrap().remove(&Timer::Progress);
            lab.tell(0, node, Msg::PrePrepare(PrePrepare { view: 0, slot, batch: empty.clone() }));
        }
        lab.flow(|from, _, _| from != 0);
        for node in [1, 2, 3] {
            lab.input(node, Input::Committed { slot, digest: B256::with_last_byte(slot as u8) });
        }
        lab.flow(|from, _, _| from != 0);
    };
    let renewed = |lab: &Lab| [1, 2, 3].iter().any(|node| lab.timers[node].contains_key(&Timer::Progress));
    for node in [1, 2, 3] {
        lab.input(node, Input::Pending(Some(7)));
    }
    for slot in 1..=100 {
        order(&mut lab, slot);
        assert!(!renewed(&lab), "an execution renews patience while the oldest request waits");
    }
    // Once that request is served, the next one has its own time.
    lab.input(1, Input::Pending(Some(8)));
    assert!(renewed(&lab));
    order(&mut lab, 101);
    lab.timer(2, Timer::Progress);
    assert_eq!(lab.replicas[&2].view(), 1, "patience has an end");
}

/// The number of signatures in a NEW-VIEW is bounded before they are verified.
#[test]
fn a_new_view_asks_for_a_bounded_number_of_verifications() {
    let lab = Lab::new(4, 1, 4, &[]);
    let changes = vec![lab.empty_change(3, 3); 10_000];
    let opening = Msg::NewView(lab.new_view(3, changes, GENESIS, Vec::new()));
    let bytes = alloy_rlp::encode(&opening);
    let decoded: Result<Msg, _> = alloy_rlp::Decodable::decode(&mut bytes.as_slice());
    assert!(decoded.is_err(), "{} bytes of one replica ask for ten thousand verifications", bytes.len());
}

/// Five batches in a slot push the prepared one out of Q; then no view change can choose any longer.
#[test]
fn a_prepared_batch_is_vouched_for_however_many_proposals_follow() {
    crowd(4);
}

fn crowd(rounds: u64) {
    let mut lab = Lab::new(4, 1, 8, &[0, 1, 2]);
    let d = batch(100);
    // View 0: d is prepared at 2 only; 0 and 1 have accepted it. 3 is the traitor.
    lab.input(0, Input::Batch(d.clone()));
    lab.flow(|from, to, m| match m {
        Msg::PrePrepare(_) => true,
        Msg::Prepare(_) => to == 2 && from != 3,
        _ => false,
    });
    lab.tell(3, 2, Msg::Prepare(Vote { view: 0, slot: 1, digest: d.digest() }));
    // Views 4, 8, ...: led by 0. 2's view changes are lost, the traitor reports nothing: the slot is free.
    for round in 1..=rounds {
        let view = 4 * round;
        lab.wire.clear();
        for node in [0, 1] {
            while lab.replicas[&node].view() < view {
                let timer = if lab.replicas[&node].is_active() { Timer::Progress } else { Timer::NewView };
                lab.input(node, Input::Pending(Some(0)));
                lab.timer(node, timer);
            }
        }
        let lie = lab.empty_change(3, view);
        let change = lab.change(1);
        lab.tell(1, 0, leaving(change));
        lab.tell(3, 0, leaving(lie));
        assert!(lab.replicas[&0].is_active(), "view {view}");
        lab.flow(|_, to, m| to == 1 && matches!(m, Msg::NewView(_)));
        lab.input(0, Input::Batch(batch(round as u8)));
        lab.flow(|_, to, m| to == 1 && matches!(m, Msg::PrePrepare(_)));
    }
    // From here on the network is perfect and the traitor silent.
    lab.wire.clear();
    for node in [0, 1, 2] {
        lab.input(node, Input::Pending(Some(0)));
    }
    for round in 0..20 {
        for node in [0, 1, 2] {
            let timer = if lab.replicas[&node].is_active() { Timer::Progress } else { Timer::NewView };
            lab.timer(node, timer);
        }
        lab.flow(|from, _, _| from != 3);
        for node in [0, 1, 2u16] {
            if lab.replicas[&node].room() > 0 {
                lab.input(node, Input::Batch(batch(200 + round)));
            }
            lab.timer(node, Timer::Resend);
        }
        lab.flow(|from, _, _| from != 3);
    }
    let views: Vec<_> = lab.replicas.values().map(|r| (r.view(), r.is_active())).collect();
    assert!(
        lab.decided.values().any(|slots| slots.contains_key(&1)),
        "stuck in {views:?}: nothing can be chosen for slot 1"
    );
}

/// Contradictory checkpoints of a replica are one piece of evidence, however many it signs.
#[test]
fn evidence_against_a_replica_is_kept_once() {
    let mut lab = Lab::new(4, 1, 4, &[1]);
    for byte in 0..200 {
        let body = Checkpoint { slot: 4, digest: B256::with_last_byte(byte) };
        let signed = lab.signed(3, body);
        lab.tell(3, 1, Msg::Checkpoint(signed));
    }
    assert_eq!(lab.evidence, 1);
}

/// The rate of repetition follows f+1 replicas, not the checkpoint of a liar.
#[test]
fn a_checkpoint_of_one_replica_does_not_change_the_rate_of_repetition() {
    let mut lab = Lab::new(4, 1, 4, &[1]);
    let far = lab.signed(3, Checkpoint { slot: u64::MAX / 4 * 4, digest: B256::ZERO });
    lab.tell(3, 1, Msg::Checkpoint(far));
    lab.timer(1, Timer::Resend);
    let rate = lab.timers[&1][&Timer::Resend];
    assert_eq!(rate, 16 * lab.config.resend, "full rate, though nothing is to be done");
}

/// An invented report of a far slot makes a view change order no empty slots.
#[test]
fn one_invented_report_does_not_fill_the_window_with_nothing() {
    let mut lab = Lab::new(4, 1, 128, &[0, 1, 2]);
    for node in [0, 1, 2] {
        lab.input(node, Input::Pending(Some(0)));
    }
    lab.timer(0, Timer::Progress);
    lab.timer(2, Timer::Progress);
    let mut lie = lab.empty_change(3, 1);
    lie.body.prepared = vec![Report { slot: 256, digest: B256::repeat_byte(7), view: 0 }];
    let lie = lab.signed(3, lie.body);
    lab.tell(3, 1, leaving(lie));
    lab.flow(|from, _, _| from != 3);
    let nulls = lab.decided.get(&1).map_or(0, |slots| slots.values().filter(|d| **d == NULL).count());
    assert!(nulls <= 1, "{nulls} empty slots are ordered");
}

/// Batches of views that led nowhere are dropped.
#[test]
fn a_stalled_slot_keeps_a_bounded_number_of_batches() {
    let mut lab = Lab::new(4, 1, 8, &[0]);
    let mut digests = Vec::new();
    for round in 1..=50u64 {
        // Views 3, 7, ... are led by the traitor 3; its NEW-VIEW is honest, its proposal never completes.
        let view = 4 * round - 1;
        let changes = vec![lab.empty_change(1, view), lab.empty_change(2, view), lab.empty_change(3, view)];
        let opening = lab.new_view(view, changes, GENESIS, Vec::new());
        lab.tell(3, 0, Msg::NewView(opening));
        let batch = Batch::new(1, Address::ZERO, vec![Bytes::from(round.to_be_bytes().to_vec())]);
        digests.push(batch.digest());
        lab.tell(3, 0, Msg::PrePrepare(PrePrepare { view, slot: 1, batch }));
    }
    let kept = digests.iter().filter(|digest| lab.replicas[&0].batch(**digest).is_some()).count();
    assert!(kept <= 4, "{kept} batches of one slot");
}

/// A restarted replica repeats the checkpoint that it announced.
#[test]
fn a_restart_repeats_announced_checkpoints() {
    let mut lab = Lab::new(4, 1, 4, &[1]);
    for slot in 1..=4 {
        lab.input(1, Input::Committed { slot, digest: B256::with_last_byte(slot as u8) });
    }
    lab.wire.clear();
    lab.open(1, Base { slot: 4, digest: B256::with_last_byte(4) });
    lab.timer(1, Timer::Resend);
    let repeats = lab.wire.iter().any(|(_, _, m)| matches!(m, Msg::Checkpoint(s) if s.body.slot == 4));
    assert!(repeats, "the checkpoint is announced, durable, and never sent again");
}

/// Bytes that answer one small message.
#[test]
fn a_small_question_has_a_bounded_answer() {
    let mut lab = Lab::new(4, 1, 128, &[0, 1, 2, 3]);
    for number in 0..64u64 {
        let tx = Bytes::from([number.to_be_bytes().to_vec(), vec![0; 100_000]].concat());
        lab.input(0, Input::Batch(Batch::new(1, Address::ZERO, vec![tx])));
    }
    lab.wire.clear();
    let question = Msg::Status(Status { view: 0, active: true, opened: 0, stable: 0, decided: 0 });
    lab.tell(3, 0, question.clone());
    let bytes: usize = lab.wire.iter().map(|(_, _, m)| alloy_rlp::encode(m).len()).sum();
    lab.wire.clear();
    for _ in 0..10 {
        lab.tell(3, 0, question.clone());
    }
    let again: usize = lab.wire.iter().map(|(_, _, m)| alloy_rlp::encode(m).len()).sum();
    assert!(again < 2 * bytes, "ten questions at once get {again} bytes");
}

/// A checkpoint that no quorum has signed moves no window.
#[test]
fn a_new_view_starts_from_a_checkpoint_that_a_quorum_has_signed() {
    // 5 and 6 are traitors. A checkpoint of theirs and one correct replica is no quorum of five.
    let mut lab = Lab::new(7, 2, 8, &[0, 1, 2, 3, 4]);
    let stable = Checkpoint { slot: 8, digest: B256::repeat_byte(8) };
    let signed: Vec<Signed<Checkpoint>> = (0..7).map(|signer| lab.signed(signer, stable)).collect();
    for (signers, proven) in [(4, false), (5, true)] {
        let mut changes: Vec<Signed<ViewChange>> = (0..5).map(|signer| lab.empty_change(signer, 5)).collect();
        changes[4] = lab.signed(4, ViewChange { view: 5, stable, ..ViewChange::default() });
        let proof: Vec<Signed<Checkpoint>> = signed[..signers].to_vec();
        let change = Leaving { change: changes[4].clone(), proof: proof.clone() };
        let body = NewView { view: 5, changes, stable, proof, choices: Vec::new() };
        let (opening, replica) = (lab.signed(5, body), &lab.replicas[&1]);
        assert_eq!(replica.wants(Index(4), &Msg::ViewChange(change)), proven, "{signers} signers");
        lab.tell(5, 1, Msg::NewView(opening));
        assert_eq!((lab.replicas[&1].view(), lab.replicas[&1].stable().slot), if proven { (5, 8) } else { (0, 0) });
    }
    // One signer five times is no quorum either.
    let body = ViewChange { view: 6, stable, ..ViewChange::default() };
    let change = Leaving { change: lab.signed(4, body), proof: vec![signed[0].clone(); 5] };
    assert!(!lab.replicas[&2].wants(Index(4), &Msg::ViewChange(change)));
    let repeats = lab.wire.iter().filter(|(from, ..)| *from == 1).count();
    assert!(repeats > 0);
}

/// A NEW-VIEW of the wrong primary, or with view changes of one replica only, asks for no verification at all.
#[test]
fn an_impossible_new_view_is_dropped_before_its_signatures_are_verified() {
    let lab = Lab::new(4, 1, 4, &[1]);
    let changes = |signers: [u16; 3], view| signers.map(|signer| lab.empty_change(signer, view)).to_vec();
    let wants = |opening| lab.replicas[&1].wants(Index(3), &Msg::NewView(opening));
    assert!(wants(lab.new_view(3, changes([0, 2, 3], 3), GENESIS, Vec::new())));
    assert!(!wants(lab.new_view(3, changes([2, 2, 3], 3), GENESIS, Vec::new())), "one replica twice");
    assert!(!wants(lab.new_view(3, changes([0, 2, 3], 4), GENESIS, Vec::new())), "view changes of another view");
    assert!(!wants(lab.new_view(3, changes([0, 2, 9], 3), GENESIS, Vec::new())), "a replica that does not exist");
    let mut foreign = lab.new_view(3, changes([0, 2, 3], 3), GENESIS, Vec::new());
    foreign.signer = Index(2);
    assert!(!wants(foreign), "another primary");
    let long = lab.new_view(3, changes([0, 2, 3], 3), GENESIS, vec![NULL; 9]);
    assert!(!wants(long), "more choices than slots");
}

/// A batch that is too long, or from the future, is neither proposed nor accepted.
#[test]
fn batches_out_of_bounds_are_refused() {
    let mut lab = Lab::new(4, 1, 4, &[0, 1]);
    let most = lab.config.batch_bytes;
    let of = |bytes: usize, time| Batch::new(time, Address::ZERO, vec![Bytes::from(vec![1; bytes])]);
    for (batch, accepted) in
        [(of(most, 1), false), (of(10, 10_001), false), (of(10, u64::MAX), false), (of(10, 10_000), true)]
    {
        lab.wire.clear();
        lab.tell(0, 1, Msg::PrePrepare(PrePrepare { view: 0, slot: 1, batch }));
        assert_eq!(lab.wire.iter().any(|(_, _, message)| matches!(message, Msg::Prepare(_))), accepted);
    }
    lab.wire.clear();
    lab.input(0, Input::Batch(of(most, 1)));
    assert!(lab.wire.is_empty(), "a batch that no replica accepts is proposed");
}

/// A NEW-VIEW that a replica missed ends the reports that it supersedes, through a restart as well.
#[test]
fn a_report_ends_with_the_new_view_that_supersedes_it() {
    let mut lab = Lab::new(4, 1, 8, &[2]);
    let d = batch(1);
    lab.tell(0, 2, Msg::PrePrepare(PrePrepare { view: 0, slot: 1, batch: d.clone() }));
    for from in [1, 3] {
        let vote = Vote { view: 0, slot: 1, digest: d.digest() };
        lab.tell(from, 2, Msg::Prepare(vote));
    }
    lab.input(2, Input::Pending(Some(0)));
    while lab.replicas[&2].view() < 5 {
        let timer = if lab.replicas[&2].is_active() { Timer::Progress } else { Timer::NewView };
        lab.timer(2, timer);
    }
    let reports = |lab: &Lab| (lab.change(2).body.prepared.len(), lab.change(2).body.preprepared.len());
    assert_eq!(reports(&lab), (1, 1));
    // View 4 began without 2, and its slot is free.
    let changes = [0, 1, 3].map(|signer| lab.empty_change(signer, 4)).to_vec();
    let opening = lab.new_view(4, changes, GENESIS, Vec::new());
    lab.tell(1, 2, Msg::NewView(opening));
    for restart in [false, true] {
        if restart {
            lab.open(2, Base::default());
        }
        lab.timer(2, Timer::NewView);
        assert_eq!((reports(&lab), lab.replicas[&2].opened()), ((0, 0), 4), "restart {restart}");
        assert!(lab.replicas[&2].batch(d.digest()).is_none(), "a batch that no report names");
    }
}

/// Constants that no replica can run with are named.
#[test]
fn constants_out_of_range_are_named() {
    let broken = |change: fn(&mut Config)| {
        let mut config = Config::new(Quorums::new(4, 1).unwrap(), Domain::default());
        change(&mut config);
        Pbft::check(&config).map_err(|error| error.name)
    };
    assert_eq!(broken(|_| ()), Ok(()));
    assert_eq!(broken(|config| config.interval = 0), Err("interval"));
    assert_eq!(broken(|config| config.interval = u64::MAX), Err("interval"));
    assert_eq!(broken(|config| config.timeout = 0), Err("timeout"));
    assert_eq!(broken(|config| config.timeout = u64::MAX), Err("timeout"));
    assert_eq!(broken(|config| config.resend = 0), Err("resend"));
    assert_eq!(broken(|config| config.batch_bytes = 0), Err("batch_bytes"));
    assert_eq!(broken(|config| config.epoch_ms = u64::MAX), Err("epoch_ms"));
    assert_eq!(broken(|config| config.ahead_ms = u64::MAX), Err("ahead_ms"));
    let error = ConfigError::within("interval", 0, 1, 4_096).unwrap_err();
    assert_eq!(error.to_string(), "`interval` is 0: it must be between 1 and 4096");
}
