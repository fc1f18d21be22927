//! Admission, replacement and order, rule by rule.

use super::kit::{RICH, World, add, authorization, hash, order, recovered, small, tip, tx, who};
use phalanx::{
    pool::{Account, Admission, Batch, Cause, Fees, Policy, Pool, PoolConfig, Refusal, Settled, Tip},
    revm::{
        context::TxEnv,
        context_interface::result::InvalidTransaction,
        primitives::{B256, Bytes, U256},
    },
};

fn refused(config: PoolConfig, tx: TxEnv) -> Refusal {
    let mut world = World::default();
    world.0.insert(who(1), Account { nonce: 5, ..RICH });
    world.0.insert(who(2), Account { is_contract: true, ..RICH });
    world.0.insert(who(3), Account { balance: U256::from(1_000_000), ..RICH });
    let mut pool = Pool::new(config);
    let refusal = add(&mut pool, &world, tx).expect_err("refused");
    assert!(pool.is_empty() && pool.ready_load().bytes == 0);
    refusal
}

#[test]
fn every_refusal_has_its_reason() {
    let config = PoolConfig { min_cap: 5, min_tip: 1, max_tx_gas: 1_000_000, ..PoolConfig::default() };
    let of = |tx| refused(config, tx);
    let dynamic = |cap, tip| TxEnv { gas_priority_fee: Some(tip), ..tx(1, 5, cap) };
    assert_eq!(of(tx(1, 4, 9)), Refusal::NonceUsed { nonce: 4, next: 5 });
    assert_eq!(of(tx(1, 1029, 9)), Refusal::NonceTooFar { nonce: 1029, next: 5, window: 1024 });
    assert!(matches!(of(tx(1, u64::MAX, 9)), Refusal::NonceUsed { .. }));
    assert!(matches!(of(tx(1, 5, 4)), Refusal::Underpriced { cap: 4, min_cap: 5, .. }));
    assert!(matches!(of(dynamic(9, 0)), Refusal::Underpriced { tip: 0, min_tip: 1, .. }));
    assert_eq!(of(dynamic(9, 10)), Refusal::TipAboveCap { cap: 9, tip: 10 });
    assert_eq!(of(tx(2, 0, 9)), Refusal::SenderIsContract);
    assert!(matches!(of(tx(3, 0, 48)), Refusal::Funds { .. }));
    assert_eq!(of(TxEnv { value: U256::MAX, ..tx(1, 5, 9) }), Refusal::CostOverflow);
    assert!(matches!(of(TxEnv { value: U256::MAX - U256::from(1_000_000), ..tx(1, 5, 9) }), Refusal::Funds { .. }));
    let gas_limit = 1_000_001;
    assert_eq!(of(TxEnv { gas_limit, ..tx(1, 5, 9) }), Refusal::TooMuchGas { gas_limit, max: 1_000_000 });
    assert!(matches!(of(TxEnv { gas_limit: 20_999, ..tx(1, 5, 9) }), Refusal::TooLittleGas { least: 21_000, .. }));
    let data = Bytes::from(vec![1; 200]);
    let short = TxEnv { data, gas_limit: 28_999, ..tx(1, 5, 9) };
    assert!(matches!(of(short), Refusal::TooLittleGas { least: 29_000, .. }), "the floor for calldata");
    let long = TxEnv { data: vec![0; 200_000].into(), ..tx(1, 5, 9) };
    assert!(matches!(of(long), Refusal::TooLong { len: 200_000, .. }));
    let tight = PoolConfig { max_sender_bytes: 1_500, ..config };
    let (mut pool, world) = (Pool::new(tight), World::default());
    assert!(add(&mut pool, &world, tx(4, 0, 9)).is_ok());
    assert!(matches!(add(&mut pool, &world, tx(4, 1, 9)), Err(Refusal::SenderFull { max: 1_500, .. })));
    assert_eq!(add(&mut pool, &world, tx(4, 0, 9)).expect_err("twice"), Refusal::Known);
    assert!(add(&mut pool, &world, tx(5, 0, 9)).is_ok());
}

#[test]
fn a_delegated_account_has_one_pending_transaction() {
    let mut world = World::default();
    world.0.insert(who(1), Account { nonce: 5, is_delegated: true, ..RICH });
    let mut pool = Pool::new(PoolConfig::default());
    let refusal = Refusal::OneOfDelegated { next: 5 };
    assert_eq!(add(&mut pool, &world, tx(1, 6, 9)).expect_err("behind a gap"), refusal);
    assert!(add(&mut pool, &world, tx(1, 5, 9)).is_ok());
    assert_eq!(add(&mut pool, &world, tx(1, 6, 9)).expect_err("the second"), refusal);
    assert!(add(&mut pool, &world, tx(1, 5, 90)).is_ok(), "a replacement is the same one");
    assert_eq!(pool.take(&Batch::default()).len(), 1);
    assert_eq!(add(&mut pool, &world, tx(1, 6, 9)).expect_err("the first is with a builder"), refusal);
    // An account that begins to delegate keeps its next.
    (0..4).for_each(|nonce| _ = add(&mut pool, &world, tx(2, nonce, 9)).expect("admitted"));
    world.0.insert(who(2), Account { nonce: 1, is_delegated: true, ..RICH });
    let removed = pool.advance(&tip(1, 0, [who(2)]), &world).expect("a state");
    let causes: Vec<_> = removed.iter().map(|removed| (removed.tx.tx().nonce, removed.cause.clone())).collect();
    let hash = *removed[1].tx.hash();
    assert_eq!(causes, [(0, Cause::Passed), (2, Cause::SenderDelegates), (3, Cause::Follows { hash })]);
    world.0.insert(who(1), Account { nonce: 6, ..RICH });
    pool.advance(&tip(2, 0, [who(1)]), &world).expect("a state");
    (6..9).for_each(|nonce| _ = add(&mut pool, &world, tx(1, nonce, 9)).expect("it delegates no more"));
}

#[test]
fn an_account_that_would_delegate_has_one_pending_transaction() {
    let (mut pool, world) = (Pool::new(PoolConfig::default()), World::default());
    let with = |from, nonce, of: &[u8]| {
        let authorization_list = of.iter().map(|from| authorization(*from)).collect();
        TxEnv { tx_type: 4, authorization_list, gas_limit: 100_000, ..tx(from, nonce, 9) }
    };
    assert!(add(&mut pool, &world, with(1, 0, &[2, 3])).is_ok());
    assert!(add(&mut pool, &world, tx(2, 0, 9)).is_ok());
    let refusal = Refusal::OneOfDelegated { next: 0 };
    assert_eq!(add(&mut pool, &world, tx(2, 1, 9)).expect_err("the second"), refusal);
    assert_eq!(add(&mut pool, &world, tx(3, 1, 9)).expect_err("behind a gap"), refusal);
    (0..2).for_each(|nonce| _ = add(&mut pool, &world, tx(4, nonce, 9)).expect("admitted"));
    let pending = |from| Refusal::AuthorityPending { authority: who(from) };
    assert_eq!(add(&mut pool, &world, with(5, 0, &[4])).expect_err("two pending"), pending(4));
    assert!(add(&mut pool, &world, tx(6, 0, 9)).is_ok() && add(&mut pool, &world, with(7, 0, &[6])).is_ok());
    assert_eq!(add(&mut pool, &world, with(4, 2, &[4])).expect_err("its own"), pending(4));
    assert!(add(&mut pool, &world, with(8, 0, &[8])).is_ok(), "its own, and its only one");
    assert_eq!(add(&mut pool, &world, tx(8, 1, 9)).expect_err("the second"), refusal);
    // The authorizations go with their transactions.
    let batch = pool.take(&Batch::default());
    let invalid = Settled::Invalid(InvalidTransaction::RejectCallerWithCode);
    assert!(!pool.settle(batch.iter().map(|tx| (tx.rank(), invalid.clone()))).is_empty() && pool.is_empty());
    (0..3).for_each(|nonce| _ = add(&mut pool, &world, tx(2, nonce, 9)).expect("nothing limits it"));
}

#[test]
fn a_replacement_pays_more_in_every_price() {
    let (mut pool, world) = (Pool::new(PoolConfig::default()), World::default());
    let dynamic = |cap, tip| TxEnv { gas_priority_fee: Some(tip), ..tx(1, 0, cap) };
    let first = add(&mut pool, &world, dynamic(100, 10)).expect("admitted").0;
    let cheap = Refusal::ReplacementUnderpriced { hash: *first.hash(), bump: 10 };
    for (cap, tip) in [(109, 11), (110, 10), (1_000, 10), (109, 109)] {
        assert_eq!(add(&mut pool, &world, dynamic(cap, tip)).expect_err("too little"), cheap);
    }
    let (second, removed) = add(&mut pool, &world, dynamic(110, 11)).expect("enough");
    assert_eq!(removed[0].cause, Cause::Replaced { by: *second.hash() });
    assert_eq!((removed.len(), removed[0].tx.rank(), pool.len()), (1, first.rank(), 1));
    // A price of zero does not grow by percent; the other price has to.
    let free = |cap| TxEnv { gas_priority_fee: Some(0), ..tx(2, 0, cap) };
    assert!(add(&mut pool, &world, free(10)).is_ok());
    assert!(add(&mut pool, &world, TxEnv { value: U256::ONE, ..free(10) }).is_err());
    assert!(add(&mut pool, &world, free(11)).is_ok());
    // With blobs, three prices double.
    let blob = |cap: u128, blob: u128| TxEnv {
        tx_type: 3,
        gas_priority_fee: Some(cap),
        blob_hashes: vec![B256::with_last_byte(1)],
        max_fee_per_blob_gas: blob,
        ..tx(3, 0, cap)
    };
    assert!(add(&mut pool, &world, blob(10, 4)).is_ok());
    for (cap, price) in [(19, 8), (20, 7), (100, 4)] {
        let refusal = add(&mut pool, &world, blob(cap, price)).expect_err("too little");
        assert!(matches!(refusal, Refusal::ReplacementUnderpriced { bump: 100, .. }));
    }
    assert!(add(&mut pool, &world, blob(20, 8)).is_ok());
}

/// Found by `properties`: two with the same priority fee at one nonce once counted as none.
#[test]
fn a_replacement_with_the_same_tip_keeps_its_place_among_the_worst() {
    let (mut pool, world) = (Pool::new(small(2, 1)), World::default());
    let free = |from, nonce, cap| TxEnv { gas_priority_fee: Some(0), ..tx(from, nonce, cap) };
    for tx in [free(1, 0, 10), tx(1, 1, 50), free(1, 0, 20)] {
        add(&mut pool, &world, tx).expect("admitted");
    }
    // The second is worth as much as the first: zero.
    let (_, removed) = add(&mut pool, &world, tx(2, 0, 1)).expect("pays more than nothing");
    assert_eq!((removed.len(), removed[0].tx.tx().nonce, removed[0].tx.tx().caller), (1, 1, who(1)));
}

#[test]
fn gaps_and_funds_decide_readiness() {
    let (mut pool, mut world) = (Pool::new(PoolConfig::default()), World::default());
    world.0.insert(who(1), Account { balance: U256::from(21_000 * 25), ..RICH });
    for (nonce, is_ready) in [(2, false), (0, true), (1, true)] {
        let admission = pool.add(recovered(&tx(1, nonce, 10)), &world);
        assert!(matches!(admission, Ok(Admission::Admitted { is_ready: got, .. }) if got == is_ready), "{nonce}");
    }
    // The balance pays for two of three.
    assert_eq!((order(&pool), pool.future_load().txs), (vec![(1, 0), (1, 1)], 1));
    world.0.insert(who(1), Account { balance: U256::from(21_000 * 30), ..RICH });
    let _ = pool.advance(&tip(1, 0, [who(1)]), &world);
    assert_eq!((order(&pool).len(), pool.future_load().txs), (3, 0));
    world.0.insert(who(1), Account { balance: U256::from(21_000 * 10), ..RICH });
    let _ = pool.advance(&tip(2, 0, [who(1)]), &world);
    assert_eq!((order(&pool).len(), pool.future_load().txs), (1, 2));
    world.0.insert(who(1), Account { is_contract: true, ..RICH });
    let Ok(removed) = pool.advance(&tip(3, 0, [who(1)]), &world);
    assert_eq!((removed.len(), &removed[0].cause), (3, &Cause::SenderIsContract));
    assert!(matches!(removed[2].cause, Cause::Follows { .. }) && pool.is_empty());
}

#[test]
fn fees_move_the_order_and_park_underpriced_transactions() {
    let (mut pool, world) = (Pool::new(PoolConfig::default()), World::default());
    let dynamic = |from, cap, tip| TxEnv { gas_priority_fee: Some(tip), ..tx(from, 0, cap) };
    for tx in [dynamic(1, 100, 1), dynamic(2, 50, 20), dynamic(3, 30, 30), dynamic(4, 60, 19)] {
        add(&mut pool, &world, tx).expect("admitted");
    }
    let mut at = |base| {
        let _ = pool.advance(&tip(0, base, []), &world);
        order(&pool).into_iter().map(|(from, _)| from).collect::<Vec<_>>()
    };
    assert_eq!(at(0), [3, 2, 4, 1]);
    assert_eq!(at(15), [2, 4, 3, 1]);
    assert_eq!(at(45), [4, 2, 1]);
    assert_eq!(at(61), [1]);
    assert!(at(101).is_empty());
    assert_eq!(at(30), [2, 4, 1, 3], "the base fee itself suffices");
    // Blob gas has its own fee.
    let blob = TxEnv { tx_type: 3, blob_hashes: vec![B256::ZERO], max_fee_per_blob_gas: 5, ..tx(5, 0, 90) };
    add(&mut pool, &world, blob).expect("admitted");
    let mut at = |blob| {
        let Ok(_) = pool.advance(&Tip { fees: Fees { base: 0, blob }, ..Tip::default() }, &world);
        order(&pool)[0].0
    };
    assert_eq!((at(5), at(6), at(2)), (5, 3, 5));
}

#[test]
fn waiting_transactions_gain_the_configured_boost() {
    let config = PoolConfig { policy: Policy::Price { boost: 3 }, ..PoolConfig::default() };
    let (mut pool, world) = (Pool::new(config), World::default());
    add(&mut pool, &world, tx(1, 0, 10)).expect("admitted");
    let _ = pool.advance(&tip(10, 0, []), &world);
    for (from, price) in [(2, 40), (3, 39), (4, 41)] {
        add(&mut pool, &world, tx(from, 0, price)).expect("admitted");
    }
    // Ten ticks are worth thirty wei; at equal worth the earlier arrival is first.
    assert_eq!(order(&pool), [(4, 0), (1, 0), (2, 0), (3, 0)]);
    let (mut pool, world) = (Pool::new(PoolConfig { policy: Policy::Arrival, ..config }), World::default());
    for (from, nonce, price) in [(1, 1, 9), (2, 0, 5), (1, 0, 1), (3, 0, 99)] {
        add(&mut pool, &world, tx(from, nonce, price)).expect("admitted");
    }
    assert_eq!(order(&pool), [(2, 0), (1, 0), (1, 1), (3, 0)]);
}

#[test]
fn transactions_that_do_not_fit_are_skipped_with_their_sender() {
    let (mut pool, world) = (Pool::new(PoolConfig::default()), World::default());
    let large = |from, nonce, price| TxEnv { gas_limit: 100_000, ..tx(from, nonce, price) };
    for tx in [tx(1, 0, 9), large(1, 1, 9), tx(1, 2, 9), large(2, 0, 8), tx(3, 0, 7), tx(3, 1, 7)] {
        add(&mut pool, &world, tx).expect("admitted");
    }
    let taken = pool.take(&Batch { max_gas: 80_000, ..Batch::default() });
    let names: Vec<_> = taken.iter().map(|tx| (tx.tx().caller, tx.tx().nonce)).collect();
    assert_eq!(names, [(who(1), 0), (who(3), 0), (who(3), 1)]);
    assert_eq!(order(&pool), [(1, 1), (1, 2), (2, 0)], "they stay");
    assert!(pool.take(&Batch { max_txs: 0, ..Batch::default() }).is_empty());
    assert!(pool.take(&Batch { max_of_sender: 0, ..Batch::default() }).is_empty());
    assert_eq!(pool.take(&Batch::default()).len(), 3);
}

#[test]
fn invalid_transactions_take_exactly_their_successors_along() {
    let (mut pool, world) = (Pool::new(PoolConfig::default()), World::default());
    for (from, nonce) in [(1, 0), (1, 1), (1, 2), (1, 7), (2, 0), (2, 1)] {
        add(&mut pool, &world, tx(from, nonce, 9)).expect("admitted");
    }
    let taken = pool.take(&Batch::default());
    let invalid = || Settled::Invalid(InvalidTransaction::RejectCallerWithCode);
    let outcomes = taken.iter().map(|tx| match (tx.tx().caller == who(1), tx.tx().nonce) {
        (true, 1) => (tx.rank(), invalid()),
        (true, 2) => (tx.rank(), Settled::Invalid(InvalidTransaction::NonceTooHigh { tx: 2, state: 1 })),
        _ => (tx.rank(), Settled::Included),
    });
    let removed = pool.settle(outcomes.collect::<Vec<_>>());
    let (one, two) = (hash(&tx(1, 1, 9)), [hash(&tx(1, 2, 9)), hash(&tx(1, 7, 9))]);
    assert_eq!((removed[0].tx.hash(), removed.len()), (&one, 3));
    for (removed, hash) in removed[1..].iter().zip(two) {
        assert_eq!((*removed.tx.hash(), &removed.cause), (hash, &Cause::Follows { hash: one }));
    }
    assert_eq!(pool.len(), 3, "the included transactions stay until a block is committed");
    assert!(order(&pool).is_empty());
    // The place is free again.
    add(&mut pool, &world, tx(1, 1, 9)).expect("admitted");
    assert_eq!(order(&pool), [(1, 1)]);
}

#[test]
fn returned_transactions_keep_their_turn() {
    let (mut pool, mut world) = (Pool::new(PoolConfig::default()), World::default());
    for from in 1..=4 {
        add(&mut pool, &world, tx(from, 0, 9)).expect("admitted");
    }
    let first = pool.take(&Batch { max_txs: 2, ..Batch::default() });
    add(&mut pool, &world, tx(5, 0, 9)).expect("admitted");
    // Transactions held by a builder can neither be replaced nor taken twice.
    assert_eq!(order(&pool), [(3, 0), (4, 0), (5, 0)]);
    let in_flight = Refusal::InFlight { hash: *first[0].hash() };
    assert_eq!(add(&mut pool, &world, tx(1, 0, 99)).expect_err("in flight"), in_flight);
    assert!(pool.settle(first.iter().map(|tx| (tx.rank(), Settled::Returned))).is_empty());
    assert_eq!(order(&pool), [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]);

    // A rewound block returns its own transactions.
    let block = pool.take(&Batch { max_txs: 3, ..Batch::default() });
    (1..=3).for_each(|from| world.set_nonce(who(from), 1));
    let Ok(removed) = pool.advance(&tip(1, 0, (1..=3).map(who)), &world);
    assert!(removed.len() == 3 && removed.iter().all(|removed| removed.cause == Cause::Passed));
    add(&mut pool, &world, tx(1, 1, 9)).expect("admitted");
    (1..=3).for_each(|from| world.set_nonce(who(from), 0));
    let Ok(removed) = pool.retreat(&tip(0, 0, []), block.clone(), &world);
    assert!(removed.is_empty(), "{removed:?}");
    assert_eq!(order(&pool), [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (1, 1)]);
    let Ok(removed) = pool.retreat(&tip(0, 0, []), block, &world);
    assert!(removed.len() == 3 && removed.iter().all(|removed| removed.cause == Cause::Refused(Refusal::Known)));
    // An abandoned block returns all its transactions at once.
    assert_eq!(pool.take(&Batch::default()).len(), 6);
    assert!(pool.settle_all_returned().is_empty());
    assert_eq!(order(&pool).len(), 6);
}

#[test]
fn old_transactions_expire_unless_a_builder_holds_them() {
    let config = PoolConfig { max_age: 10, ..PoolConfig::default() };
    let (mut pool, world) = (Pool::new(config), World::default());
    for (from, nonce) in [(1, 0), (2, 0), (2, 1), (3, 5)] {
        add(&mut pool, &world, tx(from, nonce, 9)).expect("admitted");
    }
    let held = pool.take(&Batch { max_txs: 1, ..Batch::default() });
    let _ = pool.advance(&tip(5, 0, []), &world);
    add(&mut pool, &world, tx(2, 2, 9)).expect("admitted");
    add(&mut pool, &world, tx(4, 0, 9)).expect("admitted");
    let Ok(removed) = pool.advance(&tip(9, 0, []), &world);
    assert!(removed.is_empty());
    let Ok(removed) = pool.advance(&tip(10, 0, []), &world);
    let causes: Vec<_> = removed.iter().map(|removed| (removed.tx.rank(), removed.cause.clone())).collect();
    let follows = |nonce| Cause::Follows { hash: hash(&tx(2, nonce, 9)) };
    assert_eq!(causes, [(1, Cause::Expired), (2, follows(0)), (4, follows(0)), (3, Cause::Expired)]);
    assert_eq!((pool.len(), order(&pool)), (2, vec![(4, 0)]));
    // Returned too late.
    assert!(pool.settle([(held[0].rank(), Settled::Returned)]).is_empty());
    let Ok(removed) = pool.advance(&tip(3, 0, []), &world);
    assert_eq!((removed.len(), &removed[0].cause), (1, &Cause::Expired), "time does not go back");
    assert_eq!(small(1, 1).max_ready.txs, 1);
}
