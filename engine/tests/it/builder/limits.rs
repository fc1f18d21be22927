//! Limits are kept to the last unit, and transactions without room take no other's place.

use super::{Long, NEVER, candidates, check, engine, envs, open, pay, ranks};
use crate::kit::{Case, call, eoa};
use phalanx::{
    Budget, Builder, CandidateTx, Reason,
    revm::{
        context::TxEnv,
        primitives::{Address, B256},
    },
};

fn case() -> Case {
    Case::new("Osaka").with((1..=60).map(eoa))
}

/// Builds once. Returns the ranks in the block and the reasons for all others.
fn build(case: &Case, budget: Budget, offered: Vec<CandidateTx>) -> (Vec<u64>, Vec<(u64, Reason)>, Budget) {
    let mut engine = engine(case, 2);
    let mut builder = Builder::new(&engine);
    let mut job = open(&mut builder, &mut engine, case, budget).expect("a block");
    let count = offered.len();
    job.extend(offered, NEVER).expect("execution");
    let progress = job.progress();
    let built = job.finish();
    check::complete(&built, count);
    check::within(&built, budget);
    let held = check::held(&built);
    assert_eq!(progress.used, held);
    let dropped = built.dropped.iter().map(|dropped| (dropped.candidate.rank, dropped.reason.clone())).collect();
    (ranks(&built.txs), dropped, held)
}

#[test]
fn gas_is_admitted_by_limit_and_counted_by_usage() {
    // Each uses 21 000 of a limit of 100 000: the seventh finds 84 000 left, and has no room; two small ones have.
    let to = Address::repeat_byte(0x99);
    let large = (1..=10).map(|from| TxEnv { gas_limit: 100_000, ..call(from, 0, to, 1) });
    let small = (11..=20).map(|from| pay(from, 0, 0x99));
    let budget = Budget { gas: 210_000, ..Budget::default() };
    let (mut placed, dropped, held) = build(&case(), budget, candidates(large.chain(small)));
    placed.sort_unstable();
    assert_eq!(placed.len(), 10);
    assert_eq!(placed[..6], [0, 1, 2, 3, 4, 5]);
    assert!(placed[6..].iter().all(|rank| *rank >= 10));
    assert_eq!(held.gas, 210_000, "no unit is wasted");
    assert!(dropped.contains(&(6, Reason::Gas { needs: 100_000, left: 84_000 })));
    assert!(dropped.iter().all(|(_, reason)| matches!(reason, Reason::Gas { .. })));
}

#[test]
fn the_gas_limit_of_the_header_binds_under_any_budget() {
    let (placed, dropped, held) =
        build(&case(), Budget::default(), candidates([TxEnv { gas_limit: 30_000_001, ..pay(1, 0, 2) }, pay(2, 0, 3)]));
    assert_eq!((placed, held.gas), (vec![1], 21_000));
    assert_eq!(dropped, [(0, Reason::Gas { needs: 30_000_001, left: 30_000_000 })]);
}

#[test]
fn transactions_and_bytes_are_counted() {
    let (placed, dropped, _) =
        build(&case(), Budget { txs: 7, ..Budget::default() }, candidates((1..=20).map(|from| pay(from, 0, 0x99))));
    assert_eq!((placed.len(), dropped.len()), (7, 13));
    assert!(dropped.iter().all(|(_, reason)| *reason == Reason::Count));

    let long = |from: u8, size| CandidateTx::new(Long(pay(from, 0, 0x99), size), u64::from(from) - 1);
    let (placed, dropped, held) =
        build(&case(), Budget { bytes: 100, ..Budget::default() }, vec![long(1, 60), long(2, 41), long(3, 40)]);
    assert_eq!((placed, held.bytes), (vec![0, 2], 100));
    assert_eq!(dropped, [(1, Reason::Bytes { needs: 41, left: 40 })]);
}

#[test]
fn blobs_are_counted_by_included_transactions() {
    let blob = |from: u8, nonce, blobs: u8| TxEnv {
        tx_type: 3,
        blob_hashes: (0..blobs).map(|index| B256::new([1, index].repeat(16).try_into().expect("32 bytes"))).collect(),
        max_fee_per_blob_gas: 1,
        ..pay(from, nonce, 0x99)
    };
    // The second is invalid, and returns its blobs.
    let txs = [blob(1, 0, 2), blob(2, 9, 2), blob(3, 0, 1), blob(4, 0, 1), blob(5, 0, 6)];
    let budget = Budget { blob_gas: 4 * 131_072, ..Budget::default() };
    let (placed, dropped, held) = build(&case(), budget, candidates(txs));
    assert_eq!((placed, held.blob_gas), (vec![0, 2, 3], 4 * 131_072));
    let [(1, Reason::Invalid(_)), (4, no_room)] = &dropped[..] else { panic!("{dropped:?}") };
    assert_eq!(*no_room, Reason::BlobGas { needs: 6 * 131_072, left: 2 * 131_072 });
    // Without a budget the hard fork's own limit binds.
    let many = (1..=12).map(|from| blob(from, 0, 2));
    let (placed, dropped, held) = build(&case(), Budget::default(), candidates(many));
    let most = case().rules.blob_params(120).expect("Osaka has blobs").max_blob_count;
    assert_eq!(held.blob_gas, most / 2 * 2 * 131_072);
    assert_eq!((placed.len() as u64, dropped.len() as u64), (most / 2, 12 - most / 2));
}

#[test]
fn successors_of_a_transaction_without_room_are_not_tried() {
    let large = TxEnv { gas_limit: 100_000, ..pay(1, 0, 0x99) };
    let txs = [large.clone(), pay(1, 1, 0x99), pay(1, 2, 0x99), pay(2, 0, 0x99)];
    let budget = Budget { gas: 90_000, ..Budget::default() };
    let (placed, dropped, _) = build(&case(), budget, candidates(txs));
    assert_eq!(placed, [3]);
    let behind = Reason::Behind { nonce: 0 };
    assert_eq!(dropped, [(0, Reason::Gas { needs: 100_000, left: 90_000 }), (1, behind.clone()), (2, behind)]);

    // A smaller transaction with its nonce brings them back.
    let case = case();
    let mut engine = engine(&case, 1);
    let mut builder = Builder::new(&engine);
    let mut job = open(&mut builder, &mut engine, &case, budget).expect("a block");
    job.extend(candidates([large, pay(1, 1, 0x99)]), NEVER).expect("execution");
    assert_eq!(job.progress().dropped, 2);
    job.extend(candidates([pay(1, 0, 0x99), pay(1, 1, 0x99)]), NEVER).expect("execution");
    let built = job.finish();
    assert_eq!(envs(&built), [pay(1, 0, 0x99), pay(1, 1, 0x99)]);
}

#[test]
fn forced_transactions_come_first_in_order_above_the_budget_but_within_the_rules() {
    let case = case();
    let mut engine = engine(&case, 2);
    let mut builder = Builder::new(&engine);
    let forced = [
        pay(3, 0, 1),
        TxEnv { gas_limit: 40_000_000, ..pay(4, 0, 1) },
        pay(2, 0, 1),
        pay(2, 5, 1),
        pay(1, 0, 2),
        pay(3, 1, 2),
    ];
    let budget = Budget { txs: 3, ..Budget::default() };
    let target = super::whole(&case, 10);
    let mut job = builder.open(&mut engine, target.clone(), budget, candidates(forced)).expect("a block");
    job.extend([CandidateTx::new(pay(9, 0, 1), 6)], NEVER).expect("execution");
    let built = job.finish();
    check::complete(&built, 7);
    assert_eq!(ranks(&built.txs), [0, 2, 4, 5]);
    assert!(built.dropped.iter().any(|d| d.candidate.rank == 6 && d.reason == Reason::Count));
    let phalanx::Target::Whole(template) = target else { unreachable!("a whole block") };
    let made = check::commit(&mut engine, &template, built);
    check::replays(&case, &[made]);
}

#[test]
fn forced_transactions_without_room_delay_no_other() {
    let case = case();
    let mut engine = engine(&case, 1);
    let mut builder = Builder::new(&engine);
    let large = |from| TxEnv { gas_limit: 40_000_000, ..pay(from, 0, 1) };
    let forced = candidates([large(1), large(2)]);
    let mut job = builder.open(&mut engine, super::whole(&case, 10), Budget::default(), forced).expect("a block");
    let progress = job.extend([CandidateTx::new(pay(3, 0, 1), 2)], NEVER).expect("execution");
    assert_eq!((progress.used.txs, progress.waiting, progress.dropped), (1, 0, 2));
}
