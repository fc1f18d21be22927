//! What the engine refuses, and how.

use crate::common::{builder, call, contract, env, eoa};
use phalanx::{
    Block, BlockLimits, Error, GenesisAccount, Order,
    revm::{
        context::{BlockEnv, CfgEnv},
        primitives::{Address, Bytes, hardfork::SpecId},
    },
};

#[test]
fn specs_with_other_account_rules_are_refused() {
    let engine = builder().with_cfg(CfgEnv::new_with_spec(SpecId::AMSTERDAM)).build();
    assert!(matches!(engine, Err(Error::UnsupportedSpec { spec: SpecId::AMSTERDAM })), "{engine:?}");
}

#[test]
fn an_incomplete_environment_and_a_foreign_index_are_refused() {
    let mut engine = builder().build().expect("an engine in memory");
    engine.genesis([eoa(1)]).expect("a sound genesis");
    let txs = [call(1, 0, Address::repeat_byte(2), 1)];
    let block = || Block::unpredicted(vec![0]);
    let no_randao = BlockEnv { prevrandao: None, ..env(1) };
    assert!(matches!(engine.execute(&no_randao, &txs, block()), Err(Error::Environment { .. })));
    let no_blobs = BlockEnv { blob_excess_gas_and_price: None, ..env(1) };
    assert!(matches!(engine.execute(&no_blobs, &txs, block()), Err(Error::Environment { .. })));
    let foreign = engine.execute(&env(1), &txs, Block::unpredicted(vec![0, 1]));
    assert!(matches!(foreign, Err(Error::NoSuchTransaction { index: 1, len: 1 })));
}

#[test]
fn malformed_genesis_code_is_refused() {
    let mut engine = builder().build().expect("an engine in memory");
    let delegation = Bytes::from_static(&[0xef, 0x01, 0x00, 1, 2, 3]);
    let account = GenesisAccount { code: Some(delegation), ..contract(0xee, &[]) };
    assert!(matches!(engine.genesis([account]), Err(Error::Genesis { .. })));
    engine.genesis([eoa(1)]).expect("the engine is as it was");
}

#[test]
fn a_transaction_larger_than_a_block_is_named_and_the_others_run() {
    let mut engine = builder().build().expect("an engine in memory");
    engine.genesis([eoa(1), eoa(2)]).expect("a sound genesis");
    let mut txs = [call(1, 0, Address::repeat_byte(2), 1), call(2, 0, Address::repeat_byte(1), 1)];
    txs[0].gas_limit = 1_000_000;
    for order in [Order::Free, Order::Given] {
        let mut planner = engine.plan(&txs, order, BlockLimits { max_txs: 10, max_gas: 500_000 });
        let block = planner.next_block(&engine, &env(1)).expect("a block");
        assert_eq!(block.order(), [1]);
        assert!(planner.next_block(&engine, &env(2)).is_none());
        assert_eq!(planner.rejected(), [0]);
    }
}
