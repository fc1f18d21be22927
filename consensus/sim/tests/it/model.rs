//! The model engine keeps the contract of [`ExecutionEngine`], at every point where its power can be cut.

use alloy_primitives::Bytes;
use phalanx_engine_api::{
    BlockEnv, BlockId, Candidate, CommitMeta, EngineEvent, ExecId, ExecutionEngine, Failure, FatalCause, InvalidCause,
    Limits, Operation, Payload, Priority, ReadState as _, RetryCause, Ticket, TxPolicy, ViewAt,
};
use phalanx_sim::model::{Costs, Disk, ModelEngine, invalid_tx, model_tx};

fn engine(disk: Disk) -> ModelEngine {
    ModelEngine::open(7, Limits { depth: 4, siblings: 2, bytes: 1 << 20 }, Costs::default(), disk)
}

fn block(parent: ExecId, height: u64, name: &str) -> Candidate {
    let env = BlockEnv { height, ..BlockEnv::default() };
    let txs = if name.is_empty() { vec![] } else { vec![model_tx(1, name.as_bytes())] };
    Candidate::new(7, parent, env, TxPolicy::SkipInvalid, Payload::new(txs).into())
}

fn events(engine: &ModelEngine) -> Vec<EngineEvent> {
    engine.run();
    let mut events = Vec::new();
    while engine.poll(3, &mut events) > 0 {}
    events
}

fn meta(number: u8) -> CommitMeta {
    CommitMeta {
        block: BlockId(alloy_primitives::B256::with_last_byte(number)),
        cursor: number.into(),
        ..CommitMeta::default()
    }
}

#[test]
fn siblings_live_beside_each_other_until_one_commits() {
    let engine = engine(Disk::default());
    let (a, b) = (block(ExecId::GENESIS, 1, "a"), block(ExecId::GENESIS, 1, "b"));
    let child = block(b.id(), 2, "child");
    for candidate in [&a, &b, &child] {
        engine.submit(Ticket(1), candidate.clone(), Priority::Speculative).expect("room");
    }
    engine.run();
    for candidate in [&a, &b, &child] {
        engine.stage(Ticket(2), candidate.id()).expect("rooted");
    }
    engine.run();
    // Staged and invisible.
    let status = engine.status();
    assert_eq!((status.committed.height, status.staged.len()), (0, 3));
    assert_eq!(engine.view(ViewAt::Committed).expect("a view").height(), 0);
    assert_eq!(engine.view(ViewAt::Exec(child.id())).expect("a view").height(), 2);

    events(&engine);
    engine.commit(Ticket(3), b.id(), meta(1)).expect("in flight");
    let after = events(&engine);
    assert!(after.contains(&EngineEvent::Committed { ticket: Ticket(3), tip: b.id(), height: 1 }));
    assert!(after.contains(&EngineEvent::Dropped { ids: vec![a.id()], txs: a.payload().txs().to_vec() }));
    assert_eq!(engine.status().committed.meta, meta(1));
    assert_eq!(engine.submit(Ticket(4), a, Priority::Decided), Err(Failure::Superseded));
    assert_eq!(engine.commit(Ticket(5), child.id(), meta(2)), Ok(()));
}

#[test]
fn requests_are_idempotent() {
    let engine = engine(Disk::default());
    let a = block(ExecId::GENESIS, 1, "a");
    let mut outcomes = Vec::new();
    for ticket in 1..4 {
        engine.submit(Ticket(ticket), a.clone(), Priority::Speculative).expect("room");
        outcomes.extend(events(&engine).into_iter().filter_map(|event| match event {
            EngineEvent::Rooted { ticket, outcome } => Some((ticket, outcome)),
            _ => None,
        }));
    }
    assert_eq!(outcomes.iter().map(|(ticket, _)| ticket.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(outcomes.windows(2).all(|pair| pair[0].1 == pair[1].1));
    for ticket in 4..6 {
        engine.stage(Ticket(ticket), a.id()).expect("rooted");
        assert_eq!(events(&engine), [EngineEvent::Staged { ticket: Ticket(ticket), id: a.id() }]);
    }
    for ticket in 6..8 {
        engine.commit(Ticket(ticket), a.id(), meta(1)).expect("rooted");
        let tip = a.id();
        assert_eq!(events(&engine), [EngineEvent::Committed { ticket: Ticket(ticket), tip, height: 1 }]);
    }
}

#[test]
fn impossible_requests_are_refused_and_change_nothing() {
    let engine = engine(Disk::default());
    let a = block(ExecId::GENESIS, 1, "a");
    let orphan = block(a.id(), 2, "orphan");
    let submit = |candidate: &Candidate, priority| engine.submit(Ticket(1), candidate.clone(), priority);
    assert_eq!(submit(&orphan, Priority::Decided), Err(Failure::Retry(RetryCause::MissingParent(a.id()))));
    let high = block(ExecId::GENESIS, 2, "high");
    assert_eq!(submit(&high, Priority::Decided), Err(Failure::Invalid(InvalidCause::Height { says: 2, expected: 1 })));
    assert_eq!(engine.stage(Ticket(1), a.id()), Err(Failure::Retry(RetryCause::NotReady(a.id()))));
    submit(&a, Priority::Speculative).expect("room");
    submit(&block(ExecId::GENESIS, 1, "b"), Priority::Speculative).expect("room");
    // No third sibling, unless it is decided.
    let third = block(ExecId::GENESIS, 1, "c");
    assert_eq!(submit(&third, Priority::Speculative), Err(Failure::Retry(RetryCause::Busy)));
    submit(&third, Priority::Decided).expect("decided blocks have room");
    submit(&orphan, Priority::Speculative).expect("its parent is there now");
    events(&engine);
    assert_eq!(engine.stage(Ticket(1), orphan.id()), Err(Failure::Retry(RetryCause::NotReady(a.id()))));
    engine.commit(Ticket(2), a.id(), meta(1)).expect("rooted");
    events(&engine);
    let stray = engine.keep_only(Ticket(3), &[third.id()]);
    assert_eq!(stray, Ok(()), "what is not there is ignored");
    assert_eq!(engine.rewind(Ticket(4), third.id()), Err(Failure::Fatal(FatalCause::Fork { height: 1 })));
}

#[test]
fn an_invalid_transaction_is_skipped_or_condemns_its_block() {
    let engine = engine(Disk::default());
    let env = BlockEnv { height: 1, ..BlockEnv::default() };
    let txs: Vec<Bytes> = vec![model_tx(1, b"good"), invalid_tx(b"bad")];
    let with = |policy| Candidate::new(7, ExecId::GENESIS, env, policy, Payload::new(txs.clone()).into());
    let strict = with(TxPolicy::Strict);
    engine.submit(Ticket(1), strict.clone(), Priority::Speculative).expect("room");
    let why = Failure::Invalid(InvalidCause::Transaction { index: 1 });
    let failed = EngineEvent::Failed { ticket: Ticket(1), id: strict.id(), operation: Operation::Submit, why };
    assert!(events(&engine).contains(&failed));
    engine.submit(Ticket(2), with(TxPolicy::SkipInvalid), Priority::Speculative).expect("room");
    assert!(events(&engine).iter().any(|event| matches!(event, EngineEvent::Rooted { .. })));
}

#[test]
fn a_full_disk_delays_and_loses_nothing() {
    let engine = engine(Disk::default());
    let a = block(ExecId::GENESIS, 1, "a");
    engine.submit(Ticket(1), a.clone(), Priority::Decided).expect("room");
    events(&engine);
    for (room, operations) in [(0, vec![Operation::Stage, Operation::Commit]), (1, vec![Operation::Commit])] {
        engine.set_disk_room(Some(room));
        engine.commit(Ticket(2), a.id(), meta(1)).expect("rooted");
        let failed: Vec<_> = events(&engine)
            .into_iter()
            .filter_map(|event| match event {
                EngineEvent::Failed { operation, why: Failure::Retry(RetryCause::DiskFull), .. } => Some(operation),
                _ => None,
            })
            .collect();
        assert_eq!((failed, engine.status().committed.height), (operations, 0));
    }
    engine.set_disk_room(None);
    engine.commit(Ticket(3), a.id(), meta(1)).expect("rooted");
    events(&engine);
    assert_eq!(engine.status().committed.height, 1);
}

#[test]
fn rest_begins_when_all_work_has_ended() {
    let engine = engine(Disk::default());
    let a = block(ExecId::GENESIS, 1, "a");
    engine.submit(Ticket(1), a.clone(), Priority::Speculative).expect("room");
    let running = engine.start();
    engine.quiesce(Ticket(2));
    let mut before = Vec::new();
    engine.poll(9, &mut before);
    assert!(!before.contains(&EngineEvent::Quiesced { ticket: Ticket(2) }), "a worker is at it still");
    assert_eq!(engine.submit(Ticket(3), a.clone(), Priority::Decided), Err(Failure::Retry(RetryCause::Quiesced)));
    running.iter().for_each(|work| engine.finish(work));
    assert!(events(&engine).contains(&EngineEvent::Quiesced { ticket: Ticket(2) }));
    engine.resume();
    engine.submit(Ticket(4), a, Priority::Decided).expect("awake again");
}

/// A chain of three with a losing sibling at each height. After every piece of work the power is cut; every number of
/// unsynced records is lost, torn and not. The engine reopens at a committed height, never below the last that was
/// reported.
#[test]
fn after_a_power_cut_the_last_reported_height_is_there() {
    let mut cuts = 0;
    for stop in 0.. {
        let engine = engine(Disk::default());
        let mut parent = ExecId::GENESIS;
        let (mut work_done, mut reported, mut finished) = (0, 0, true);
        'chain: for height in 1..=3u64 {
            let (winner, loser) = (block(parent, height, "win"), block(parent, height, "lose"));
            for candidate in [&winner, &loser] {
                engine.submit(Ticket(height), candidate.clone(), Priority::Speculative).expect("room");
            }
            for step in 0..3 {
                match step {
                    1 => [&loser, &winner]
                        .into_iter()
                        .for_each(|c| engine.stage(Ticket(height), c.id()).expect("rooted")),
                    2 => engine.commit(Ticket(height), winner.id(), meta(height as u8)).expect("rooted"),
                    _ => {}
                }
                loop {
                    let started = engine.start();
                    if started.is_empty() {
                        break;
                    }
                    for work in &started {
                        if work_done == stop {
                            finished = false;
                            break 'chain;
                        }
                        work_done += 1;
                        engine.finish(work);
                    }
                    let mut told = Vec::new();
                    engine.poll(99, &mut told);
                    for event in told {
                        if let EngineEvent::Committed { height, .. } = event {
                            reported = height;
                        }
                    }
                }
            }
            parent = winner.id();
        }
        let disk = engine.unplug();
        for lost in 0..=disk.unsynced() {
            for torn in [false, true] {
                let mut disk = disk.clone();
                disk.power_cut(lost, torn);
                let again = self::engine(disk);
                let status = again.status();
                let height = status.committed.height;
                assert!(height >= reported && height <= 3, "{height} after {reported}, cut {stop}, {lost} lost");
                assert_eq!(status.committed.meta.cursor, height, "state and cursor move together");
                assert_eq!(again.view(ViewAt::Committed).expect("a view").height(), height);
                assert_eq!(again.committed_at(height), engine.committed_at(height), "the same block as before");
                assert!(status.staged.iter().all(|(staged, _)| *staged > height), "no garbage");
                cuts += 1;
            }
        }
        if finished {
            break;
        }
    }
    assert!(cuts > 60, "{cuts}");
}

#[test]
fn a_rewind_survives_and_stops_at_the_finalised_height() {
    let engine = engine(Disk::default());
    let mut ids = vec![ExecId::GENESIS];
    for height in 1..=3u64 {
        let next = block(ids[height as usize - 1], height, "x");
        engine.submit(Ticket(height), next.clone(), Priority::Decided).expect("room");
        events(&engine);
        engine.commit(Ticket(height), next.id(), meta(height as u8)).expect("rooted");
        events(&engine);
        ids.push(next.id());
    }
    engine.finalise(Ticket(8), 1).expect("committed");
    assert_eq!(engine.rewind(Ticket(9), ids[0]), Err(Failure::Fatal(FatalCause::Fork { height: 0 })));
    engine.rewind(Ticket(9), ids[1]).expect("not final");
    assert!(events(&engine).contains(&EngineEvent::Rewound { ticket: Ticket(9), to: ids[1] }));
    let status = self::engine(engine.unplug()).status();
    assert_eq!((status.committed.exec, status.finalised), (ids[1], 1));
}
