//! From signed bytes through the pool into committed blocks, and from the blocks' bytes to a validator.

use crate::kit::{builder, env};
use phalanx::{
    BlockLimits, Engine, Form, GenesisAccount, Order, Outcome, Recovery, RecoveryCache,
    access::Salt,
    chain::ChainSpec,
    pool::{Admission, Batch, Cause, Fairness, Fees, Policy, Pool, PoolConfig, PooledTx, Settled, Tip},
    revm::{
        context::TxEnv,
        primitives::{B256, Bytes, hardfork::SpecId},
    },
};
use phalanx_workloads::{Native, TransferLoad, Workload};
use std::{collections::BTreeSet, sync::Arc};

const TXS: usize = 600;

fn load(alpha: f64) -> Native {
    let load =
        TransferLoad { accounts: 80, txs: TXS as u64, alpha, gamma: 3, signatures: true, ..TransferLoad::default() };
    Native::new(load).expect("a load")
}

fn engine(workload: &Native, threads: usize) -> Engine {
    let mut engine = builder().with_threads(threads).build().expect("an engine in memory");
    let accounts = workload.genesis().accounts.into_iter().map(|account| GenesisAccount {
        address: account.address,
        balance: account.balance,
        nonce: account.nonce,
        ..Default::default()
    });
    engine.genesis(accounts).expect("a sound genesis");
    engine
}

fn tip(engine: &Engine, number: u64, changed: Vec<phalanx::revm::primitives::Address>) -> Tip {
    assert_eq!(engine.state().height(), Some(number));
    Tip { now: number, fees: Fees { base: u128::from(env(number + 1).basefee), blob: 1 }, changed }
}

/// Transactions of a block in final order.
struct Made {
    txs: Vec<Arc<PooledTx>>,
    root: B256,
}

/// Frames and executes a part of the pool's batch, and reports every outcome to the pool.
fn build(engine: &mut Engine, pool: &mut Pool, number: u64) -> Made {
    let taken = pool.take(&Batch { max_txs: 120, ..Batch::default() });
    let txs: Vec<TxEnv> = taken.iter().map(|tx| tx.tx().clone()).collect();
    // Fewer than were taken, so that some are returned.
    let mut planner = engine.plan(&txs, Order::Free, BlockLimits { max_txs: 90, max_gas: u64::MAX });
    let block = planner.next_block(engine, &env(number)).expect("a block");
    drop(planner);
    let executed = engine.execute(&env(number), &txs, block).expect("execution");
    let merkleized = engine.merkleize(executed).expect("a root");
    let committed = engine.commit(merkleized).expect("a commit");
    let mut settled = vec![Settled::Returned; taken.len()];
    let mut made = Made { txs: Vec::new(), root: committed.state_root };
    for (index, outcome) in committed.block.transactions() {
        settled[index as usize] = match outcome {
            Outcome::Executed(result) => {
                assert!(result.is_success());
                made.txs.push(Arc::clone(&taken[index as usize]));
                Settled::Included
            }
            Outcome::Skipped(reason) => Settled::Invalid(reason.clone()),
        };
    }
    let removed = pool.settle(taken.iter().map(|tx| tx.rank()).zip(settled));
    assert!(removed.is_empty(), "every transaction of this load is valid in its turn: {removed:?}");
    made
}

#[test]
fn signed_bytes_become_blocks_that_a_validator_replays_without_a_signature() {
    for (alpha, policy) in [(0.0, Policy::Arrival), (0.8, Policy::Price { boost: 1 })] {
        let workload = load(alpha);
        let txs: Vec<_> = workload.transactions().collect();
        let signed = workload.accounts().sign(&txs).expect("keys");
        let cache = Arc::new(RecoveryCache::new(16 << 20, Salt::new(1)));
        let recovery = Recovery::new(ChainSpec::mainnet(), SpecId::OSAKA).with_cache(Arc::clone(&cache));
        let mut engine = engine(&workload, 2);
        let mut pool = Pool::new(PoolConfig { policy, ..PoolConfig::default() });
        let _ = pool.advance(&tip(&engine, 0, vec![]), engine.state()).expect("a state");

        // They arrive in another order than that of nonces.
        let mut received = recovery.recover_batch(engine.workers(), Form::Pooled, &signed);
        received.reverse();
        for tx in received {
            let admission = pool.add(tx.expect("a valid signature"), engine.state()).expect("a state");
            assert!(matches!(admission, Admission::Admitted { .. }), "{admission:?}");
        }
        assert_eq!((pool.ready_load().txs, pool.future_load().txs), (TXS, 0));

        let mut blocks: Vec<Made> = Vec::new();
        while !pool.is_empty() {
            let number = blocks.len() as u64 + 1;
            let made = build(&mut engine, &mut pool, number);
            assert!(!made.txs.is_empty(), "block {number} is empty");
            let senders = made.txs.iter().map(|tx| tx.tx().caller).collect();
            let passed = pool.advance(&tip(&engine, number, senders), engine.state()).expect("a state");
            assert!(passed.iter().all(|removed| removed.cause == Cause::Passed));
            let hashes = |txs: Vec<&Arc<PooledTx>>| txs.into_iter().map(|tx| *tx.hash()).collect::<BTreeSet<_>>();
            let passed = hashes(passed.iter().map(|removed| &removed.tx).collect());
            assert_eq!(passed, hashes(made.txs.iter().collect()), "the included transactions leave");
            blocks.push(made);
        }
        let included: BTreeSet<B256> = blocks.iter().flat_map(|block| &block.txs).map(|tx| *tx.hash()).collect();
        assert_eq!((included.len(), blocks.iter().map(|block| block.txs.len()).sum::<usize>()), (TXS, TXS));
        let fairness = Fairness::measure(blocks.iter().map(|block| block.txs.iter().map(|tx| tx.rank())));
        println!("alpha {alpha}, {policy:?}: {} blocks, {fairness:?}", blocks.len());
        assert!(fairness.txs == TXS && fairness.max_wait < blocks.len());

        validate(&workload, &recovery, &blocks);
        let stats = cache.stats();
        assert_eq!((stats.misses, stats.hits), (TXS as u64, TXS as u64), "one recovery per signature");
    }
}

/// A validator receives bytes in a given order.
fn validate(workload: &Native, recovery: &Recovery, blocks: &[Made]) {
    let mut engine = engine(workload, 4);
    for (number, block) in (1..).zip(blocks) {
        let bytes: Vec<Bytes> = block.txs.iter().map(|tx| tx.bytes().clone()).collect();
        let recovered = recovery.recover_batch(engine.workers(), Form::Block, &bytes);
        let txs: Vec<TxEnv> = recovered.into_iter().map(|tx| tx.expect("valid").tx().clone()).collect();
        let limits = BlockLimits { max_txs: txs.len(), max_gas: u64::MAX };
        let given = engine.plan(&txs, Order::Given, limits).next_block(&engine, &env(number)).expect("a block");
        let executed = engine.execute(&env(number), &txs, given).expect("execution");
        assert!(executed.block().outcomes().iter().all(Outcome::is_success));
        let merkleized = engine.merkleize(executed).expect("a root");
        let committed = engine.commit(merkleized).expect("a commit");
        assert_eq!(committed.state_root, block.root, "block {number}");
    }
}

/// An abandoned block, and a rewound one, cost no transaction its place or its turn.
#[test]
fn abandoned_and_rewound_blocks_leave_the_pool_unchanged() {
    let workload = load(0.5);
    let state = engine(&workload, 1);
    let mut pool = Pool::new(PoolConfig::default());
    let _ = pool.advance(&tip(&state, 0, vec![]), state.state()).expect("a state");
    for (number, tx) in workload.transactions().enumerate() {
        let hash = B256::left_padding_from(&(number as u64).to_be_bytes());
        let tx = Arc::new(phalanx::RecoveredTx::unsigned(hash, tx));
        assert!(matches!(pool.add(tx, state.state()), Ok(Admission::Admitted { is_ready: true, .. })));
    }
    let order: Vec<u64> = pool.ready().map(|tx| tx.rank()).collect();
    let (ready, len) = (pool.ready_load(), pool.len());
    let mut chain = engine(&workload, 1);
    let blocks: Vec<Made> = (1..=3)
        .map(|number| {
            let made = build(&mut chain, &mut pool, number);
            let senders = made.txs.iter().map(|tx| tx.tx().caller).collect();
            let _ = pool.advance(&tip(&chain, number, senders), chain.state()).expect("a state");
            made
        })
        .collect();
    // Another is being built, and all three are taken back.
    let open = pool.take(&Batch::default());
    let back: Vec<_> = blocks.into_iter().flat_map(|block| block.txs).collect();
    assert!(!open.is_empty() && pool.len() + back.len() == len);
    let changed = pool.iter().map(|tx| tx.tx().caller).collect();
    let tip = Tip { changed, ..tip(&state, 0, vec![]) };
    let refused = pool.retreat(&tip, back, state.state()).expect("a state");
    assert!(refused.is_empty(), "{refused:?}");
    assert!(pool.settle_all_returned().is_empty());
    assert_eq!((pool.ready_load(), pool.len()), (ready, len));
    assert!(pool.ready().map(|tx| tx.rank()).eq(order));
}
