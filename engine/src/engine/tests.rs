//! Tests of an engine that look at what a user cannot see.

use super::Engine;
use crate::{
    chain::ChainSpec,
    model::{BlockError, Hints, Invalid, Order, RecoveredBlock},
    state::GenesisAccount,
};
use alloy_consensus::Header;
use alloy_eips::eip7928::{AccountChanges, BlockAccessIndex, CodeChange};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy_rlp::Encodable as _;
use phalanx_paraframer::BlockLimits;
use revm::{
    context::{BlockEnv, CfgEnv, TxEnv},
    primitives::hardfork::SpecId,
};

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

/// Init code that deploys 512 bytes which no other seed deploys.
fn deployment(sender: Address, nonce: u64, seed: u64) -> TxEnv {
    let mut code = vec![0u8; 512];
    code[8..16].copy_from_slice(&seed.to_be_bytes());
    let init = [&[0x61, 2, 0, 0x80, 0x60, 11, 0x5f, 0x39, 0x5f, 0xf3, 0][..], &code].concat();
    TxEnv { caller: sender, nonce, gas_limit: 1_000_000, kind: TxKind::Create, data: init.into(), ..TxEnv::default() }
}

/// A list that names as many codes as the gas of a block could pay for, and one more if `over`.
fn list_of_codes(gas_limit: u64, over: bool) -> Bytes {
    let most = (gas_limit + 120_000_000) / 12_500 + u64::from(over);
    let account = |number: u64| {
        let mut changes = AccountChanges::new(Address::from_word(U256::from(number + 1).into()));
        changes.code_changes.push(CodeChange::new(BlockAccessIndex::new(1), number.to_be_bytes().to_vec().into()));
        changes
    };
    let mut out = Vec::new();
    (0..most).map(account).collect::<Vec<_>>().encode(&mut out);
    out.into()
}

/// Codes of blocks that are invalid, dropped or superseded go with the block; those of committed blocks stay.
#[test]
fn what_is_not_committed_leaves_no_code() {
    let sender = Address::repeat_byte(1);
    let header = Header {
        number: 1,
        gas_limit: 60_000_000,
        base_fee_per_gas: Some(0),
        excess_blob_gas: Some(0),
        blob_gas_used: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        ..Header::default()
    };
    for threads in [1, 2] {
        let cfg = CfgEnv::new_with_spec(SpecId::CANCUN);
        let builder = Engine::builder().with_cfg(cfg).with_chain(ChainSpec::named("Cancun").unwrap());
        let mut engine = builder.with_threads(threads).with_access_lists(true).build().unwrap();
        engine.genesis([GenesisAccount { address: sender, balance: U256::MAX, ..GenesisAccount::default() }]).unwrap();
        let env = BlockEnv { number: U256::from(1), prevrandao: Some(B256::ZERO), ..BlockEnv::default() };
        let before = engine.state.codes.size();
        let mut seeds = 0..;
        let mut deploys = |nonce| deployment(sender, nonce, seeds.next().unwrap());
        for round in 0..4 {
            // Invalid behind its first transaction.
            let txs = [deploys(0), deploys(7)];
            let refused = engine.execute_given(&env, &txs, Invalid::Refuse);
            assert!(matches!(refused, Err(BlockError::InvalidTransaction { index: 1, .. })), "{refused:?}");
            // Executed, and dropped before or behind its root.
            let executed = engine.execute_given(&env, &[deploys(0)], Invalid::Refuse).unwrap();
            assert!(executed.block().outcomes()[0].is_success() && engine.state.codes.size().0 > before.0);
            drop(executed);
            let executed = engine.execute_given(&env, &[deploys(0)], Invalid::Refuse).unwrap();
            drop(engine.merkleize(executed).unwrap());
            // A fork with a child, both dropped.
            let executed = engine.execute_given(&env, &[deploys(0)], Invalid::Refuse).unwrap();
            let fork = engine.merkleize(executed).and_then(|block| engine.add_fork(block, Vec::new())).unwrap().0;
            engine.checkout(fork).unwrap();
            let child = BlockEnv { number: U256::from(2), ..env.clone() };
            let executed = engine.execute_given(&child, &[deploys(1)], Invalid::Refuse).unwrap();
            engine.merkleize(executed).and_then(|block| engine.add_fork(block, Vec::new())).unwrap();
            engine.discard(fork).unwrap();
            // A list full of codes, for a block that has none; and one that no gas pays for.
            for over in [false, true] {
                let rlp = list_of_codes(header.gas_limit, over);
                let txs = [TxEnv { caller: sender, gas_limit: 21_000, kind: TxKind::Call(sender), ..TxEnv::default() }];
                let payload = RecoveredBlock { header: &header, txs: &txs, ommers: &[], withdrawals: None };
                let hints = Hints::AccessList { rlp: &rlp, hash: keccak256(&rlp) };
                let refused = engine.execute_block(&payload, hints).map(drop).unwrap_err().to_string();
                assert_eq!(refused.contains("more code than the block could pay for"), over, "{refused}");
            }
            engine.state.begin();
            assert_eq!(engine.state.codes.size(), before, "round {round} on {threads} threads");
        }
        // A block that is committed keeps its code.
        let executed = engine.execute_given(&env, &[deploys(0)], Invalid::Refuse).unwrap();
        engine.merkleize(executed).and_then(|block| engine.commit(block)).unwrap().write.wait().unwrap();
        engine.state.begin();
        assert_eq!(engine.state.codes.size().0, before.0 + 1);
    }
}
