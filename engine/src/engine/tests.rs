//! Tests of an engine that look at what a user cannot see.

use super::Engine;
use crate::{model::Order, state::GenesisAccount};
use alloy_primitives::{Address, TxKind, U256};
use phalanx_paraframer::BlockLimits;
use revm::context::{BlockEnv, TxEnv};

#[test]
fn what_was_made_ahead_is_what_runs_unless_another_earns() {
    let sender = Address::repeat_byte(1);
    let txs: Vec<_> = (0..20)
        .map(|nonce| TxEnv { caller: sender, gas_limit: 21_000, kind: TxKind::Call(sender), nonce, ..TxEnv::default() })
        .collect();
    let [env, other] = [7, 8].map(|byte| BlockEnv {
        number: U256::from(1),
        beneficiary: Address::repeat_byte(byte),
        ..BlockEnv::default()
    });
    for (paid, seen) in [(&env, 1_000), (&other, 20)] {
        let mut engine = Engine::builder().build().unwrap();
        engine.genesis([GenesisAccount { address: sender, balance: U256::MAX, ..GenesisAccount::default() }]).unwrap();
        let mut planner = engine.plan(&txs, Order::Given, BlockLimits { max_txs: 20, max_gas: u64::MAX });
        let mut block = planner.next_block(&engine, &env).unwrap();
        let ahead = block.graph.as_mut().unwrap();
        assert_eq!(ahead.graph.critical_path, 20, "one sender is one chain");
        // No graph that is built says so.
        ahead.graph.critical_path = 1_000;
        let executed = engine.execute(paid, &txs, block).unwrap();
        let committed = engine.merkleize(executed).and_then(|merkleized| engine.commit(merkleized)).unwrap();
        assert_eq!(committed.block.stats().run.critical_path, seen);
    }
}

#[test]
fn an_engine_notes_who_makes_what() {
    const TXS: u64 = 2000;
    let sender = |number: u64| Address::from_word(U256::from(number + 0x1000).into());
    let accounts = (0..TXS).map(|number| GenesisAccount {
        address: sender(number),
        balance: U256::from(10).pow(U256::from(18)),
        ..GenesisAccount::default()
    });
    let txs: Vec<TxEnv> = (0..TXS)
        .map(|number| TxEnv {
            caller: sender(number),
            kind: TxKind::Call(Address::repeat_byte(9)),
            gas_limit: 21_000,
            value: U256::ONE,
            chain_id: Some(1),
            ..TxEnv::default()
        })
        .collect();
    for threads in [1, 2, 3] {
        let mut engine = Engine::builder().with_threads(threads).with_force_parallel(true).build().unwrap();
        engine.genesis(accounts.clone()).unwrap();
        let limits = BlockLimits { max_txs: TXS as usize, max_gas: 100_000_000 };
        let env = BlockEnv { gas_limit: 100_000_000, basefee: 0, ..BlockEnv::default() };
        let block = engine.plan(&txs, Order::Free, limits).next_block(&engine, &env).unwrap();
        let executed = engine.execute(&env, &txs, block).unwrap();
        let outcomes = executed.block().outcomes_of_wave();
        assert_eq!(outcomes.len(), TXS as usize);
        let known: usize = outcomes.made().iter().map(|made| made.positions().len()).sum();
        assert_eq!(known, if threads > 1 { TXS as usize } else { 0 }, "{threads} threads");
        assert!(outcomes.made().iter().all(|made| made.thread.is_some_and(|thread| thread < threads)));
    }
}
