//! Attacks of one traitor, and crashes at awkward moments: neither safety nor liveness gives way.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::lab::{GENESIS, Lab, batch, leaving};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Base, Batch, Input, NULL, Protocol as _,
    pbft::{Checkpoint, Decision, Msg, Mutation, PrePrepare, Record, Report, Status, Timer, ViewChange, Vote},
};
use std::collections::BTreeSet;

/// A crash while a replica enters a view leaves the choices of its NEW-VIEW in force.
#[test]
fn a_crash_while_entering_a_view_forgets_no_choice() {
    assert_eq!(enter_and_crash(None), 1);
    // The test notices a restart that forgets them.
    assert_eq!(enter_and_crash(Some(Mutation::ForgetChoices)), 2);
}

/// Number of batches that are decided in one slot.
fn enter_and_crash(mutation: Option<Mutation>) -> usize {
    let mut lab = Lab::broken(mutation, 4, 1, 8, &[0, 2, 3]);
    let (d, other) = (batch(1), batch(2));
    // View 0: everyone prepares d; replica 0 decides it with the COMMITs of 0, 2 and the traitor 1.
    lab.input(0, Input::Batch(d.clone()));
    let vote = Vote { view: 0, slot: 1, digest: d.digest() };
    lab.flow(|_, to, message| !matches!(message, Msg::Commit(_)) || to == 0);
    lab.tell(1, 0, Msg::Prepare(vote));
    lab.tell(1, 0, Msg::Commit(vote));
    lab.wire.clear();
    assert_eq!(lab.decided[&0][&1], d.digest());
    // View 1, led by the traitor: an honest NEW-VIEW that chooses d.
    lab.timer(2, Timer::Progress);
    lab.timer(3, Timer::Progress);
    let changes = vec![lab.empty_change(1, 1), lab.change(2), lab.change(3)];
    let mut changes = changes;
    changes[0].body.prepared = changes[1].body.prepared.clone();
    changes[0].body.preprepared = changes[1].body.preprepared.clone();
    changes[0] = lab.signed(1, changes[0].body.clone());
    let opening = lab.new_view(1, changes, GENESIS, vec![d.digest()]);
    lab.wire.clear();
    for node in [2, 3] {
        lab.tell(1, node, Msg::NewView(opening.clone()));
        assert!(lab.replicas[&node].is_active() && lab.replicas[&node].view() == 1);
        // The power fails: Entered is durable, the acceptance behind it is not, and nothing behind it has left.
        let log = lab.logs.get_mut(&node).unwrap();
        let entered =
            log.iter().position(|record| matches!(record, Record::Entered(opening) if opening.body.view == 1)).unwrap();
        log.truncate(entered + 1);
    }
    lab.wire.clear();
    for node in [2, 3] {
        lab.open(node, Base::default());
        assert!(lab.replicas[&node].is_active() && lab.replicas[&node].view() == 1);
    }
    lab.wire.clear();
    // The traitor proposes something else in the slot that its own NEW-VIEW has filled.
    for node in [2, 3] {
        lab.tell(1, node, Msg::PrePrepare(PrePrepare { view: 1, slot: 1, batch: other.clone() }));
    }
    lab.flow(|_, _, message| matches!(message, Msg::Prepare(_) | Msg::Commit(_)));
    for node in [2, 3] {
        lab.tell(1, node, Msg::Commit(Vote { view: 1, slot: 1, digest: other.digest() }));
    }
    let all: BTreeSet<B256> = lab.decided.values().filter_map(|slots| slots.get(&1)).copied().collect();
    all.len()
}

/// A restart keeps a choice whose batch is still to be fetched.
#[test]
fn a_restart_forgets_no_choice_whose_batch_is_missing() {
    let mut lab = Lab::new(4, 1, 8, &[0, 2, 3]);
    let (d, other) = (batch(1), batch(2));
    lab.input(0, Input::Batch(d.clone()));
    lab.wire.clear();
    // 3 never sees d; a NEW-VIEW chooses it.
    let report = Report { slot: 1, digest: d.digest(), view: 0 };
    let mut changes = Vec::new();
    for signer in [0, 1, 2] {
        let mut change = lab.empty_change(signer, 1);
        change.body.prepared = vec![report];
        change.body.preprepared = vec![report];
        changes.push(lab.signed(signer, change.body));
    }
    let opening = lab.new_view(1, changes, GENESIS, vec![d.digest()]);
    lab.tell(1, 3, Msg::NewView(opening));
    lab.open(3, Base::default());
    lab.wire.clear();
    lab.tell(1, 3, Msg::PrePrepare(PrePrepare { view: 1, slot: 1, batch: other.clone() }));
    let accepts = lab.wire.iter().any(|(_, _, m)| matches!(m, Msg::Prepare(vote) if vote.digest == other.digest()));
    assert!(!accepts, "3 prepares a batch in view 1 that NEW-VIEW did not choose");
}

/// A proposal from the future does not keep later batches out.
#[test]
fn a_batch_from_the_future_does_not_stop_the_chain() {
    future(u64::MAX);
}

fn future(time: u64) {
    let mut lab = Lab::new(4, 1, 8, &[1, 2, 3]);
    // The traitor 0 leads view 0, proposes one batch with the largest timestamp, and is silent from then on.
    let future = Batch::new(time, Address::ZERO, Vec::new());
    let vote = Vote { view: 0, slot: 1, digest: future.digest() };
    for node in [1, 2, 3] {
        lab.tell(0, node, Msg::PrePrepare(PrePrepare { view: 0, slot: 1, batch: future.clone() }));
    }
    lab.flow(|from, _, _| from != 0);
    assert!(lab.decided.is_empty(), "{vote:?} is decided");
    for node in [1, 2, 3] {
        lab.input(node, Input::Pending(Some(0)));
    }
    // Every correct replica leads in turn, everything is delivered, and every timer fires only when nothing else happens.
    for round in 0..12u64 {
        for node in [1, 2, 3] {
            if lab.replicas[&node].is_active() {
                lab.timer(node, Timer::Progress)
            } else {
                lab.timer(node, Timer::NewView)
            }
        }
        lab.flow(|from, _, _| from != 0);
        for node in [1, 2, 3u16] {
            if lab.replicas[&node].room() > 0 {
                lab.input(node, Input::Batch(Batch::new(round, Address::ZERO, vec![Bytes::from(vec![9])])));
            }
        }
        lab.flow(|from, _, _| from != 0);
        for node in [1, 2, 3] {
            lab.timer(node, Timer::Resend);
        }
        lab.flow(|from, _, _| from != 0);
    }
    let view = lab.replicas[&1].view();
    assert!(!lab.decided[&1].is_empty(), "nothing is decided behind the batch from the future, up to view {view}");
}

/// 3 is the traitor. 0 has proposed d in view 0, and only 0 has it. NEW-VIEW 2 (by 2, from 0, 2 and 3's invented report)
/// chooses d; 1 enters and lacks d. NEW-VIEW 4 (by 0, from 0, 2 and 3, who reports nothing now) leaves the slot free; 1 enters it
/// straight from view 2.
fn stale_choice(mutation: Option<Mutation>) -> (Lab, Batch) {
    let mut lab = Lab::broken(mutation, 4, 1, 8, &[0, 1, 2]);
    let d = batch(1);
    for node in [0, 1, 2] {
        lab.input(node, Input::Pending(Some(0)));
    }
    lab.input(0, Input::Batch(d.clone()));
    lab.wire.clear();
    for view in [2, 4] {
        for node in [0, 2u16] {
            while lab.replicas[&node].view() < view
                || lab.replicas[&node].view() == view && lab.replicas[&node].is_active()
            {
                let timer = if lab.replicas[&node].is_active() { Timer::Progress } else { Timer::NewView };
                lab.timer(node, timer);
            }
        }
        let (leader, other) = if view == 2 { (2, 0) } else { (0, 2) };
        let change = lab.change(other);
        let mut lie = lab.empty_change(3, view);
        if view == 2 {
            lie.body.prepared = vec![Report { slot: 1, digest: d.digest(), view: 0 }];
            lie.body.preprepared = lie.body.prepared.clone();
        }
        let lie = lab.signed(3, lie.body);
        lab.wire.clear();
        lab.tell(other, leader, leaving(change));
        lab.tell(3, leader, leaving(lie));
        if view == 2 {
            // 2 fetches d from 0.
            lab.tell(0, 2, Msg::Fetched(d.clone()));
        }
        assert!(lab.replicas[&leader].is_active() && lab.replicas[&leader].view() == view);
        // Everyone enters. What else is sent is lost, or late.
        lab.flow(|from, _, m| from == leader && matches!(m, Msg::NewView(_)));
        assert_eq!((lab.replicas[&1].view(), lab.replicas[&1].is_active()), (view, true));
    }
    lab.wire.clear();
    (lab, d)
}

/// A choice that is still to be fetched ends with its view.
#[test]
fn a_missing_choice_of_an_old_view_is_not_accepted_in_a_newer_one() {
    let (mut lab, d) = stale_choice(None);
    lab.tell(0, 1, Msg::Fetched(d));
    let votes = |lab: &Lab| lab.wire.iter().filter(|(_, _, m)| matches!(m, Msg::Prepare(_))).count();
    assert_eq!(votes(&lab), 0, "1 votes in view 4 for a batch that no replica proposed there");
    // The test notices where that rule is broken.
    let (mut lab, d) = stale_choice(Some(Mutation::LateChoice));
    lab.tell(0, 1, Msg::Fetched(d));
    assert!(votes(&lab) > 0);
}

/// A traitor brings no second batch to be prepared in one view, and view changes go on to choose.
#[test]
fn two_batches_are_never_prepared_in_one_view() {
    prepared_twice(true);
}

fn prepared_twice(late: bool) {
    let (mut lab, d) = stale_choice(None);
    let e = batch(2);
    if late {
        lab.tell(0, 1, Msg::Fetched(d.clone()));
        lab.tell(3, 1, Msg::Prepare(Vote { view: 4, slot: 1, digest: d.digest() }));
    }
    lab.wire.clear();
    lab.input(0, Input::Batch(e.clone()));
    let vote = Vote { view: 4, slot: 1, digest: e.digest() };
    for node in [0, 2] {
        lab.tell(3, node, Msg::Prepare(vote));
        lab.tell(3, node, Msg::Commit(vote));
    }
    lab.flow(|_, _, _| true);
    // The traitor is silent from here on, the network perfect.
    for round in 0..20 {
        for node in [0, 1, 2] {
            let timer = if lab.replicas[&node].is_active() { Timer::Progress } else { Timer::NewView };
            lab.timer(node, timer);
        }
        lab.flow(|_, _, _| true);
        for node in [0, 1, 2u16] {
            if lab.replicas[&node].room() > 0 {
                lab.input(node, Input::Batch(batch(200 + round)));
            }
            lab.timer(node, Timer::Resend);
        }
        lab.flow(|_, _, _| true);
    }
    let views: Vec<_> = lab.replicas.values().map(|r| (r.view(), r.is_active())).collect();
    let prepared: BTreeSet<B256> = lab
        .logs
        .values()
        .flatten()
        .filter_map(|record| match record {
            Record::Prepared(vote) if (vote.view, vote.slot) == (4, 1) => Some(vote.digest),
            _ => None,
        })
        .collect();
    let slots = lab.decided[&0].len();
    assert!(
        prepared.len() <= 1,
        "view 4 has {} prepared batches in slot 1; {slots} slot decided in 20 rounds, views {views:?}",
        prepared.len()
    );
    assert!(slots > 1);
}

/// Numbers near their maximum are refused without a panic.
#[test]
fn numbers_near_their_maximum_do_not_panic() {
    const MAX: u64 = u64::MAX;
    let result = |message: fn(&Lab) -> Msg| {
        std::panic::catch_unwind(|| {
            let mut lab = Lab::new(4, 1, 4, &[1]);
            let message = message(&lab);
            lab.tell(3, 1, message);
        })
        .is_ok()
    };
    let status = result(|_| Msg::Status(Status { view: MAX, active: true, opened: MAX, stable: MAX, decided: MAX }));
    let change = result(|lab| {
        let stable = Checkpoint { slot: MAX, digest: B256::ZERO };
        leaving(lab.signed(3, ViewChange { view: 1, stable, ..ViewChange::default() }))
    });
    let commit = result(|_| Msg::Commit(Vote { view: MAX, slot: MAX, digest: NULL }));
    let decided = result(|_| Msg::Decided(Decision { slot: MAX, digest: NULL }));
    assert!(status && change && commit && decided, "status {status} change {change} commit {commit} decided {decided}");
}

/// Entering a newer view from an open one gives the new primary its full time.
#[test]
fn a_newer_view_starts_patience_anew() {
    let mut lab = Lab::new(4, 1, 4, &[2]);
    lab.input(2, Input::Pending(Some(0)));
    assert!(lab.timers[&2].contains_key(&Timer::Progress));
    lab.timers.get_mut(&2).unwrap().clear();
    let changes = vec![lab.empty_change(0, 1), lab.empty_change(1, 1), lab.empty_change(3, 1)];
    let opening = lab.new_view(1, changes, GENESIS, Vec::new());
    lab.tell(1, 2, Msg::NewView(opening));
    assert!(lab.timers[&2].contains_key(&Timer::Progress), "the timer of the old view goes on running");
}
