//! Restarts and journals: a replica comes back with all that it had, and nothing that it had not.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use super::lab::{Lab, batch, config, proposal, signed};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{
    Base, Domain, Group, Index, Input, Protocol as _, Slot, Statement as _,
    sbft::{Checkpoint, Executed, Msg, NewView, Proposal, Record, Stable, Timer, ViewChange, Vote},
};

const fn vote(view: u64, slot: Slot, digest: B256) -> Vote {
    Vote { view, slot, digest }
}

/// Six slots of four replicas, of which four are below a checkpoint and the last one is not executed.
fn six_slots() -> Lab {
    let mut lab = Lab::new(config(4, 1), 0..4);
    for slot in 1..=6 {
        lab.input(0, Input::Batch(batch(slot)));
        lab.flow(|_, _, _| true);
        lab.timers(|timer| matches!(timer, Timer::Collect(..)));
        lab.flow(|_, _, _| true);
        for node in (0..4).filter(|_| slot < 6) {
            lab.input(node, Input::Committed { slot: slot.into(), digest: B256::with_last_byte(slot) });
        }
        lab.flow(|_, _, _| true);
    }
    assert!((0..4).all(|node| lab.replicas[&node].stable().slot == 4 && lab.replicas[&node].decided() == 6));
    lab
}

fn sorted(records: Vec<Record>) -> Vec<String> {
    let mut text: Vec<String> = records.iter().map(|record| format!("{record:?}")).collect();
    text.sort_unstable();
    text
}

/// The journal restores a replica whose journal is the same, batches included, and which decides the same once more.
#[test]
fn a_journal_keeps_every_batch() {
    for (leaves, node) in [(false, 0), (false, 1), (true, 2)] {
        let mut lab = six_slots();
        if leaves {
            lab.input(node, Input::Pending(Some(0)));
            lab.timer(node, Timer::Progress);
        }
        let journal = lab.replicas[&node].journal();
        assert_eq!(journal.iter().filter(|record| matches!(record, Record::Batch(_))).count(), 2);
        lab.logs.insert(node, journal.clone());
        lab.decided.clear();
        lab.open(node, Base { slot: 5, digest: B256::with_last_byte(5) });
        assert_eq!(sorted(lab.replicas[&node].journal()), sorted(journal));
        assert_eq!(lab.decided[&node].clone().into_iter().collect::<Vec<_>>(), [(6, batch(6).digest())]);
    }
}

/// A batch that is not at hand is fetched: it is no null filler.
#[test]
fn a_log_without_a_batch_decides_nothing_in_its_place() {
    let mut lab = six_slots();
    let log = lab.logs.get_mut(&1).unwrap();
    log.retain(|record| !matches!(record, Record::Batch(own) if *own == batch(6)));
    lab.decided.clear();
    lab.wire.clear();
    lab.open(1, Base { slot: 5, digest: B256::with_last_byte(5) });
    assert!(!lab.decided.contains_key(&1), "{:?}", lab.decided);
    assert_eq!(lab.replicas[&1].decided(), 5);
    lab.flow(|from, to, message| match message {
        Msg::Fetch(_) => from == 1,
        _ => to == 1,
    });
    assert_eq!(lab.decided[&1][&6], batch(6).digest());
}

/// A primary that crashes between its record and its proposal repeats the proposal: nothing else can fill the slot.
#[test]
fn a_restarted_primary_repeats_its_proposals() {
    for compacted in [false, true] {
        let mut lab = Lab::new(config(4, 1), 0..4);
        lab.input(0, Input::Batch(batch(1)));
        lab.wire.clear();
        if compacted {
            let journal = lab.replicas[&0].journal();
            lab.logs.insert(0, journal);
        }
        lab.open(0, Base::default());
        lab.flow(|_, _, _| true);
        lab.timers(|timer| matches!(timer, Timer::Collect(..) | Timer::Resend));
        lab.flow(|_, _, _| true);
        assert_eq!((lab.decided.len(), lab.decisions(1)), (4, vec![batch(1).digest()]), "compacted {compacted}");
        assert!(lab.replicas.values().all(|replica| replica.view() == 0));
        // Also for a replica that has lost the repetition.
        let mut lab = Lab::new(config(4, 1), 0..4);
        lab.input(0, Input::Batch(batch(1)));
        lab.open(0, Base::default());
        lab.wire.clear();
        lab.timer(2, Timer::Resend);
        lab.flow(|from, to, _| (from, to) == (2, 0) || (from, to) == (0, 2));
        assert!(lab.replicas[&2].accepted_vote(1).is_some());
    }
}

/// A backup that comes back still proves that its primary has made two proposals.
#[test]
fn a_restarted_backup_proves_equivocation() {
    let mut lab = Lab::new(config(4, 1), [1]);
    lab.tell(0, 1, proposal(0, 1, 0, &batch(1)));
    lab.open(1, Base::default());
    lab.tell(0, 1, proposal(0, 1, 0, &batch(2)));
    assert_eq!((lab.evidence, lab.replicas[&1].view()), (1, 1));
}

/// A primary that is caught a second time loses that view as well; the host is told once.
#[test]
fn evidence_works_in_each_view() {
    let mut lab = Lab::new(config(4, 1), [1]);
    let both = |view| {
        let of = |byte| signed(0, Proposal(vote(view, 1, batch(byte).digest())));
        Msg::Equivocation(of(1).into(), of(2).into())
    };
    lab.tell(3, 1, both(0));
    assert_eq!((lab.evidence, lab.replicas[&1].view()), (1, 1));
    // View 4 is led by 0 again.
    let empty = |signer| signed(signer, ViewChange { view: 4, ..ViewChange::default() });
    lab.tell(0, 1, lab.new_view(4, vec![empty(0), empty(2), empty(3)]));
    assert_eq!((lab.replicas[&1].view(), lab.replicas[&1].is_active()), (4, true));
    lab.tell(3, 1, both(4));
    assert_eq!((lab.evidence, lab.replicas[&1].view()), (1, 5));
    // The same where two proposals come, one of which waits for the pipeline.
    lab.tell(
        0,
        1,
        lab.new_view(
            8,
            [0, 2, 3].map(|signer| signed(signer, ViewChange { view: 8, ..ViewChange::default() })).to_vec(),
        ),
    );
    lab.input(1, Input::Hold(true));
    lab.tell(0, 1, proposal(8, 1, 0, &batch(1)));
    assert_eq!(lab.replicas[&1].view(), 8);
    lab.tell(0, 1, proposal(8, 1, 0, &batch(2)));
    assert_eq!((lab.evidence, lab.replicas[&1].view()), (1, 9));
}

/// The own state is compared with a certificate or a checkpoint, whichever comes first.
#[test]
fn a_state_that_contradicts_its_proof_stops_the_host() {
    let (own, other) = (B256::with_last_byte(1), B256::with_last_byte(2));
    let sign = |group: Group, bytes: Vec<u8>| phalanx_world::sign(group.signer(), &bytes);
    let executed = |slot, digest| {
        let executed = Executed { slot, digest };
        Msg::Executed(executed, sign(Group::State, executed.signed_bytes(Domain::default())))
    };
    let stable = |slot, digest| {
        let checkpoint = Checkpoint { slot, digest };
        Msg::Stable(Stable { checkpoint, signature: sign(Group::Slow, checkpoint.signed_bytes(Domain::default())) })
    };
    for (proof, slot) in [(executed(1, other), 1), (executed(4, other), 4), (stable(4, other), 4)] {
        for proof_first in [false, true] {
            let mut lab = Lab::new(config(4, 1), [2]);
            let committed = Input::Committed { slot, digest: own };
            if proof_first {
                lab.tell(1, 2, proof.clone());
                assert_eq!(lab.conflicts, 0);
                lab.input(2, committed);
            } else {
                lab.input(2, committed);
                assert_eq!(lab.conflicts, 0);
                lab.tell(1, 2, proof.clone());
            }
            assert_eq!(lab.conflicts, 1, "{proof:?}, proof first {proof_first}");
        }
    }
    let mut lab = Lab::new(config(4, 1), [2]);
    lab.tell(1, 2, stable(4, own));
    lab.input(2, Input::Committed { slot: 4, digest: own });
    assert_eq!((lab.conflicts, lab.replicas[&2].stable().slot), (0, 4));
}

/// NEW-VIEW leaves once the primary's record of it is durable.
#[test]
fn a_new_view_is_durable_before_it_leaves() {
    use phalanx_bft::{Checked, Out, sbft::Sbft};
    let mut lab = Lab::new(config(4, 1), [1]);
    lab.input(1, Input::Pending(Some(0)));
    lab.timer(1, Timer::Progress);
    let empty = |signer| signed(signer, ViewChange { view: 1, ..ViewChange::default() });
    lab.tell(0, 1, Msg::ViewChange(empty(0)));
    let mut replica: Sbft = lab.replicas[&1].clone();
    let mut out = Vec::new();
    let last = Checked::new(Msg::ViewChange(empty(3)), Domain::default(), |_| true).unwrap();
    replica.on_message(0, Index(3), last, &mut out);
    let job = out.iter().find_map(|out| if let Out::Work { job, .. } = out { Some(*job) } else { None }).unwrap();
    out.clear();
    replica.on_input(0, Input::Signed { job, signature: Bytes::from_static(b"signed") }, &mut out);
    let place = |is: &dyn Fn(&Out<Sbft>) -> bool| out.iter().position(is).unwrap();
    let entered = place(&|out| matches!(out, Out::Persist(Record::Entered(_))));
    assert!(entered < place(&|out| matches!(out, Out::Send(_, Msg::NewView(_)))));
}

/// However fast one replica climbs through the views, few of its view changes are verified; the others are not held up.
#[test]
fn view_changes_of_a_climber_are_not_all_verified() {
    let mut lab = Lab::new(config(4, 1), [1]);
    let change = |signer, view| Msg::ViewChange(signed(signer, ViewChange { view, ..ViewChange::default() }));
    let wanted = |lab: &mut Lab, views: core::ops::Range<u64>| {
        let mut count = 0;
        for view in views {
            count += usize::from(lab.replicas[&1].wants(Index(3), &change(3, view)));
            lab.tell(3, 1, change(3, view));
        }
        count
    };
    assert!(wanted(&mut lab, 10..1_000) <= 4);
    assert!(lab.replicas[&1].wants(Index(2), &change(2, 7)));
    lab.timer(1, Timer::Resend);
    assert!((1..=4).contains(&wanted(&mut lab, 1_000..2_000)));
}

/// Batches of views that led nowhere are dropped.
#[test]
fn a_stalled_slot_keeps_a_bounded_number_of_batches() {
    let mut lab = Lab::new(config(4, 1), [1]);
    for round in 1..60 {
        let view = 4 * round;
        let empty = |signer| signed(signer, ViewChange { view, ..ViewChange::default() });
        let changes = vec![empty(0), empty(2), empty(3)];
        lab.tell(0, 1, Msg::NewView(signed(0, NewView { view, changes })));
        lab.tell(0, 1, proposal(view, 1, 0, &batch(round as u8)));
        assert_eq!(lab.replicas[&1].accepted_vote(1), Some(vote(view, 1, batch(round as u8).digest())));
    }
    let batches = |records: &[Record]| records.iter().filter(|record| matches!(record, Record::Batch(_))).count();
    assert!(batches(&lab.replicas[&1].journal()) <= 2);
}

/// A primary whose own share is wrong combines signatures from the shares of the others, where no collector speaks.
#[test]
fn a_primary_with_a_damaged_key_does_without_its_own_share() {
    let mut lab = Lab::new(config(6, 1), 0..6);
    lab.liars = vec![0];
    let collectors: Vec<u16> = lab.config.collectors(1, 0).map(|index| index.0).collect();
    lab.input(0, Input::Batch(batch(1)));
    for _ in 0..4 {
        lab.flow(|from, to, message| match message {
            Msg::SignShare(_) | Msg::Commit(_) => to == 0,
            _ => !collectors.contains(&from),
        });
        lab.timers(|timer| matches!(timer, Timer::Help(_)));
    }
    assert!(lab.replicas[&0].banned().contains(Index(0)));
    assert_eq!(lab.spoilt, 1, "a share of a banned key is not combined again");
    assert_eq!(lab.decided.get(&0).and_then(|slots| slots.get(&1)), Some(&batch(1).digest()));
}
