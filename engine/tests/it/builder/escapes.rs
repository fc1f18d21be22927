//! Transactions that reach outside of their predictions.

use super::{NEVER, ask, candidates, check, engine, open, pay, ranks, whole};
use crate::kit::{Asm, Case, contract, eoa};
use phalanx::{Budget, Builder, CandidateTx, Target, revm::bytecode::opcode::*, revm::primitives::Address};

/// `sstore(sload(0) + 1, 1); sstore(0, sload(0) + 1)`: the written slot depends on the number of earlier calls.
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

/// Builds from groups. Returns the order, and the number of escapes and re-executions.
fn build(case: &Case, threads: usize, groups: &[Vec<CandidateTx>]) -> (Vec<u64>, usize) {
    let count = groups.iter().map(Vec::len).sum();
    let mut engine = engine(case, threads);
    let mut builder = Builder::new(&engine);
    let mut job = open(&mut builder, &mut engine, case, Budget::default()).expect("a block");
    for group in groups {
        let progress = job.extend(group.iter().cloned(), NEVER).expect("execution");
        assert_eq!((progress.waiting, progress.dropped), (0, 0));
    }
    let built = job.finish();
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
fn escaped_transactions_are_predicted_again_on_the_newer_state_and_included() {
    let case = case();
    let txs = (0..3u64).flat_map(|nonce| (1..=30u8).map(move |from| ask(from, nonce, 0xee, 0)));
    let all = candidates(txs);
    let groups: Vec<Vec<CandidateTx>> = all.chunks(40).map(<[CandidateTx]>::to_vec).collect();
    let first = build(&case, 1, &groups);
    assert!(first.1 > 0, "no earlier state knows the count");
    assert!(first.1 <= 2 * 90, "no transaction escapes more than twice");
    for threads in [2, 4, 8] {
        assert_eq!(build(&case, threads, &groups), first, "{threads} threads");
    }
}

#[test]
fn other_transactions_do_not_wait_for_escaped_ones() {
    let case = case();
    let mut txs = Vec::new();
    for from in 1..=90u8 {
        txs.push(if from % 9 == 0 { ask(from, 0, 0xee, 0) } else { pay(from, 0, 0x99) });
        txs.push(pay(from, 1, 0x98));
    }
    let (order, escapes) = build(&case, 4, &[candidates(txs)]);
    assert!(escapes > 0);
    // Escaped transactions, and their senders' next ones, come after all others.
    let late: std::collections::BTreeSet<u64> = order[162..].iter().map(|rank| rank / 2 % 9).collect();
    assert_eq!(late.into_iter().collect::<Vec<_>>(), [8]);
}

#[test]
fn batches_continue_after_the_serial_tail() {
    let case = case();
    // Four counters at a time escape until the last are deferred to serial; plain transfers before, between and behind.
    let mut groups = Vec::new();
    let mut rank = 0;
    for nonce in 0..6u64 {
        let txs = (1..=20u8).map(|from| match (from % 5, nonce % 2) {
            (0, _) => ask(from, nonce, 0xee, 0),
            (1, 1) => ask(from, nonce, 0xef, 0),
            _ => pay(from, nonce, from + 1),
        });
        groups.push(txs.map(|tx| (CandidateTx::new(tx, rank), rank += 1).0).collect::<Vec<_>>());
    }
    let first = build(&case, 1, &groups);
    for threads in [2, 4, 8] {
        assert_eq!(build(&case, threads, &groups), first, "{threads} threads");
    }
}
