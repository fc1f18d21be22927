//! A job can be inspected and stopped at any moment.

use super::{NEVER, candidates, check, engine, open, pay, ranks, whole};
use crate::kit::{Case, Oracle, eoa};
use phalanx::{
    Budget, Builder, Built, CandidateTx, Executor, Reason, Target, revm::context_interface::result::InvalidTransaction,
};
use std::sync::atomic::{AtomicUsize, Ordering};

fn case() -> Case {
    Case::new("Prague").with((1..=200).map(eoa))
}

/// Transfers of many senders, some of them chained.
fn offered() -> Vec<CandidateTx> {
    let txs = (0..4u64).flat_map(|nonce| (1..=200u8).map(move |from| pay(from, nonce, from % 7 + 1)));
    candidates(txs.chain([pay(1, 9, 2)]))
}

fn template(case: &Case) -> Box<phalanx::Template> {
    let Target::Whole(template) = whole(case, 10) else { unreachable!("a whole block") };
    template
}

/// Identity of a block: order, gas and root.
fn print(built: &Built) -> (Vec<u64>, u64, Option<phalanx::revm::primitives::B256>) {
    (ranks(&built.txs), built.executed.block().gas_used(), built.executed.block().receipts_root())
}

#[test]
fn an_empty_block_exists_from_the_beginning() {
    let case = case();
    let mut engine = engine(&case, 2);
    let mut builder = Builder::new(&engine);
    let mut job = open(&mut builder, &mut engine, &case, Budget::default()).expect("a block");
    let best = job.best();
    assert_eq!((best.txs.len(), best.executed.block().outcomes().len()), (0, 0));
    let built = job.finish();
    let made = check::commit(&mut engine, &template(&case), built);
    check::replays(&case, &[made]);
}

#[test]
fn after_every_batch_the_best_block_holds_the_executed_transactions() {
    let case = case();
    let oracle = Oracle::new(&case);
    let mut engine = engine(&case, 4);
    let mut builder = Builder::new(&engine);
    let mut job = open(&mut builder, &mut engine, &case, Budget::default()).expect("a block");
    job.offer(offered());
    let mut bests = Vec::new();
    while job.step(NEVER).expect("execution") {
        let best = job.best();
        check::complete(&best, 801);
        check::causes(&case, &oracle, &template(&case), &best, Some(Budget::default()));
        bests.push(best);
    }
    assert_eq!(bests.iter().map(|best| best.txs.len()).collect::<Vec<_>>(), [256, 512, 800]);
    let last = job.finish();
    assert_eq!(print(&last), print(&bests[2]));
    drop(last);
    for best in bests {
        // On its own: a job without further offers builds the same block.
        let mut engine = super::engine(&case, 2);
        let mut builder = Builder::new(&engine);
        let mut job = open(&mut builder, &mut engine, &case, Budget::default()).expect("a block");
        job.extend(best.txs.iter().cloned(), NEVER).expect("execution");
        let again = job.finish();
        assert_eq!(again.txs.len(), best.txs.len());
        assert_eq!(again.executed.block().gas_used(), best.executed.block().gas_used());
        let roots = [again, best].map(|built| {
            let mut engine = super::engine(&case, 1);
            let mut builder = Builder::new(&engine);
            // In its own order.
            let forced: Vec<CandidateTx> = built.txs;
            let mut job = builder.open(&mut engine, whole(&case, 10), Budget::default(), forced).expect("a block");
            job.extend([], NEVER).expect("execution");
            let built = job.finish();
            let made = check::commit(&mut engine, &template(&case), built);
            let root = made.root;
            check::replays(&case, &[made]);
            root
        });
        assert_eq!(roots[0], roots[1], "the same transactions: the order between senders does not matter");
    }
}

#[test]
fn sealing_after_some_batches_equals_building_with_those_only() {
    let case = case();
    let groups: Vec<Vec<CandidateTx>> = offered().chunks(190).map(<[CandidateTx]>::to_vec).collect();
    let build = |groups: &[Vec<CandidateTx>], threads| {
        let mut engine = engine(&case, threads);
        let mut builder = Builder::new(&engine);
        let mut job = open(&mut builder, &mut engine, &case, Budget::default()).expect("a block");
        let mut bests = Vec::new();
        for group in groups {
            job.extend(group.iter().cloned(), NEVER).expect("execution");
            bests.push(print(&job.best()));
        }
        assert_eq!(bests.last(), Some(&print(&job.finish())));
        bests
    };
    let all = build(&groups, 1);
    for (count, threads) in [(1, 2), (2, 4), (3, 8), (4, 2), (5, 1)] {
        assert_eq!(build(&groups[..count], threads), all[..count], "{threads} threads");
    }
}

#[test]
fn a_job_stops_within_a_batch_and_continues() {
    let case = case();
    for (threads, asked) in [(1, 0), (1, 1), (1, 7), (2, 5), (4, 9), (8, 13)] {
        let mut engine = engine(&case, threads);
        let mut builder = Builder::new(&engine);
        let mut job = open(&mut builder, &mut engine, &case, Budget::default()).expect("a block");
        let calls = AtomicUsize::new(asked);
        let soon = || calls.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err();
        let progress = job.extend(offered(), &soon).expect("execution");
        let best = job.best();
        check::complete(&best, 801);
        assert_eq!(best.txs.len() + progress.waiting + progress.dropped, 801);
        assert!(progress.waiting > 0, "{threads} threads, {asked}");
        let polled_within = threads == 1 && asked == 7;
        assert!(!polled_within || best.txs.len() == 16 * 6, "stopped within the first batch");
        let progress = job.extend([], NEVER).expect("execution");
        assert_eq!((progress.used.txs, progress.waiting), (800, 0));
        let built = job.finish();
        assert!(matches!(
            built.dropped[..],
            [phalanx::Dropped { reason: Reason::Invalid(InvalidTransaction::NonceTooHigh { .. }), .. }]
        ));
        let made = check::commit(&mut engine, &template(&case), built);
        check::replays(&case, &[made]);
    }
}

#[test]
fn prepared_transactions_come_first_and_survive_a_block() {
    let case = case();
    let mut engine = engine(&case, 2);
    let mut builder = Builder::new(&engine);
    let (ahead, rest) = (offered()[..400].to_vec(), offered()[400..].to_vec());
    // Framed on one state, built on the next: transactions of the block in between are invalid now.
    builder.prepare(&engine, &whole(&case, 10), ahead);
    let mut other = Builder::new(&engine);
    let mut job = open(&mut other, &mut engine, &case, Budget::default()).expect("a block");
    job.extend((1..=10).map(|from| CandidateTx::new(pay(from, 0, 99), 0)), NEVER).expect("execution");
    let built = job.finish();
    let first = check::commit(&mut engine, &template(&case), built);
    let Target::Whole(second) = whole(&case, 11) else { unreachable!("a whole block") };
    let mut job = builder.open(&mut engine, Target::Whole(second.clone()), Budget::default(), []).expect("a block");
    assert_eq!(job.progress().waiting, 400);
    job.extend(rest, NEVER).expect("execution");
    let built = job.finish();
    check::complete(&built, 801);
    let stale = built.dropped.iter().filter(|dropped| {
        matches!(dropped.reason, Reason::Invalid(InvalidTransaction::NonceTooLow { tx: 0, state: 1 }))
    });
    assert_eq!(stale.count(), 10);
    assert_eq!(built.txs.len(), 790);
    let second = check::commit(&mut engine, &second, built);
    check::replays(&case, &[first, second]);
}

#[test]
fn a_cancelled_job_returns_all_transactions_and_leaves_no_trace() {
    let case = case();
    let mut engine = engine(&case, 2);
    let root = engine.state().root();
    let mut builder = Builder::new(&engine);
    let mut job = builder
        .open(&mut engine, whole(&case, 10), Budget::default(), [CandidateTx::new(pay(1, 0, 2), 801)])
        .expect("a block");
    job.extend(offered(), NEVER).expect("execution");
    let mut given_back = ranks(&job.cancel());
    given_back.sort_unstable();
    assert!(given_back.into_iter().eq(0..802));
    assert_eq!(engine.state().root(), root);
}

#[test]
fn every_executor_builds_the_same_block() {
    let case = case();
    let print = [Executor::Dag, Executor::BlockStm, Executor::Sequential].map(|executor| {
        let way = crate::kit::Way { executor, threads: 2, ..crate::kit::Way::sequential() };
        let mut engine = case.engine(&way);
        let mut builder = Builder::new(&engine);
        let mut job = open(&mut builder, &mut engine, &case, Budget::default()).expect("a block");
        job.extend(offered(), NEVER).expect("execution");
        print(&job.finish())
    });
    assert_eq!(print[0], print[1]);
    assert_eq!(print[0], print[2]);
}
