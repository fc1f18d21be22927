//! Rules of the desk itself. The model engine's tests cover the contract of [`crate::ExecutionEngine`].

mod committed;
mod random;

use super::*;
use crate::{BlockEnv, CommitMeta, InvalidCause, Operation, Payload, TxPolicy};
use alloy_primitives::B256;

const DISK_FULL: Failure = Failure::Retry(RetryCause::DiskFull);

/// Value that the engine keeps in these tests: a name.
type Kept = &'static str;

fn rows<T>(value: T) -> Rows<T> {
    let (exec, state_root, meta) = (ExecId::GENESIS, B256::ZERO, CommitMeta::default());
    Rows::new(Row { committed: CommittedTip { height: 0, exec, state_root, meta }, value })
}

fn desk() -> Desk<Kept> {
    Desk::open(1, Limits::default(), rows("genesis"), 0)
}

/// A block that differs from every block with another number.
fn block(parent: ExecId, height: u64, number: u64) -> Candidate {
    let env = BlockEnv { height, timestamp_ms: number, ..BlockEnv::default() };
    Candidate::new(1, parent, env, TxPolicy::Strict, Payload::new(vec![Bytes::from(vec![number as u8])]).into())
}

fn outcome(id: ExecId) -> ExecOutcome {
    ExecOutcome {
        id,
        state_root: id.0,
        receipts_root: B256::ZERO,
        transactions_root: B256::ZERO,
        gas_used: 0,
        txs: [].into(),
    }
}

fn events<T>(desk: &mut Desk<T>) -> Vec<EngineEvent> {
    let mut events = Vec::new();
    while desk.poll(2, &mut events) > 0 {}
    assert!(!desk.has_events());
    events
}

/// The job of a kind that begins now; there is no other.
#[track_caller]
fn only<T>(desk: &mut Desk<T>, kind: JobKind) -> Job {
    let jobs = desk.start();
    assert_eq!(jobs.iter().map(|job| job.kind).collect::<Vec<_>>(), [kind]);
    jobs[0]
}

/// Brings a block to its root on a desk where no other job can begin.
fn root(desk: &mut Desk<Kept>, candidate: &Candidate, value: Kept) {
    desk.submit(Ticket(1), candidate.clone(), Priority::Speculative).expect("room");
    let job = only(desk, JobKind::Execute);
    desk.executed(job, Ok("executed"));
    let job = only(desk, JobKind::Root);
    desk.rooted(job, value, outcome(candidate.id()));
    assert_eq!(desk.value(candidate.id()), Some(&value));
}

fn failed(ticket: u64, id: ExecId, operation: Operation, why: Failure) -> EngineEvent {
    EngineEvent::Failed { ticket: Ticket(ticket), id, operation, why }
}

#[test]
fn a_job_of_a_dropped_block_ends_without_effect() {
    let mut desk = desk();
    let a = block(ExecId::GENESIS, 1, 1);
    desk.submit(Ticket(1), a.clone(), Priority::Speculative).expect("room");
    let old = only(&mut desk, JobKind::Execute);
    assert_eq!((desk.wants(old), desk.parent(a.id())), (true, Some(&"genesis")));
    desk.keep_only(&[]).expect("nothing to keep");
    assert!(!desk.wants(old));
    // The same block again, while the executor still runs the dropped job.
    desk.submit(Ticket(2), a.clone(), Priority::Speculative).expect("room");
    assert!(desk.start().is_empty() && !desk.wants(old));
    events(&mut desk);
    desk.executed(old, Ok("late"));
    assert_eq!((events(&mut desk), desk.value(a.id())), (vec![], None));
    assert_eq!(desk.take_dropped(), ["late"]);
    let new = only(&mut desk, JobKind::Execute);
    // A job does not end twice.
    desk.executed(old, Ok("later"));
    assert!(desk.wants(new));
    desk.executed(new, Ok("new"));
    assert_eq!(events(&mut desk), [EngineEvent::Executed { ticket: Ticket(2), id: a.id() }]);
    assert_eq!((desk.take_dropped(), desk.value(a.id())), (vec!["later"], Some(&"new")));
}

#[test]
fn a_root_or_write_of_a_former_life_does_not_count_for_the_next() {
    for kind in [JobKind::Root, JobKind::Stage] {
        let mut desk = desk();
        let a = block(ExecId::GENESIS, 1, 1);
        // Brings the desk to where a job of this kind is due.
        let approach = |desk: &mut Desk<Kept>, value| {
            desk.submit(Ticket(1), a.clone(), Priority::Speculative).expect("room");
            let job = only(desk, JobKind::Execute);
            desk.executed(job, Ok(value));
        };
        approach(&mut desk, "old");
        if kind == JobKind::Stage {
            let job = only(&mut desk, JobKind::Root);
            desk.rooted(job, "old", outcome(a.id()));
            desk.stage(Ticket(2), a.id()).expect("rooted");
        }
        let old = only(&mut desk, kind);
        desk.keep_only(&[]).expect("nothing to keep");
        approach(&mut desk, "new");
        if kind == JobKind::Stage {
            let job = only(&mut desk, JobKind::Root);
            desk.rooted(job, "new", outcome(a.id()));
            desk.stage(Ticket(3), a.id()).expect("rooted");
        }
        assert!(desk.start().is_empty() && !desk.wants(old), "{kind:?}");
        events(&mut desk);
        match kind {
            JobKind::Stage => desk.staged(old, Ok(())),
            _ => desk.rooted(old, "late", outcome(a.id())),
        }
        assert_eq!((events(&mut desk), desk.value(a.id())), (vec![], Some(&"new")), "{kind:?}");
        let new = only(&mut desk, kind);
        assert!(desk.wants(new) && new.serial > old.serial);
    }
}

#[test]
fn values_are_not_dropped_while_a_job_works_or_builds_on_them() {
    let mut desk = desk();
    let (a, other) = (block(ExecId::GENESIS, 1, 1), block(ExecId::GENESIS, 1, 2));
    let b = block(a.id(), 2, 3);
    root(&mut desk, &a, "a");
    root(&mut desk, &other, "other");
    desk.stage(Ticket(3), a.id()).expect("rooted");
    desk.submit(Ticket(4), b, Priority::Speculative).expect("room");
    let jobs = desk.start();
    let [execute, stage] = jobs[..] else { panic!("{jobs:?}") };
    desk.keep_only(&[]).expect("nothing to keep");
    assert_eq!(desk.take_dropped(), ["other"]);
    desk.staged(stage, Ok(()));
    assert_eq!(desk.take_dropped(), Vec::<Kept>::new(), "its child is executed on it");
    desk.executed(execute, Ok("b"));
    assert_eq!(desk.take_dropped(), ["a", "b"]);
    assert!(!events(&mut desk).iter().any(|event| matches!(event, EngineEvent::Staged { .. })));
}

#[test]
fn a_root_that_fails_for_the_moment_is_tried_when_the_block_is_submitted_again() {
    let mut desk = desk();
    let a = block(ExecId::GENESIS, 1, 1);
    let child = block(a.id(), 2, 2);
    for candidate in [&a, &child] {
        desk.submit(Ticket(1), candidate.clone(), Priority::Speculative).expect("room");
    }
    let job = only(&mut desk, JobKind::Execute);
    desk.executed(job, Ok("a"));
    let jobs = desk.start();
    let [execute, root] = jobs[..] else { panic!("{jobs:?}") };
    events(&mut desk);
    desk.failed(root, DISK_FULL);
    assert_eq!(events(&mut desk), [failed(1, a.id(), Operation::Submit, DISK_FULL)]);
    desk.executed(execute, Ok("child"));
    assert!(desk.start().is_empty(), "not before it is submitted again, nor the child's root before its own");
    assert_eq!(desk.stage(Ticket(2), a.id()), Err(Failure::Retry(RetryCause::NotReady(a.id()))));
    desk.submit(Ticket(3), a.clone(), Priority::Speculative).expect("there");
    let job = only(&mut desk, JobKind::Root);
    desk.rooted(job, "root of a", outcome(a.id()));
    assert!(events(&mut desk).contains(&EngineEvent::Rooted { ticket: Ticket(3), outcome: outcome(a.id()) }));
    assert_eq!((desk.take_dropped(), desk.outcome(a.id())), (vec![], Some(&outcome(a.id()))));
    assert_eq!(only(&mut desk, JobKind::Root).id, child.id());
}

#[test]
fn a_block_that_proves_invalid_takes_along_what_builds_on_it() {
    for why in [Failure::Invalid(InvalidCause::GasLimit), Failure::Superseded] {
        let mut desk = desk();
        let a = block(ExecId::GENESIS, 1, 1);
        let child = block(a.id(), 2, 2);
        for candidate in [&a, &child] {
            desk.submit(Ticket(1), candidate.clone(), Priority::Speculative).expect("room");
        }
        let job = only(&mut desk, JobKind::Execute);
        desk.executed(job, Ok("a"));
        let jobs = desk.start();
        events(&mut desk);
        desk.failed(jobs[1], why.clone());
        let told = events(&mut desk);
        assert_eq!(told[0], failed(1, a.id(), Operation::Submit, why));
        assert!(matches!(&told[1], EngineEvent::Dropped { ids, .. } if ids.len() == 2), "{told:?}");
        desk.executed(jobs[0], Ok("child"));
        assert_eq!((desk.take_dropped(), events(&mut desk)), (vec!["a", "child"], vec![]));
        assert_eq!(desk.pressure().unexecuted + desk.pressure().uncommitted, 0);
    }
}

/// Memory of executed blocks counts like bytes of payloads, until they are gone; decided blocks are let in.
#[test]
fn memory_of_executed_blocks_is_bounded() {
    let limits = Limits { bytes: 100, ..Limits::default() };
    let mut desk: Desk<Kept> = Desk::open(1, limits, rows("genesis"), 0);
    let (a, b) = (block(ExecId::GENESIS, 1, 1), block(ExecId::GENESIS, 1, 2));
    desk.submit(Ticket(1), a.clone(), Priority::Speculative).expect("room");
    desk.weigh(a.id(), 1_000);
    let job = only(&mut desk, JobKind::Execute);
    desk.executed(job, Ok("executed"));
    desk.submit(Ticket(2), b.clone(), Priority::Speculative).expect("a block that is not executed weighs nothing");
    desk.weigh(a.id(), 99);
    let c = block(ExecId::GENESIS, 1, 3);
    let busy = Err(Failure::Retry(RetryCause::Busy));
    assert_eq!(desk.submit(Ticket(3), c.clone(), Priority::Speculative), busy);
    assert_eq!(desk.submit(Ticket(3), c.clone(), Priority::Decided), Ok(()));
    desk.keep_only(&[b.id()]).expect("it is there");
    assert_eq!(desk.submit(Ticket(4), c, Priority::Speculative), Ok(()));
    assert_eq!((desk.replace(b.id(), "early"), desk.replace(a.id(), "gone")), (None, None));
}
