//! Troubles of the engine and the host: those that pass cost time, the others halt, and a stop leaves the disk sound.

use crate::kit::{Disk, JUNK, NAME, START_MS, TestHost, begun, commit, open, tx};
use alloy_primitives::Bytes;
use phalanx_abci::{
    App, CallError, Halt,
    conformance::{Block, Comet, asked},
    proto::{self, Request, request::Value as Asked},
};
use phalanx_engine_api::{
    ExecutionEngine as _, Failure, FatalCause, InvalidCause, Limits, RetryCause, Ticket, desk::JobKind,
};

#[test]
fn troubles_that_pass_cost_time() {
    let (app, host, disk) = begun();
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    host.model().fail(JobKind::Execute, Failure::Retry(RetryCause::Busy));
    app.call(block.process()).expect("a proposal that cannot be executed now is accepted");
    host.model().fail(JobKind::Stage, Failure::Retry(RetryCause::DiskFull));
    app.call(block.finalize()).expect("the second try");
    host.model().fail(JobKind::Commit, Failure::Retry(RetryCause::Sink));
    app.call(commit()).expect("the second try");
    assert_eq!((disk.roots().len(), host.halts()), (2, vec![]));
}

#[test]
fn a_proposal_with_junk_is_rejected_and_a_decided_block_with_it_is_executed() {
    use proto::{response::Value as Answer, response_process_proposal::ProposalStatus};
    let (app, host, disk) = begun();
    let status = |block: &Block| match app.call(block.process()).expect("an answer").value {
        Some(Answer::ProcessProposal(answer)) => answer.status,
        other => panic!("{other:?}"),
    };
    let junk = Block::new(1, 0, START_MS, vec![tx(1), Bytes::from_static(JUNK), tx(2)]);
    assert_eq!(status(&junk), ProposalStatus::Reject as i32);
    assert_eq!(host.model().executions(), 0, "nothing of it runs");
    assert_eq!(status(&Block::new(1, 1, START_MS, vec![tx(1), tx(2)])), ProposalStatus::Accept as i32);
    // More than two thirds of the power have decided it, or it is from before the check.
    app.call(junk.finalize()).expect("a decided block is executed in any case");
    app.call(commit()).expect("sound");
    assert_eq!((disk.roots().len(), host.halts()), (2, vec![]));
}

#[test]
fn a_decided_block_that_the_engine_has_lost_is_executed_again() {
    let (app, host, disk) = begun();
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    app.call(block.process()).expect("sound");
    host.model().keep_only(Ticket(0), &[]).expect("dropped");
    let first = app.call(block.finalize()).expect("executed again");
    host.model().keep_only(Ticket(0), &[]).expect("dropped");
    app.call(commit()).expect("executed and staged again");
    assert_eq!((disk.roots().len(), host.model().executions()), (2, 3));
    let next = Block::new(2, 0, START_MS, vec![]);
    assert_ne!(app.call(next.finalize()).expect("the chain goes on"), first);
}

#[test]
fn a_full_house_of_proposals_makes_room() {
    let disk = Disk::new();
    let host = TestHost::open_with(&disk, Limits { siblings: 2, ..Limits::default() });
    let app = App::new(host.clone());
    Comet::new(NAME, START_MS).handshake(&mut app.clone()).expect("sound");
    for round in 0..9 {
        app.call(Block::new(1, round, START_MS, vec![tx(round.into())]).process()).expect("accepted");
    }
    app.call(Block::new(1, 2, START_MS, vec![tx(2)]).finalize()).expect("sound");
    app.call(commit()).expect("sound");
    assert_eq!((disk.roots().len(), host.halts()), (2, vec![]));
}

#[test]
fn troubles_that_stay_halt() {
    let fatal = Failure::Fatal(FatalCause::Io("the disk is gone".into()));
    let causes = [
        (JobKind::Execute, fatal.clone()),
        (JobKind::Execute, Failure::Invalid(InvalidCause::Environment)),
        (JobKind::Stage, fatal.clone()),
        (JobKind::Stage, Failure::Superseded),
    ];
    for (kind, why) in causes {
        let (app, host, disk) = begun();
        host.model().fail(kind, why.clone());
        let error = app.call(Block::new(1, 0, START_MS, vec![tx(1)]).finalize()).expect_err("a halt");
        assert!(matches!(error, CallError::Halted(_)), "{kind:?}: {error}");
        assert_eq!(host.halts(), [Halt::Engine { height: 1, why }], "{kind:?}");
        assert_eq!(disk.roots().len(), 1, "{kind:?}");
    }
    let (app, host, disk) = begun();
    app.call(Block::new(1, 0, START_MS, vec![tx(1)]).finalize()).expect("sound");
    host.model().fail(JobKind::Commit, fatal);
    assert!(matches!(app.call(commit()), Err(CallError::Halted(_))));
    assert_eq!((disk.roots().len(), host.halts().len()), (1, 1));
}

#[test]
fn an_invalid_proposal_is_no_reason_to_halt_before_it_is_decided() {
    let (app, host, disk) = begun();
    let (block, other) = (Block::new(1, 0, START_MS, vec![tx(1)]), Block::new(1, 1, START_MS, vec![tx(2)]));
    host.model().fail(JobKind::Execute, Failure::Invalid(InvalidCause::Environment));
    app.call(block.process()).expect("accepted");
    app.call(other.process()).expect("accepted");
    app.call(other.finalize()).expect("sound");
    app.call(commit()).expect("sound");
    assert_eq!((disk.roots().len(), host.halts()), (2, vec![]));
}

#[test]
fn a_stop_ends_the_call_that_waits_and_the_next_start_goes_on() {
    let (app, host, disk) = begun();
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    host.model().hold(true);
    let waiting = std::thread::spawn({
        let (app, block) = (app.clone(), block.clone());
        move || app.call(block.finalize())
    });
    host.model().wait_for_a_block();
    app.stop();
    assert_eq!(waiting.join().expect("no panic"), Err(CallError::Stopping));
    let (app, _) = open(&disk);
    Comet::new(NAME, START_MS).handshake(&mut app.clone()).expect("sound");
    app.call(block.finalize()).expect("sound");
    app.call(commit()).expect("sound");
    assert_eq!(disk.roots().len(), 2);
}

/// The driver may be in any state by then.
#[test]
fn calls_that_wait_for_one_that_halts_are_not_answered() {
    let (app, host, _) = begun();
    host.model().hold(true);
    let call = |request: Request| {
        let app = app.clone();
        std::thread::spawn(move || app.call(request))
    };
    let first = call(Block::new(1, 0, START_MS, vec![tx(1)]).finalize());
    host.model().wait_for_a_block();
    let others: Vec<_> = (0..4).map(|_| call(asked(Asked::Info(proto::RequestInfo::default())))).collect();
    host.model().fail(JobKind::Execute, Failure::Fatal(FatalCause::Io("gone".into())));
    host.model().hold(false);
    for waiting in std::iter::once(first).chain(others) {
        assert!(matches!(waiting.join().expect("no panic"), Err(CallError::Halted(_))));
    }
    assert_eq!(host.halts().len(), 1);
}
