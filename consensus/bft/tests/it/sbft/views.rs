//! Two view changes in a row, with a replica to spare: a decision that one replica has seen stays, over either path.
//!
//! Replicas 0 to 4 are correct, 5 is the traitor. Replica 4 sees the decision of view 0, and is silent from then on.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use super::lab::{Lab, batch, certificate, config, decision, proposal, signed};
use alloy_primitives::B256;
use phalanx_bft::{
    Input, Protocol as _, View,
    sbft::{Config, Msg, Mutation, Timer, ViewChange, Vote},
};

const fn vote(view: View, digest: B256) -> Vote {
    Vote { view, slot: 1, digest }
}

/// Opens a view with the reports of the replicas 0 to 3 and a lie of the traitor, at some of them.
fn change(lab: &mut Lab, view: View, lie: ViewChange, at: &[u16]) {
    lab.wire.clear();
    for node in 0..4 {
        let timer = if lab.replicas[&node].is_active() { Timer::Progress } else { Timer::NewView };
        lab.timer(node, timer);
        assert_eq!(lab.replicas[&node].view(), view);
    }
    let mut changes: Vec<_> = (0..4).map(|node| lab.change(node)).collect();
    changes.push(signed(5, lie));
    let opening = lab.new_view(view, changes);
    lab.wire.clear();
    at.iter().for_each(|node| lab.tell(5, *node, opening.clone()));
}

/// Delivers everything between the replicas 0 to 3, and lets the turns of collectors come.
fn settle(lab: &mut Lab) {
    for _ in 0..6 {
        lab.flow(|from, to, _| from.max(to) < 4);
        lab.timers(|timer| matches!(timer, Timer::Collect(..) | Timer::Help(_)));
    }
    lab.flow(|from, to, _| from.max(to) < 4);
}

/// Batches that slot 1 is decided with.
fn decided(fast: bool, mutation: Option<Mutation>) -> Vec<B256> {
    let mut lab = Lab::new(Config { mutation, ..config(6, 1) }, 0..5);
    let (d, e) = (batch(1), batch(2));
    // Replica 3 gets no proposal: the shares of the other four and the traitor's are enough for σ.
    lab.input(0, Input::Batch(d.clone()));
    for node in [1, 2, 4] {
        lab.tell(0, node, proposal(0, 1, 0, &d));
    }
    if !fast {
        // τ reaches two of them: with replica 4 and the traitor, enough for τ over τ.
        for node in [0, 1, 4] {
            lab.tell(5, node, Msg::Prepare(certificate(vote(0, d.digest()))));
        }
    }
    lab.tell(5, 4, Msg::Decided(decision(vote(0, d.digest()), fast)));
    assert_eq!(lab.decisions(1), [d.digest()]);
    // View 1 is entered by two replicas, which accept what it chooses, and brings no progress.
    (0..4).for_each(|node| lab.input(node, Input::Pending(Some(0))));
    let lie = |view, of: View| ViewChange { view, accepted: vec![vote(of, e.digest())], ..ViewChange::default() };
    change(&mut lab, 1, lie(1, 0), &[1, 2]);
    assert_eq!(lab.replicas[&2].accepted_vote(1), Some(vote(1, d.digest())));
    change(&mut lab, 2, lie(2, 1), &[0, 1, 2, 3]);
    lab.input(2, Input::Batch(e));
    settle(&mut lab);
    assert!((0..4).all(|node| lab.decided[&node].contains_key(&1)), "view 2 decides: {:?}", lab.decided);
    lab.decisions(1)
}

#[test]
fn a_decision_that_one_replica_saw_stays_through_two_view_changes() {
    let d = batch(1).digest();
    assert_eq!(decided(true, None), [d], "on the fast path");
    assert_eq!(decided(false, None), [d], "on the slow path");
    assert_eq!(decided(true, Some(Mutation::ExactPairs)).len(), 2, "the test notices equal pairs of view and batch");
}
