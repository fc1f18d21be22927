//! Hostile senders: they harm no other sender without paying for it.

use super::kit::{RICH, World, add, order, small, tip, tx, who};
use phalanx::{
    pool::{Account, Batch, Cause, Load, Policy, Pool, PoolConfig, PooledTx, Refusal, Settled},
    revm::{
        context::TxEnv,
        primitives::{Address, U256},
    },
};
use std::sync::Arc;

/// A sender besides the first few.
fn other(number: u64) -> Address {
    Address::left_padding_from(&(1_000 + number).to_be_bytes())
}

fn from(sender: Address, nonce: u64, price: u128) -> TxEnv {
    TxEnv { caller: sender, ..tx(0, nonce, price) }
}

fn is_there(pool: &Pool, tx: &Arc<PooledTx>) -> bool {
    pool.get(tx.hash()).is_some()
}

#[test]
fn a_flood_from_one_sender_displaces_no_equal_payer() {
    let (mut pool, world) = (Pool::new(small(100, 10)), World::default());
    let honest: Vec<_> = (0..60).map(|n| add(&mut pool, &world, from(other(n), 0, 10)).expect("admitted").0).collect();
    let mut refused = 0;
    for nonce in 0..1_024 {
        match add(&mut pool, &world, tx(1, nonce, 10)) {
            Ok(_) => assert!(pool.len() <= 110),
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Full);
                refused += 1;
            }
        }
    }
    assert!(refused > 900 && honest.iter().all(|tx| is_there(&pool, tx)));
    assert_eq!(pool.ready_load().txs, 100);
    // A slightly higher price gets in, and the flood pays for it, from its end.
    for n in 60..90 {
        let (_, removed) = add(&mut pool, &world, from(other(n), 0, 11)).expect("admitted");
        assert!(removed.iter().all(|removed| removed.tx.tx().caller == who(1)));
        let left = pool.ready().filter(|tx| tx.tx().caller == who(1)).count();
        assert_eq!(left, 40 - (n as usize - 59));
    }
    assert!(honest.iter().all(|tx| is_there(&pool, tx)));
    assert!(matches!(add(&mut pool, &world, tx(1, 1_024, 10)), Err(Refusal::NonceTooFar { .. })));
    // A batch has room for all senders, however many transactions one has.
    let batch = pool.take(&Batch { max_txs: 100, max_of_sender: 4, ..Batch::default() });
    assert_eq!(batch.iter().filter(|tx| tx.tx().caller == who(1)).count(), 4);
    assert_eq!(batch.len(), 94);
}

#[test]
fn a_high_price_behind_a_low_one_is_no_protection() {
    let (mut pool, world) = (Pool::new(small(10, 10)), World::default());
    for nonce in 0..10 {
        let price = if nonce == 0 { 1 } else { 1_000 };
        add(&mut pool, &world, tx(1, nonce, price)).expect("admitted");
    }
    for n in 0..9 {
        let (_, removed) = add(&mut pool, &world, from(other(n), 0, 2)).expect("pays more than the first");
        assert_eq!((removed.len(), removed[0].tx.tx().nonce, &removed[0].cause), (1, 9 - n, &Cause::Evicted));
    }
    // By nonce from the end: never a transaction before its successors.
    let (_, removed) = add(&mut pool, &world, from(other(9), 0, 2)).expect("pays more");
    assert_eq!((removed.len(), removed[0].tx.tx().nonce), (1, 0));
}

#[test]
fn unfunded_and_gapped_transactions_compete_only_with_each_other() {
    let (mut pool, mut world) = (Pool::new(small(20, 5)), World::default());
    let ready: Vec<_> = (0..20).map(|n| add(&mut pool, &world, from(other(n), 0, 1)).expect("admitted").0).collect();
    // Nonce gaps at any price, and balances that are promised many times over.
    for n in 0..50 {
        let _ = add(&mut pool, &world, from(other(100 + n), 1, 1_000_000));
    }
    world.0.insert(who(1), Account { balance: U256::from(21_000_000u64 * 100), ..RICH });
    for nonce in 0..50 {
        let _ = add(&mut pool, &world, tx(1, nonce, 100_000));
    }
    assert!(ready[..19].iter().all(|tx| is_there(&pool, tx)), "only one made room for a funded transaction");
    assert_eq!((pool.ready_load().txs, pool.future_load().txs), (20, 5));
    // A transaction that fills its gap competes with the ready ones from then on.
    let waiting = pool.iter().find(|tx| tx.tx().nonce == 1 && tx.tx().caller != who(1)).map(|tx| tx.tx().caller);
    let (_, removed) = add(&mut pool, &world, from(waiting.expect("one waits"), 0, 50)).expect("admitted");
    assert!(removed.len() == 2 && removed.iter().all(|removed| removed.tx.tx().gas_price == 1));
}

#[test]
fn repeated_replacements_pay_a_tenth_more_every_time() {
    let (mut pool, world) = (Pool::new(PoolConfig::default()), World::default());
    for nonce in 0..5 {
        add(&mut pool, &world, tx(1, nonce, 100)).expect("admitted");
    }
    let mut replaced = 0;
    for price in 100..10_000 {
        replaced += usize::from(add(&mut pool, &world, tx(1, 2, price)).is_ok());
        assert_eq!((pool.len(), order(&pool).len()), (5, 5));
    }
    // log 100 / log 1.1, rounded up at each step.
    assert!((40..=48).contains(&replaced), "{replaced}");
    assert_eq!(pool.iter().count(), 5);
}

/// A refused transaction leaves a full pool unchanged, even where several would have had to go for it.
#[test]
fn a_refused_transaction_evicts_no_other() {
    let world = World::default();
    let mut pool = Pool::new(small(1_000, 1_000));
    let each = add(&mut pool, &world, tx(9, 0, 1)).map(|_| pool.ready_load().bytes).expect("admitted");
    let mut config = PoolConfig { window: 5_000, ..PoolConfig::default() };
    config.max_ready = Load { txs: 1_000, bytes: each * 6 };
    let mut pool = Pool::new(config);
    for n in 0..6 {
        add(&mut pool, &world, from(other(n), 0, 10 + u128::from(n))).expect("admitted");
    }
    let before: Vec<u64> = pool.iter().map(|tx| tx.rank()).collect();
    // It pays more than two, and takes the room of ten.
    let large = TxEnv { data: vec![0; each * 10].into(), gas_limit: 1_000_000, ..tx(1, 0, 12) };
    assert_eq!(add(&mut pool, &world, large).expect_err("too large"), Refusal::Full);
    assert!(pool.iter().map(|tx| tx.rank()).eq(before.iter().copied()));
    assert_eq!(pool.ready_load(), Load { txs: 6, bytes: each * 6 });
    assert_eq!(order(&pool).len(), 6);
    let middle = TxEnv { data: vec![0; each * 3 / 2].into(), gas_limit: 1_000_000, ..tx(1, 0, 13) };
    let (_, removed) = add(&mut pool, &world, middle).expect("pays more than three");
    assert_eq!(removed.iter().map(|removed| removed.tx.rank()).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_pool_with_everything_handed_out_admits_no_more() {
    let (mut pool, mut world) = (Pool::new(small(4, 2)), World::default());
    for n in 0..4 {
        add(&mut pool, &world, from(other(n), 0, 1)).expect("admitted");
    }
    let taken = pool.take(&Batch::default());
    assert_eq!(add(&mut pool, &world, tx(1, 0, 1_000)).expect_err("full"), Refusal::Full);
    assert!(pool.settle(taken.iter().map(|tx| (tx.rank(), Settled::Included))).is_empty());
    assert_eq!(add(&mut pool, &world, tx(1, 0, 1_000)).expect_err("full until a block is committed"), Refusal::Full);
    (0..4).for_each(|n| world.set_nonce(other(n), 1));
    let Ok(removed) = pool.advance(&tip(1, 0, (0..4).map(other)), &world);
    assert_eq!(removed.len(), 4);
    add(&mut pool, &world, tx(1, 0, 1_000)).expect("admitted");
}

/// With a boost, the lowest payer runs after a bounded time, under any flood.
#[test]
fn no_transaction_starves_under_a_flood_that_pays_more() {
    let boost = 5;
    let config = PoolConfig { policy: Policy::Price { boost }, ..small(10_000, 10) };
    let (mut pool, mut world) = (Pool::new(config), World::default());
    let poor = add(&mut pool, &world, tx(1, 0, 10)).expect("admitted").0;
    let (mut sent, mut ran_at) = (0, None);
    for now in 0..200 {
        // Every tick ten high payers arrive, and ten run.
        for _ in 0..10 {
            add(&mut pool, &world, from(other(sent), 0, 110)).expect("admitted");
            sent += 1;
        }
        let taken = pool.take(&Batch { max_txs: 10, ..Batch::default() });
        if taken.iter().any(|tx| tx.rank() == poor.rank()) {
            ran_at = Some(now);
            break;
        }
        taken.iter().for_each(|tx| world.set_nonce(tx.tx().caller, 1));
        let _ = pool.advance(&tip(now + 1, 0, taken.iter().map(|tx| tx.tx().caller)), &world);
    }
    assert_eq!(ran_at, Some((110 - 10) / boost), "(highest tip - own tip) / boost");
}

/// Prices at the limits of their type neither overflow nor reverse the order.
#[test]
fn extreme_prices_neither_overflow_nor_reverse_the_order() {
    let config = PoolConfig { policy: Policy::Price { boost: u64::MAX }, ..PoolConfig::default() };
    let (mut pool, mut world) = (Pool::new(config), World::default());
    let _ = pool.advance(&tip(u64::MAX, u128::MAX, []), &world);
    for n in 1..5 {
        world.0.insert(who(n), Account { balance: U256::MAX, ..RICH });
    }
    let dynamic = |sender, cap, tip| TxEnv { gas_priority_fee: Some(tip), ..tx(sender, 0, cap) };
    add(&mut pool, &world, dynamic(1, u128::MAX, u128::MAX)).expect("admitted");
    add(&mut pool, &world, dynamic(2, u128::MAX, 0)).expect("admitted");
    add(&mut pool, &world, dynamic(3, 1, 1)).expect("admitted");
    assert_eq!(order(&pool), [(1, 0), (2, 0)]);
    let _ = pool.advance(&tip(0, 0, []), &world);
    assert_eq!(order(&pool), [(1, 0), (3, 0), (2, 0)]);
    let too_far = TxEnv { nonce: u64::MAX - 1, ..tx(4, 0, 1) };
    assert!(matches!(add(&mut pool, &world, too_far), Err(Refusal::NonceTooFar { .. })));
    world.set_nonce(who(4), u64::MAX - 1);
    add(&mut pool, &world, tx(4, u64::MAX - 1, 1)).expect("the last possible nonce");
    let taken = pool.take(&Batch::default());
    assert_eq!(taken.len(), 4);
    assert!(pool.settle(taken.iter().map(|tx| (tx.rank(), Settled::Returned))).is_empty());
}
