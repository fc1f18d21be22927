//! Commits, rewinds and readmission.

use super::*;
use crate::BlockId;

fn commit(desk: &mut Desk<Kept>, candidate: &Candidate) {
    desk.commit(Ticket(2), candidate.id(), CommitMeta::default()).expect("rooted");
    let job = only(desk, JobKind::Stage);
    desk.staged(job, Ok(()));
    let job = only(desk, JobKind::Commit);
    desk.committed(job, Ok(()));
}

#[test]
fn a_commit_stages_its_path_from_the_bottom_and_names_every_block() {
    let mut desk = desk();
    let a = block(ExecId::GENESIS, 1, 1);
    let b = block(a.id(), 2, 2);
    let c = block(b.id(), 3, 3);
    let [name_a, name_b, name_c] = [1, 2, 3].map(|byte| BlockId(B256::with_last_byte(byte)));
    for (candidate, value) in [(&a, "a"), (&b, "b"), (&c, "c")] {
        root(&mut desk, candidate, value);
    }
    events(&mut desk);
    let meta = CommitMeta { block: name_c, ancestors: vec![name_a, name_b], cursor: 13, ..CommitMeta::default() };
    // The disk is full in the middle of the path: the commit fails with the block, and what is staged stays.
    desk.commit(Ticket(4), c.id(), meta.clone()).expect("rooted");
    let job = only(&mut desk, JobKind::Stage);
    assert_eq!(job.id, a.id());
    desk.staged(job, Ok(()));
    let job = only(&mut desk, JobKind::Stage);
    desk.failed(job, DISK_FULL);
    let told = events(&mut desk);
    assert_eq!(told[1], failed(4, b.id(), Operation::Stage, DISK_FULL));
    assert_eq!(told[2], failed(4, c.id(), Operation::Commit, DISK_FULL));
    assert!(desk.pending().is_none() && desk.start().is_empty(), "c waits for b");
    // Again, and the marker fails.
    desk.commit(Ticket(5), c.id(), meta.clone()).expect("rooted");
    for id in [b.id(), c.id()] {
        let job = only(&mut desk, JobKind::Stage);
        assert_eq!(job.id, id);
        desk.staged(job, Ok(()));
    }
    let job = only(&mut desk, JobKind::Commit);
    let pending = desk.pending().expect("a commit");
    assert_eq!((pending.path(), pending.meta()), (&[a.id(), b.id(), c.id()][..], &meta));
    assert_eq!(desk.check_rewind(ExecId::GENESIS), Err(Failure::Retry(RetryCause::Busy)));
    events(&mut desk);
    desk.committed(job, Err(DISK_FULL));
    assert_eq!(events(&mut desk), [failed(5, c.id(), Operation::Commit, DISK_FULL)]);
    assert_eq!((desk.height(), desk.status().staged.len()), (0, 3));
    desk.commit(Ticket(6), c.id(), meta).expect("rooted");
    let job = only(&mut desk, JobKind::Commit);
    desk.committed(job, Ok(()));
    assert_eq!(events(&mut desk), [EngineEvent::Committed { ticket: Ticket(6), tip: c.id(), height: 3 }]);
    for (height, name, candidate) in [(1, name_a, &a), (2, name_b, &b), (3, name_c, &c)] {
        let row = desk.committed_at(height).expect("a row");
        assert_eq!((row.meta.block, row.meta.cursor), (name, 10 + height));
        assert_eq!((row.exec, row.state_root), (candidate.id(), candidate.id().0));
    }
    assert_eq!(desk.take_dropped(), Vec::<Kept>::new(), "committed blocks are not dropped");
}

#[test]
fn rows_are_kept_for_a_window_of_heights() {
    let mut desk = desk().with_rows(2);
    let mut chain = vec![block(ExecId::GENESIS, 1, 1)];
    for height in 2..=4 {
        chain.push(block(chain[height as usize - 2].id(), height, height));
    }
    for candidate in &chain {
        root(&mut desk, candidate, "kept");
        commit(&mut desk, candidate);
    }
    events(&mut desk);
    let heights: Vec<_> = desk.rows().iter().map(|row| row.committed.height).collect();
    assert_eq!((heights, desk.take_dropped()), (vec![3, 4], vec![]));
    assert!(desk.committed_at(2).is_none() && desk.rows().find(chain[1].id()).is_none());
    assert_eq!(desk.check_rewind(chain[1].id()), Err(Failure::Fatal(FatalCause::Fork { height: 4 })));
    assert_eq!(desk.stage(Ticket(5), chain[2].id()), Ok(()), "staged and more");
    let unknown = Err(Failure::Retry(RetryCause::NotReady(chain[1].id())));
    assert_eq!(desk.stage(Ticket(5), chain[1].id()), unknown);
    // A window of none has the tip.
    let desk = desk.with_rows(0);
    assert_eq!((desk.rows().iter().count(), desk.height()), (1, 4));
}

#[test]
fn a_rewind_changes_nothing_before_the_disk_has_gone_back() {
    let mut desk = desk();
    let a = block(ExecId::GENESIS, 1, 1);
    let b = block(a.id(), 2, 2);
    let c = block(b.id(), 3, 3);
    for candidate in [&a, &b] {
        root(&mut desk, candidate, "committed");
        commit(&mut desk, candidate);
    }
    assert_eq!(desk.check_finalise(3), Err(Failure::Retry(RetryCause::NotReady(b.id()))));
    assert_eq!(desk.check_finalise(1), Ok(true));
    desk.finalised(1);
    assert_eq!((desk.check_finalise(1), desk.check_finalise(0)), (Ok(false), Ok(false)));
    assert_eq!(desk.check_rewind(ExecId::GENESIS), Err(Failure::Fatal(FatalCause::Fork { height: 0 })));
    root(&mut desk, &c, "c");
    desk.stage(Ticket(3), c.id()).expect("rooted");
    let job = only(&mut desk, JobKind::Stage);
    events(&mut desk);
    // A rewind to the tip loses nothing.
    assert_eq!(desk.check_rewind(b.id()), Ok(None));
    desk.rewound(Ticket(4), desk.height(), b.id());
    assert_eq!(events(&mut desk), [EngineEvent::Rewound { ticket: Ticket(4), to: b.id() }]);
    assert!(desk.candidate(c.id()).is_some());
    assert_eq!(desk.check_rewind(a.id()), Ok(Some(1)));
    assert_eq!((desk.height(), events(&mut desk)), (2, vec![]));
    desk.rewound(Ticket(5), 1, a.id());
    assert_eq!(events(&mut desk)[1], EngineEvent::Rewound { ticket: Ticket(5), to: a.id() });
    assert_eq!((desk.height(), desk.committed_at(2), desk.candidate(c.id())), (1, None, None));
    desk.staged(job, Ok(()));
    assert_eq!((events(&mut desk), desk.take_dropped()), (vec![], vec!["c"]));
}

#[test]
fn staged_blocks_come_back_if_they_build_on_what_is_there() {
    let mut desk = desk();
    let a = block(ExecId::GENESIS, 1, 1);
    let b = block(a.id(), 2, 2);
    let orphan = block(b.id(), 3, 3);
    for (candidate, value, fits) in
        [(&a, "a", true), (&orphan, "orphan", false), (&b, "b", true), (&b, "b again", false)]
    {
        assert_eq!(desk.readmit(candidate.clone(), value, outcome(candidate.id())), fits, "{value}");
    }
    assert_eq!(desk.take_dropped(), ["orphan", "b again"]);
    assert_eq!(desk.status().staged, [(1, a.id()), (2, b.id())]);
    // They need neither execution nor staging.
    desk.commit(Ticket(1), b.id(), CommitMeta::default()).expect("rooted");
    let job = only(&mut desk, JobKind::Commit);
    desk.committed(job, Ok(()));
    assert_eq!((desk.height(), desk.rows().tip().value), (2, "b"));
}
