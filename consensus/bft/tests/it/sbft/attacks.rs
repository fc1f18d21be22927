//! Attacks of one traitor, and faults at awkward moments: neither safety nor liveness gives way.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use super::lab::{Lab, batch, certificate, config, decision, proposal, signed};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{
    Base, Batch, Domain, Group, Index, Input, NULL, Protocol as _, Quorums, Statement as _,
    sbft::{
        Checkpoint, CommitShare, Config, Decision, Executed, FastWait, Msg, Mutation, NewView, Record, SignShare,
        Stable, StateShare, Status, Step, Timer, ViewChange, Vote,
    },
};

/// The batch's vote in slot 1 of a view.
const fn vote(view: u64, batch: &Batch) -> Vote {
    Vote { view, slot: 1, digest: batch.digest() }
}

/// A fast decision that one replica sees before it crashes for good survives the view change.
#[test]
fn a_fast_decision_seen_by_one_replica_that_crashes_is_kept() {
    for (n, f) in [(4, 1), (6, 1)] {
        let mut lab = Lab::new(config(n, f), 0..n as u16);
        let d = batch(1);
        lab.input(0, Input::Batch(d.clone()));
        let collector = lab.config.collectors(1, 0).next().unwrap().0;
        // The collector decides; its proof reaches no other replica.
        lab.flow(|_, _, message| matches!(message, Msg::PrePrepare(_) | Msg::SignShare(_)));
        assert_eq!(lab.decided.len(), 1);
        assert_eq!(lab.decided[&collector][&1], d.digest());
        let others: Vec<u16> = (0..n as u16).filter(|node| *node != collector).collect();
        lab.replicas.remove(&collector);
        // The rest leaves the view, twice where the crashed replica leads the next one.
        for _ in 0..2 {
            for node in &others {
                let active = lab.replicas[node].is_active();
                lab.timer(*node, if active { Timer::Progress } else { Timer::NewView });
            }
            lab.flow(|from, to, message| {
                from != collector && to != collector && !matches!(message, Msg::PrePrepare(_))
            });
            lab.timers(|timer| matches!(timer, Timer::Collect(..) | Timer::Help(_)));
            lab.flow(|from, to, _| from != collector && to != collector);
        }
        assert_eq!(lab.decisions(1), [d.digest()], "n = {n}");
    }
}

/// Two proposals of one slot: evidence, and the primary loses its view at once.
#[test]
fn a_primary_that_signs_two_batches_in_a_slot_loses_its_view() {
    let mut lab = Lab::new(config(4, 1), [1, 2, 3]);
    let (d, e) = (batch(1), batch(2));
    // Different batches to different replicas: no path comes to an end.
    lab.tell(0, 1, proposal(0, 1, 0, &d));
    lab.tell(0, 2, proposal(0, 1, 0, &d));
    lab.tell(0, 3, proposal(0, 1, 0, &e));
    lab.flow(|from, _, _| from != 0);
    lab.timers(|timer| matches!(timer, Timer::Collect(..) | Timer::Help(_)));
    lab.flow(|from, _, _| from != 0);
    assert!(lab.decisions(1).is_empty() && lab.evidence == 0);
    // One replica sees both.
    lab.tell(0, 3, proposal(0, 1, 0, &d));
    assert_eq!(lab.evidence, 1);
    lab.flow(|from, _, _| from != 0);
    assert!([1, 2, 3].iter().all(|node| lab.replicas[node].view() == 1), "a proof is enough for all");
    lab.tell(0, 2, proposal(0, 1, 0, &e));
    assert_eq!(lab.evidence, 3, "each replica reports once");
}

#[test]
fn evidence_that_proves_nothing_is_ignored() {
    use phalanx_bft::sbft::Proposal;
    let mut lab = Lab::new(config(4, 1), [2]);
    let (d, e) = (batch(1), batch(2));
    let of =
        |signer: u16, slot, batch: &Batch| signed(signer, Proposal(Vote { view: 0, slot, digest: batch.digest() }));
    let pairs = [
        [of(0, 1, &d), of(0, 1, &d)],
        [of(0, 1, &d), of(0, 2, &e)],
        [of(3, 1, &d), of(3, 1, &e)],
        [of(0, 1, &d), of(3, 1, &e)],
    ];
    for [one, other] in pairs {
        lab.tell(3, 2, Msg::Equivocation(one.into(), other.into()));
    }
    assert_eq!((lab.evidence, lab.replicas[&2].view()), (0, 0));
}

/// Wrong shares: the liar is found, banned, and the slot goes on without it.
#[test]
fn a_wrong_share_bans_its_replica_and_costs_no_view() {
    // With six replicas, the shares of the first five are combined.
    for (n, f, liar) in [(6, 1, 1), (6, 1, 2), (4, 1, 3)] {
        let mut lab = Lab::new(config(n, f), 0..n as u16);
        lab.liars = vec![liar];
        lab.input(0, Input::Batch(batch(1)));
        lab.flow(|_, _, _| true);
        lab.timers(|timer| matches!(timer, Timer::Collect(..)));
        lab.flow(|_, _, _| true);
        lab.timers(|timer| matches!(timer, Timer::Help(_)));
        lab.flow(|_, _, _| true);
        let deciders = lab.decided.len();
        assert_eq!(deciders, n, "n = {n}: {:?}", lab.decided);
        let banned = lab.replicas.values().filter(|replica| replica.banned().contains(Index(liar))).count();
        assert!(banned > 0, "no collector has noticed");
        assert!(lab.replicas.values().all(|replica| replica.view() == 0));
    }
}

/// Signatures that do not verify change nothing.
#[test]
fn combined_signatures_that_do_not_verify_are_dropped() {
    let mut lab = Lab::new(config(4, 1), [1]);
    let d = batch(1);
    lab.tell(0, 1, proposal(0, 1, 0, &d));
    let junk = Bytes::from_static(b"junk");
    let of = vote(0, &d);
    for group in Group::ALL {
        lab.tell(3, 1, Msg::Decided(Decision { vote: of, group, signature: junk.clone() }));
    }
    // A signature of the wrong group, and one over the wrong statement.
    lab.tell(3, 1, Msg::Decided(Decision { group: Group::State, ..decision(of, true) }));
    lab.tell(3, 1, Msg::Decided(Decision { group: Group::Slow, ..decision(of, true) }));
    lab.tell(3, 1, Msg::Decided(Decision { signature: certificate(of).signature, ..decision(of, false) }));
    lab.tell(3, 1, Msg::Prepare(phalanx_bft::sbft::Certificate { vote: of, signature: junk.clone() }));
    lab.tell(3, 1, Msg::Executed(Executed { slot: 1, digest: B256::ZERO }, junk.clone()));
    lab.tell(3, 1, Msg::Stable(Stable { checkpoint: Checkpoint { slot: 4, digest: B256::ZERO }, signature: junk }));
    assert!(lab.decided.is_empty() && lab.replicas[&1].stable().slot == 0);
    assert!(!lab.logs[&1].iter().any(|record| matches!(record, Record::Prepared(_))));
    lab.tell(3, 1, Msg::Decided(decision(of, true)));
    assert_eq!(lab.decided[&1][&1], d.digest());
}

/// All collectors are silent: the primary is the last one, and no view change is needed.
#[test]
fn silent_collectors_cost_no_view() {
    for (n, f, silent) in [(4, 1, 1), (6, 1, 1), (9, 2, 2)] {
        let mut lab = Lab::new(config(n, f), 0..n as u16);
        let collectors: Vec<u16> = lab.config.collectors(1, 0).map(|index| index.0).take(silent).collect();
        collectors.iter().for_each(|node| drop(lab.replicas.remove(node)));
        let speaks = |from: u16| !collectors.contains(&from);
        lab.input(0, Input::Batch(batch(1)));
        for _ in 0..3 {
            lab.flow(|from, to, _| speaks(from) && speaks(to));
            lab.timers(|timer| matches!(timer, Timer::Collect(..)));
            lab.flow(|from, to, _| speaks(from) && speaks(to));
            lab.timers(|timer| matches!(timer, Timer::Help(_)));
        }
        lab.flow(|from, to, _| speaks(from) && speaks(to));
        assert_eq!(lab.decided.len(), n - silent, "n = {n}");
        assert!(lab.replicas.values().all(|replica| replica.view() == 0 && replica.is_active()));
    }
}

/// A slot that only one correct replica has executed: f+1 shares answer the client, and drop nothing.
///
/// The replica decides on the slow path with the traitor's help, executes, and signs π with the traitor. The others take the
/// certificate, leave the view without that replica, and must still choose its batch.
fn certified_by_one(mutation: Option<Mutation>) -> Vec<B256> {
    let mut lab = Lab::new(Config { mutation, ..config(4, 1) }, [0, 1, 2]);
    let (d, e) = (batch(1), batch(2));
    for node in [0, 1, 2] {
        lab.input(node, Input::Pending(Some(0)));
    }
    lab.input(0, Input::Batch(d.clone()));
    lab.flow(|_, _, message| matches!(message, Msg::PrePrepare(_)));
    for node in [0, 1, 2] {
        lab.tell(3, node, Msg::Prepare(certificate(vote(0, &d))));
    }
    lab.tell(3, 0, Msg::Decided(decision(vote(0, &d), false)));
    assert_eq!(lab.decided[&0][&1], d.digest());
    let executed = Executed { slot: 1, digest: B256::with_last_byte(7) };
    let signature = phalanx_world::sign(Group::State.signer(), &executed.signed_bytes(Domain::default()));
    for node in [1, 2] {
        lab.tell(3, node, Msg::Executed(executed, signature.clone()));
    }
    lab.wire.clear();
    // View 1 without replica 0.
    lab.timer(1, Timer::Progress);
    lab.timer(2, Timer::Progress);
    let changes = vec![lab.change(1), lab.change(2), signed(3, ViewChange { view: 1, ..ViewChange::default() })];
    let opening = lab.new_view(1, changes);
    lab.wire.clear();
    for node in [1, 2] {
        let from = if node == 1 { 3 } else { 1 };
        lab.tell(from, node, opening.clone());
        lab.input(node, Input::Pending(Some(1)));
    }
    if lab.replicas[&1].room() > 0 && lab.replicas[&1].free_slot() == 1 {
        lab.input(1, Input::Batch(e));
    }
    lab.flow(|from, to, _| from != 0 && to != 0);
    // The traitor's shares complete what the two correct ones sign.
    let accepted = lab.replicas[&2].accepted_vote(1);
    if let Some(accepted) = accepted {
        lab.tell(3, 2, Msg::Prepare(certificate(accepted)));
        lab.tell(3, 2, Msg::Decided(decision(accepted, false)));
    }
    lab.decisions(1)
}

#[test]
fn a_certificate_with_a_single_honest_signer_drops_nothing() {
    assert_eq!(certified_by_one(None), [batch(1).digest()]);
    assert_eq!(certified_by_one(Some(Mutation::StableByState)).len(), 2, "the test notices where it does");
}

/// A fast decision of a later slot proves that the slots below are executed, but not with what state: the window stays.
fn fast_drops(mutation: Option<Mutation>) -> usize {
    let mut lab = Lab::new(Config { interval: 2, mutation, ..config(4, 1) }, 0..4);
    for slot in 1..=2 {
        lab.input(0, Input::Batch(batch(slot)));
        lab.flow(|_, _, message| !matches!(message, Msg::SignCheckpoint(_)));
        let digest = B256::with_last_byte(slot);
        (0..4).for_each(|node| lab.input(node, Input::Committed { slot: slot.into(), digest }));
        lab.flow(|_, _, message| !matches!(message, Msg::SignCheckpoint(_)));
    }
    assert_eq!(lab.decided.values().filter(|slots| slots.len() == 2).count(), 4);
    lab.input(1, Input::Pending(Some(0)));
    lab.timer(1, Timer::Progress);
    let change = lab.change(1);
    assert_eq!(change.body.stable, Stable::default());
    change.body.decided.len()
}

#[test]
fn a_fast_decision_moves_the_window_only_with_a_certificate() {
    assert_eq!(fast_drops(None), 2, "both decisions are reported");
    assert!(fast_drops(Some(Mutation::StableUnproven)) < 2, "the test notices where one is dropped");
}

/// Checkpoints need 2f+c+1 shares, whatever f+1 replicas say.
#[test]
fn a_checkpoint_needs_more_than_a_clients_certificate() {
    let mut lab = Lab::new(config(4, 1), [2]);
    let share = |signer: u16, slot: u64| {
        let digest = B256::with_last_byte(9);
        let bytes = Checkpoint { slot, digest }.signed_bytes(Domain::default());
        let signed = [&b"share"[..], &[Group::Slow as u8], bytes.as_slice()].concat();
        Msg::SignCheckpoint(StateShare { slot, digest, share: phalanx_world::sign(Index(signer), &signed) })
    };
    lab.tell(0, 2, share(0, 4));
    lab.tell(1, 2, share(1, 4));
    assert!(lab.wire.is_empty() && lab.replicas[&2].stable().slot == 0);
    lab.tell(1, 2, share(1, 4));
    lab.tell(3, 2, share(3, 5));
    assert_eq!(lab.replicas[&2].stable().slot, 0);
    lab.tell(3, 2, share(3, 4));
    // Certified, and not decided here: the state has to be fetched.
    lab.input(2, Input::Installed(Base { slot: 4, digest: B256::with_last_byte(9) }));
    assert_eq!(lab.replicas[&2].stable().slot, 4);
}

/// A crash while a replica enters a view leaves the choices of its NEW-VIEW in force.
fn enter_and_crash(mutation: Option<Mutation>) -> bool {
    let mut lab = Lab::new(Config { mutation, ..config(4, 1) }, [0, 2, 3]);
    let (d, other) = (batch(1), batch(2));
    lab.input(0, Input::Batch(d.clone()));
    lab.flow(|_, _, message| matches!(message, Msg::PrePrepare(_)));
    lab.timer(2, Timer::Progress);
    lab.timer(3, Timer::Progress);
    let lie = ViewChange { view: 1, accepted: vec![vote(0, &d)], ..ViewChange::default() };
    let opening = lab.new_view(1, vec![signed(1, lie), lab.change(2), lab.change(3)]);
    lab.wire.clear();
    lab.tell(1, 2, opening);
    assert!(lab.replicas[&2].is_active() && lab.replicas[&2].view() == 1);
    // The power fails: Entered is durable, the acceptance behind it is not.
    let log = lab.logs.get_mut(&2).unwrap();
    let entered = log.iter().position(|record| matches!(record, Record::Entered(_))).unwrap();
    log.truncate(entered + 1);
    lab.open(2, Base::default());
    lab.wire.clear();
    lab.tell(1, 2, proposal(1, 1, 1, &other));
    lab.wire.iter().any(|(_, _, message)| matches!(message, Msg::SignShare(share) if share.vote == vote(1, &other)))
        || lab.replicas[&2].accepted_vote(1) == Some(vote(1, &other))
}

#[test]
fn a_crash_while_entering_a_view_forgets_no_choice() {
    assert!(!enter_and_crash(None));
    assert!(enter_and_crash(Some(Mutation::ForgetChoices)), "the test notices a restart that forgets them");
}

/// A log that is compacted restores the same replica.
#[test]
fn a_journal_restores_the_replica() {
    let mut lab = Lab::new(config(4, 1), 0..4);
    for slot in 1..=6 {
        lab.input(0, Input::Batch(batch(slot)));
        lab.flow(|_, _, _| true);
        (0..4).for_each(|node| {
            lab.input(node, Input::Committed { slot: slot.into(), digest: B256::with_last_byte(slot) });
        });
        lab.flow(|_, _, _| true);
    }
    lab.timer(2, Timer::Progress);
    lab.flow(|_, _, message| !matches!(message, Msg::SignShare(_)));
    let before: Vec<_> = (0..4).map(|node| describe(&lab, node)).collect();
    for node in 0..4 {
        let journal = lab.replicas[&node].journal();
        lab.logs.insert(node, journal);
        lab.open(node, Base { slot: 6, digest: B256::with_last_byte(6) });
    }
    assert_eq!((0..4).map(|node| describe(&lab, node)).collect::<Vec<_>>(), before);
    assert!(before.iter().all(|known| known.contains("stable 4 decided 6")), "{before:?}");
}

fn describe(lab: &Lab, node: u16) -> String {
    let replica = &lab.replicas[&node];
    let slots: Vec<_> = (1..=8).map(|slot| (replica.decision(slot), replica.accepted_vote(slot))).collect();
    let (view, active) = (replica.view(), replica.is_active());
    format!("{view} {active} stable {} decided {} {slots:?}", replica.stable().slot, replica.decided())
}

/// Stale and partial view changes: too few, of another view, or twice by one replica open nothing.
#[test]
fn stale_and_partial_view_changes_open_nothing() {
    let mut lab = Lab::new(config(4, 1), [2]);
    let empty = |signer: u16, view| signed(signer, ViewChange { view, ..ViewChange::default() });
    let opening = |changes: Vec<_>| Msg::NewView(signed(1, NewView { view: 1, changes }));
    for changes in [
        vec![],
        vec![empty(0, 1), empty(1, 1)],
        vec![empty(0, 1), empty(1, 1), empty(1, 1)],
        vec![empty(0, 1), empty(1, 1), empty(3, 2)],
        vec![empty(1, 1), empty(0, 1), empty(3, 1)],
        vec![empty(0, 1), empty(1, 1), empty(7, 1)],
    ] {
        lab.tell(1, 2, opening(changes));
        assert_eq!(lab.replicas[&2].opened(), 0);
    }
    // Not by its primary.
    let changes = vec![empty(0, 1), empty(1, 1), empty(3, 1)];
    lab.tell(3, 2, Msg::NewView(signed(3, NewView { view: 1, changes: changes.clone() })));
    assert_eq!(lab.replicas[&2].opened(), 0);
    // A report without order, beyond the window, or of its own view.
    let d = batch(1).digest();
    let at = |view, slot| Vote { view, slot, digest: d };
    for accepted in [vec![at(0, 2), at(0, 1)], vec![at(0, 9)], vec![at(1, 1)], vec![at(0, 1), at(0, 1)]] {
        let lie = signed(3, ViewChange { view: 1, accepted, ..ViewChange::default() });
        lab.tell(1, 2, opening(vec![empty(0, 1), empty(1, 1), lie]));
        assert_eq!(lab.replicas[&2].opened(), 0);
    }
    lab.tell(1, 2, opening(changes));
    assert_eq!(lab.replicas[&2].opened(), 1);
}

/// Numbers near their maximum are refused without a panic.
#[test]
fn numbers_near_their_maximum_do_not_panic() {
    const MAX: u64 = u64::MAX;
    let mut lab = Lab::new(config(6, 1), [1]);
    let vote = Vote { view: MAX, slot: MAX, digest: NULL };
    let junk = Bytes::from_static(b"junk");
    let share = StateShare { slot: MAX, digest: NULL, share: junk.clone() };
    let stable = |slot| {
        let checkpoint = Checkpoint { slot, digest: NULL };
        let signature = phalanx_world::sign(Group::Slow.signer(), &checkpoint.signed_bytes(Domain::default()));
        Stable { checkpoint, signature }
    };
    let far = stable(MAX - MAX % 4);
    let change = ViewChange { view: MAX, stable: far.clone(), accepted: vec![vote], ..ViewChange::default() };
    for message in [
        Msg::SignShare(SignShare { vote, fast: junk.clone(), slow: junk.clone() }),
        Msg::Commit(CommitShare { vote, share: junk }),
        Msg::Prepare(certificate(vote)),
        Msg::Decided(decision(vote, true)),
        Msg::SignState(share.clone()),
        Msg::SignCheckpoint(share),
        Msg::ViewChange(signed(3, change.clone())),
        Msg::NewView(signed(3, NewView { view: MAX, changes: vec![signed(3, change)] })),
        Msg::Status(Status { view: MAX, active: true, stable: MAX, decided: MAX }),
        Msg::Status(Status { view: 0, active: true, stable: 0, decided: MAX }),
        Msg::Stable(far),
        Msg::Complaint(MAX),
        Msg::Complaint(0),
    ] {
        lab.tell(3, 1, message);
    }
    for timer in [Timer::Help(MAX), Timer::State(MAX), Timer::Collect(MAX, Step::Fast)] {
        lab.timer(1, timer);
    }
    assert_eq!(lab.conflicts, 0);
}

/// Shares of a replica stay bounded: one per slot and kind, of bounded length.
#[test]
fn a_replica_keeps_one_share_of_each_other_per_slot() {
    let mut lab = Lab::new(config(4, 1), 0..4);
    let collector = lab.config.collectors(1, 0).next().unwrap().0;
    let tell = |lab: &mut Lab, length: usize| {
        let share = Bytes::from(vec![0; length]);
        let config = std::sync::Arc::clone(&lab.config);
        for view in (0..2_000).filter(|view| config.collectors(1, *view).any(|index| index.0 == collector)) {
            let vote = Vote { view, slot: 1, digest: B256::with_last_byte(view as u8) };
            lab.tell(0, collector, Msg::SignShare(SignShare { vote, fast: share.clone(), slow: share.clone() }));
            lab.tell(0, collector, Msg::Commit(CommitShare { vote, share: share.clone() }));
        }
        format!("{:?}", lab.replicas[&collector]).len()
    };
    let before = tell(&mut lab, 1 << 10);
    let after = tell(&mut lab, 96);
    assert!(before < 20_000, "long shares are kept: {before} bytes");
    assert!(before < after && after < before + 5_000, "{after} bytes, before {before}");
}

/// An impossible configuration is refused with its name.
#[test]
fn constants_out_of_range_are_named() {
    let legal = || config(6, 1);
    assert_eq!(legal().check(), Ok(()));
    let name = |config: &Config| config.check().unwrap_err().name;
    assert_eq!(name(&Config { quorums: Quorums::new(5, 1).unwrap(), ..legal() }), "replicas");
    assert_eq!(name(&Config { quorums: Quorums::new(1, 0).unwrap(), ..legal() }), "replicas");
    assert_eq!(name(&Config { interval: 0, ..legal() }), "interval");
    assert_eq!(name(&Config { help: 0, ..legal() }), "help");
    assert_eq!(name(&Config { fast_wait: FastWait { least: 2, most: 1 }, ..legal() }), "fast_wait.least");
    assert_eq!(name(&Config { active: Some(0), ..legal() }), "active");
}

/// A replica leaves its view when its own patience is over and f other ones complain about that view, with c = 0 and c = 1.
#[test]
fn complaints_count_once_for_their_view_and_until_progress() {
    for n in [7, 9] {
        let expire = |lab: &mut Lab| lab.replicas.get_mut(&1).unwrap().on_timer(0, Timer::Progress, &mut Vec::new());
        let view = |told: &[(u16, u64)], overdue: bool| {
            let mut lab = Lab::new(config(n, 2), 0..n as u16);
            lab.input(1, Input::Pending(Some(0)));
            if overdue {
                expire(&mut lab);
            }
            told.iter().for_each(|(from, view)| lab.tell(*from, 1, Msg::Complaint(*view)));
            lab.replicas[&1].view()
        };
        assert_eq!(view(&[(3, 0), (4, 0)], true), 1, "f other ones");
        assert_eq!(view(&[(3, 0); 20], true), 0, "a replica counts once");
        assert_eq!(view(&[(3, 1), (4, 1)], true), 0, "another view");
        assert_eq!(view(&[(2, 0), (3, 0), (4, 0), (5, 0), (6, 0)], false), 0, "own patience is not over");
        let mut lab = Lab::new(config(n, 2), 0..n as u16);
        lab.input(1, Input::Pending(Some(0)));
        lab.tell(3, 1, Msg::Complaint(0));
        lab.input(1, Input::Pending(Some(1)));
        expire(&mut lab);
        lab.tell(4, 1, Msg::Complaint(0));
        assert_eq!(lab.replicas[&1].view(), 0, "progress ends complaints");
        let mut lab = Lab::new(config(n, 2), 0..n as u16);
        lab.input(1, Input::Pending(Some(0)));
        lab.tell(3, 1, Msg::Complaint(0));
        (0..3).for_each(|_| expire(&mut lab));
        lab.tell(4, 1, Msg::Complaint(0));
        assert_eq!(lab.replicas[&1].view(), 0, "old complaints do not count");
        lab.tell(5, 1, Msg::Complaint(0));
        assert_eq!(lab.replicas[&1].view(), 1, "f other ones at a time");
        // What the own pipeline keeps back is not the primary's fault.
        let mut lab = Lab::new(config(n, 2), 0..n as u16);
        lab.input(1, Input::Pending(Some(0)));
        lab.timer(1, Timer::Complain);
        let complaints = |lab: &Lab| lab.wire.iter().filter(|(_, _, m)| matches!(m, Msg::Complaint(0))).count();
        assert_eq!(complaints(&lab), n - 1);
        lab.input(1, Input::Hold(true));
        lab.timer(1, Timer::Resend);
        assert_eq!(complaints(&lab), n - 1, "the own pipeline holds");
        lab.input(1, Input::Hold(false));
        lab.timer(1, Timer::Resend);
        assert_eq!(complaints(&lab), 2 * (n - 1));
    }
}
