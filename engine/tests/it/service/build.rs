//! Blocks that a service builds from its pool.

use super::{pool::send, *};

fn request(parent: ExecId, height: u64, forced: Vec<Bytes>) -> BuildRequest {
    let env = *candidate(parent, height, vec![], TxPolicy::Strict).env();
    BuildRequest { parent, env, budget: BlockBudget::UNLIMITED, forced, attributes: Bytes::new() }
}

#[test]
fn a_built_block_is_already_executed_and_equal_elsewhere() {
    let world = World::new();
    let service = world.open();
    let other = world.open_as(&world.folder.path().join("other"), 1, ServiceConfig::default()).expect("a service");
    let mut parent = ExecId::GENESIS;
    for height in 1..=3 {
        send(&service, &transfers(&world, height, 5));
        // Later nonces of the same senders, for the child that is built before this block is committed.
        let later: Vec<_> = (0..4).map(|from| world.tx(from, height, world.sender(12), 1)).collect();
        let forced = world.tx(9, height - 1, Address::repeat_byte(0xee), 0);
        let job = service.build(request(parent, height, vec![forced.clone()])).expect("a job");
        service.settle();
        let built = job.finish().expect("a block");
        let txs = built.candidate.payload().txs();
        assert_eq!((txs.len(), &txs[0]), (9, &forced));
        let outcome = built.outcome.expect("executed");
        assert_eq!(submit(&other, &built.candidate), outcome);
        assert_eq!(submit(&service, &built.candidate), outcome);
        if height == 3 {
            send(&service, &later);
            let child = service.build(request(built.candidate.id(), 4, vec![])).expect("a job");
            service.settle();
            let child = child.finish().expect("a block");
            assert_eq!(child.candidate.payload().txs().len(), 4, "transactions of the parent are left out");
            assert_eq!(submit(&other, &child.candidate), child.outcome.expect("executed"));
        }
        commit(&service, &built.candidate);
        commit(&other, &built.candidate);
        parent = built.candidate.id();
    }
    assert_eq!(service.waiting(), 4, "committed transactions have left the pool");
}

/// Gas limits decide elsewhere which transactions run where invalid ones are skipped, so a builder counts them as well.
#[test]
fn a_built_block_holds_nothing_that_others_skip() {
    let world = World::new();
    for (policy, held) in [(TxPolicy::Strict, 14), (TxPolicy::SkipInvalid, 10)] {
        let [service, other] = ["builds", "executes"].map(|name| {
            let path = world.folder.path().join(format!("{name}-{policy:?}"));
            world.open_as(&path, 1, ServiceConfig::default().with_policy(policy)).expect("a service")
        });
        // Limits of 1.4 million in a block of one million, of which they use a third.
        let txs: Vec<_> = (0..14).map(|from| world.tx(from, 0, world.sender(15), 5)).collect();
        send(&service, &txs);
        let job = service.build(request(ExecId::GENESIS, 1, vec![])).expect("a job");
        service.settle();
        let built = job.finish().expect("a block");
        assert_eq!(built.candidate.payload().txs().len(), held, "{policy:?}");
        assert_eq!(built.candidate.policy(), policy);
        let outcome = built.outcome.expect("executed");
        assert!(outcome.txs.iter().all(|status| *status == TxStatus::Succeeded), "{policy:?}");
        assert_eq!(submit(&other, &built.candidate), outcome, "{policy:?}");
    }
}

#[test]
fn a_job_has_a_block_at_any_moment_and_keeps_its_budget() {
    let world = World::new();
    let service = world.open();
    send(&service, &transfers(&world, 1, 5));
    let small = BlockBudget { txs: 3, ..BlockBudget::UNLIMITED };
    let job = service.build(BuildRequest { budget: small, ..request(ExecId::GENESIS, 1, vec![]) }).expect("a job");
    let early = job.best().expect("a block");
    assert_eq!(early.candidate.parent(), ExecId::GENESIS);
    service.settle();
    assert_eq!(job.best().expect("a block").candidate.payload().txs().len(), 3);
    job.cancel();
    let unused = service.build(request(ExecId::GENESIS, 1, vec![])).expect("a job");
    unused.cancel();
    let missing = ExecId(B256::repeat_byte(9));
    let refused = service.build(request(missing, 1, vec![])).err();
    assert_eq!(refused, Some(Failure::Retry(RetryCause::MissingParent(missing))));
    let refused = service.build(request(ExecId::GENESIS, 2, vec![])).err();
    assert_eq!(refused, Some(Failure::Invalid(InvalidCause::Height { says: 2, expected: 1 })));
    let none = vec![world.tx(9, 0, Address::repeat_byte(0xee), 0), Bytes::from_static(b"none")];
    let refused = service.build(request(ExecId::GENESIS, 1, none)).err();
    assert_eq!(refused, Some(Failure::Invalid(InvalidCause::Forced { index: 1 })));
    assert!(matches!(service.send(b"none"), Err(SendError::Recover(_))));
}
