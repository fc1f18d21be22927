//! Choices of a view change: what a NEW-VIEW keeps, frees, and fills once the window reaches it.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use super::lab::{Lab, batch, certificate, config, decision, proposal, signed};
use alloy_primitives::B256;
use phalanx_bft::{
    Domain, Group, Input, NULL, Protocol as _, Slot, Statement as _, View,
    sbft::{Certificate, Checkpoint, Config, Msg, Mutation, NewView, Sbft, Stable, Timer, ViewChange, Vote},
};
use std::collections::BTreeSet;

const fn vote(view: View, slot: Slot, digest: B256) -> Vote {
    Vote { view, slot, digest }
}

fn stable(slot: Slot) -> Stable {
    let checkpoint = Checkpoint { slot, digest: B256::with_last_byte(slot as u8) };
    let signature = phalanx_world::sign(Group::Slow.signer(), &checkpoint.signed_bytes(Domain::default()));
    Stable { checkpoint, signature }
}

/// A null filler is decided in slot 1 before slot 2, whose batch made it necessary. Returns what is decided in slot 1.
///
/// Replica 0 is the traitor: it shows a batch of slot 2 to replica 1 alone, and reports it once.
fn null_before_a_batch_that_is_lost(mutation: Option<Mutation>) -> Vec<B256> {
    let mut lab = Lab::new(Config { mutation, ..config(4, 1) }, [1, 2, 3]);
    let (d, e) = (batch(1), batch(2));
    lab.tell(0, 1, proposal(0, 2, 0, &d));
    lab.input(3, Input::Pending(Some(0)));
    lab.timer(1, Timer::Progress);
    lab.timer(3, Timer::Progress);
    let changes = vec![
        signed(0, ViewChange { view: 1, accepted: vec![vote(0, 2, d.digest())], ..ViewChange::default() }),
        lab.change(1),
        lab.change(3),
    ];
    let opening = lab.new_view(1, changes);
    lab.wire.clear();
    // The null filler is prepared at all; slot 2 is lost at 2 and 3, which never get its batch.
    for node in [1, 2, 3] {
        lab.tell(0, node, opening.clone());
        assert_eq!(lab.replicas[&node].accepted_vote(1), Some(vote(1, 1, NULL)));
    }
    assert_eq!(lab.replicas[&2].accepted_vote(2), None);
    for node in [1, 2, 3] {
        lab.tell(0, node, Msg::Prepare(certificate(vote(1, 1, NULL))));
    }
    lab.tell(0, 2, Msg::Decided(decision(vote(1, 1, NULL), false)));
    // View 3 begins with what 1, 3 and the traitor report.
    lab.wire.clear();
    for node in [1, 3] {
        lab.timer(node, Timer::Progress);
        lab.timer(node, Timer::NewView);
    }
    let changes = vec![signed(0, ViewChange { view: 3, ..ViewChange::default() }), lab.change(1), lab.change(3)];
    let opening = lab.new_view(3, changes);
    lab.wire.clear();
    for node in [1, 3] {
        lab.tell(0, node, opening.clone());
    }
    assert_eq!((lab.replicas[&3].view(), lab.replicas[&3].is_active()), (3, true));
    lab.input(3, Input::Batch(e));
    lab.flow(|_, to, message| to == 1 && matches!(message, Msg::PrePrepare(_)));
    if let Some(accepted) = lab.replicas[&1].accepted_vote(1).filter(|vote| vote.view == 3) {
        assert_eq!(lab.replicas[&3].accepted_vote(1), Some(accepted));
        for node in [1, 3] {
            lab.tell(0, node, Msg::Prepare(certificate(accepted)));
        }
        lab.tell(0, 1, Msg::Decided(decision(accepted, false)));
    }
    lab.decisions(1)
}

#[test]
fn a_null_filler_that_is_decided_is_no_free_slot() {
    assert_eq!(null_before_a_batch_that_is_lost(None), [NULL]);
    assert_eq!(null_before_a_batch_that_is_lost(Some(Mutation::FreedNull)).len(), 2, "the test notices where it is");
}

/// Digests that a NEW-VIEW of `view` chooses from reports of accepted votes in slot 1, and τ of the replicas that have it.
fn chosen(config: &Config, view: View, reports: &[(View, B256, bool)]) -> Vec<B256> {
    let change = |(signer, (of, digest, prepared)): (usize, &(View, B256, bool))| {
        let vote = vote(*of, 1, *digest);
        let prepared: Vec<Certificate> = prepared.then(|| certificate(vote)).into_iter().collect();
        signed(signer as u16, ViewChange { view, accepted: vec![vote], prepared, ..ViewChange::default() })
    };
    let changes = reports.iter().enumerate().map(change).collect();
    Sbft::choices(config, &signed(config.primary(view).0, NewView { view, changes })).1
}

/// With c > 0: a fast decision that a later view repeats at some replicas, and τ beside f+c+1 reports of one view.
#[test]
fn choices_of_six_replicas_keep_both_kinds_of_decisions() {
    let (d, e) = (batch(1).digest(), batch(2).digest());
    let of = |mutation, view, reports: &[_]| chosen(&Config { mutation, ..config(6, 1) }, view, reports);
    // Four correct replicas and the traitor signed d in view 0; view 1 repeated it at one. A fifth report is the traitor's.
    let fast = [(0, d, false), (1, d, false), (0, d, false), (0, e, false), (0, e, false)];
    assert_eq!(of(None, 2, &fast), [d]);
    assert_ne!(of(Some(Mutation::ExactPairs), 2, &fast), [d], "the test notices equal pairs");
    assert_ne!(of(Some(Mutation::SlowOnly), 2, &fast), [d], "the test notices where the fast path is not looked at");
    // Three correct replicas and the traitor prepared d in view 1, the other two and the traitor say that they accepted e.
    for (d, e) in [(d, e), (e, d)] {
        let slow = [(1, d, true), (1, d, false), (1, e, false), (1, e, false), (1, e, false)];
        assert_eq!(of(None, 2, &slow), [d]);
        assert_eq!(of(Some(Mutation::FastFirst), 2, &slow), [e], "the test notices where the fast value is preferred");
    }
    // What f+c replicas accepted is free, and so is a null filler that they accepted; not one of f+c+1.
    for (count, kept) in [(2, 0), (3, 1)] {
        let mut reports = vec![(0, NULL, false); count];
        reports.extend((count..5).map(|at| (0, B256::with_last_byte(at as u8 + 9), false)));
        assert_eq!(of(None, 2, &reports).len(), kept, "{count} reports");
    }
}

/// Choices beyond the window of a replica that is behind are filled once it has caught up, also after a restart.
#[test]
fn choices_above_the_window_are_filled_once_it_reaches_them() {
    for restart in [false, true] {
        // A window of eight slots; the others are at checkpoint 4, this replica at none.
        let mut lab = Lab::new(config(4, 1), [2]);
        let d = batch(7).digest();
        let far: Vec<Vote> = (5..=12).map(|slot| vote(0, slot, d)).collect();
        let report = |signer| {
            signed(signer, ViewChange { view: 1, stable: stable(4), accepted: far.clone(), ..ViewChange::default() })
        };
        lab.tell(1, 2, lab.new_view(1, vec![report(0), report(1), report(3)]));
        assert_eq!((lab.replicas[&2].opened(), lab.replicas[&2].stable().slot), (1, 0));
        lab.tell(1, 2, Msg::Fetched(batch(7)));
        let accepted = |lab: &Lab| -> BTreeSet<Slot> {
            (1..=12).filter(|slot| lab.replicas[&2].accepted_vote(*slot) == Some(vote(1, *slot, d))).collect()
        };
        assert_eq!(accepted(&lab), (5..=8).collect());
        let base = phalanx_bft::Base { slot: 4, digest: B256::with_last_byte(4) };
        if restart {
            // The record of the checkpoint is the last thing that becomes durable.
            lab.input(2, Input::Installed(base));
            let log = lab.logs.get_mut(&2).unwrap();
            let at = log.iter().position(|record| matches!(record, phalanx_bft::sbft::Record::Stable(_))).unwrap();
            log.truncate(at + 1);
            lab.open(2, base);
        } else {
            lab.input(2, Input::Installed(base));
        }
        assert_eq!((lab.replicas[&2].stable().slot, accepted(&lab)), (4, (5..=12).collect()), "restart {restart}");
    }
}
