//! Transactions that reach where nobody expected them to.

use super::{NEVER, ask, candidates, check, engine, open, pay, ranks, whole};
use crate::{
    common::{contract, eoa},
    kit::{Asm, Case},
};
use phalanx::{Budget, Builder, Candidate, Target, revm::bytecode::opcode::*, revm::primitives::Address};

/// `sstore(sload(0) + 1, 1); sstore(0, sload(0) + 1)`: which slot is written depends on how often it was called.
fn counter() -> Vec<u8> {
    Asm::new().load(0).push(1u64).op(ADD).push(1u64).op(DUP2).op(SSTORE).store(0).op(STOP).build()
}

fn case() -> Case {
    Case::new("Osaka").with((1..=90).map(eoa)).with([contract(0xee, &counter()), contract(0xef, &counter())])
}

fn template(case: &Case) -> Box<phalanx::Template> {
    let Target::Whole(template) = whole(case, 10) else { unreachable!("a whole block") };
    template
}

/// Builds out of groups; gives the order, and how many escapes and executions beyond the first there were.
fn build(case: &Case, threads: usize, groups: &[Vec<Candidate>]) -> (Vec<u64>, usize) {
    let count = groups.iter().map(Vec::len).sum();
    let mut engine = engine(case, threads);
    let mut builder = Builder::new(&engine);
    let mut job = open(&mut builder, &mut engine, case, Budget::default()).expect("a block");
    for group in groups {
        let progress = job.extend(group.iter().cloned(), NEVER).expect("execution");
        assert_eq!((progress.waiting, progress.dropped), (0, 0));
    }
    let built = job.seal();
    check::complete(&built, count);
    let (order, escapes) = (ranks(&built.txs), built.executed.block().stats().run.escapes);
    let made = check::commit(&mut engine, &template(case), built);
    let slot = engine.state().storage(&Address::repeat_byte(0xee), &phalanx::revm::primitives::U256::ZERO);
    let calls = made.body.txs.iter().filter(|tx| tx.kind == Address::repeat_byte(0xee).into()).count();
    assert_eq!(slot.expect("a word"), phalanx::revm::primitives::U256::from(calls));
    check::replays(case, &[made]);
    (order, escapes)
}

#[test]
fn escaped_transactions_are_seen_again_on_the_newer_state_and_come_in_all_the_same() {
    let case = case();
    let txs = (0..3u64).flat_map(|nonce| (1..=30u8).map(move |from| ask(from, nonce, 0xee, 0)));
    let all = candidates(txs);
    let groups: Vec<Vec<Candidate>> = all.chunks(40).map(<[Candidate]>::to_vec).collect();
    let first = build(&case, 1, &groups);
    assert!(first.1 > 0, "no state before can know the count");
    assert!(first.1 <= 2 * 90, "nobody escapes more than twice");
    for threads in [2, 4, 8] {
        assert_eq!(build(&case, threads, &groups), first, "{threads} threads");
    }
}

#[test]
fn others_do_not_wait_for_those_that_escape() {
    let case = case();
    let mut txs = Vec::new();
    for from in 1..=90u8 {
        txs.push(if from % 9 == 0 { ask(from, 0, 0xee, 0) } else { pay(from, 0, 0x99) });
        txs.push(pay(from, 1, 0x98));
    }
    let (order, escapes) = build(&case, 4, &[candidates(txs)]);
    assert!(escapes > 0);
    // Whoever escaped, and the next one of its sender, come after the others; nobody else does.
    let late: std::collections::BTreeSet<u64> = order[162..].iter().map(|rank| rank / 2 % 9).collect();
    assert_eq!(late.into_iter().collect::<Vec<_>>(), [8]);
}

#[test]
fn batches_go_on_after_transactions_that_ran_alone() {
    let case = case();
    // Four counters at a time escape until the last of them run alone; plain transfers before, between and behind.
    let mut groups = Vec::new();
    let mut rank = 0;
    for nonce in 0..6u64 {
        let txs = (1..=20u8).map(|from| match (from % 5, nonce % 2) {
            (0, _) => ask(from, nonce, 0xee, 0),
            (1, 1) => ask(from, nonce, 0xef, 0),
            _ => pay(from, nonce, from + 1),
        });
        groups.push(txs.map(|tx| (Candidate::new(tx, rank), rank += 1).0).collect::<Vec<_>>());
    }
    let first = build(&case, 1, &groups);
    for threads in [2, 4, 8] {
        assert_eq!(build(&case, threads, &groups), first, "{threads} threads");
    }
}
