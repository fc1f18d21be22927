//! Input that the engine refuses.

use crate::kit::{Asm, Case, Hint, Way, builder, call, contract, env, eoa, some_ways};
use phalanx::{
    Block, BlockError, BlockLimits, Error, GenesisAccount, Hints, Invalid, Order, TooWide,
    access::AccessSets,
    revm::{
        context::{BlockEnv, CfgEnv, TxEnv},
        context_interface::block::BlobExcessGasAndPrice,
        primitives::{Address, Bytes, U256, hardfork::SpecId},
    },
};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

#[test]
fn a_part_of_a_fork_is_refused() {
    type Change = fn(&mut CfgEnv);
    let changes: [(SpecId, Change); 4] = [
        (SpecId::OSAKA, |cfg| cfg.enable_amsterdam_eip8037 = true),
        (SpecId::AMSTERDAM, |cfg| cfg.enable_amsterdam_eip2780 = false),
        (SpecId::AMSTERDAM, |cfg| cfg.amsterdam_eip7708_disabled = true),
        (SpecId::AMSTERDAM, |cfg| cfg.amsterdam_eip8246_delayed_clear_disabled = true),
    ];
    for (spec, change) in changes {
        let mut cfg = CfgEnv::new_with_spec(spec);
        change(&mut cfg);
        let engine = builder().with_cfg(cfg).build();
        assert!(matches!(engine, Err(Error::UnsupportedSpec { spec: of }) if of == spec), "{engine:?}");
    }
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
    let price = BlobExcessGasAndPrice { excess_blob_gas: u64::MAX, blob_gasprice: u128::MAX };
    let wide = BlockEnv { blob_excess_gas_and_price: Some(price), ..env(1) };
    let named = |error: Option<Error>| matches!(error, Some(Error::TooWide(TooWide { bits: 128, .. })));
    assert!(named(engine.execute(&wide, &txs, block()).err()));
    assert!(named(engine.execute_given(&wide, &txs, Invalid::Skip).err().and_then(|error| match error {
        BlockError::Engine(error) => Some(error),
        _ => None,
    })));
    let foreign = engine.execute(&env(1), &txs, Block::unpredicted(vec![0, 1]));
    assert!(matches!(foreign, Err(Error::NoSuchTransaction { index: 1, len: 1 })));
}

#[test]
fn malformed_genesis_code_is_refused() {
    let mut engine = builder().build().expect("an engine in memory");
    let delegation = Bytes::from_static(&[0xef, 0x01, 0x00, 1, 2, 3]);
    let account = GenesisAccount { code: Some(delegation), ..contract(0xee, &[]) };
    assert!(matches!(engine.genesis([account]), Err(Error::Genesis { .. })));
    engine.genesis([eoa(1)]).expect("the engine is unchanged");
}

#[test]
fn a_transaction_larger_than_a_block_is_rejected_and_the_others_run() {
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

#[test]
fn hints_must_have_a_set_per_transaction() {
    let case = Case::new("Osaka").with([eoa(1), eoa(2)]).block([call(1, 0, Address::repeat_byte(2), 1)]);
    let payload = case.blocks[0].payload();
    let mut engine = case.engine(&Way::dag(2, Hint::None));
    for count in [0, 2, 1000] {
        let mut sets = AccessSets::new();
        (0..count).for_each(|_| sets.push([]));
        let refused = engine.execute_block(&payload, Hints::Sets(&sets));
        assert!(matches!(refused, Err(BlockError::Hints { hints, txs: 1 }) if hints == count), "{refused:?}");
    }
    let executed = engine.execute_block(&payload, Hints::None).expect("the engine is unchanged");
    assert_eq!(executed.block().gas_used(), 21_000);
}

/// An invalid transaction at any place, invalid in any way: every executor, with any hints, reports it with revm's
/// reason.
#[test]
fn an_invalid_transaction_is_reported_alike_at_every_place() {
    type Spoil = fn(&mut TxEnv);
    let spoils: [(Spoil, &str); 7] = [
        (|tx| tx.nonce += 1, "NonceTooHigh"),
        (|tx| tx.gas_limit = 20_999, "CallGasCostMoreThanGasLimit"),
        (|tx| tx.gas_price = 6, "PriorityFeeGreaterThanMaxFee|GasPriceLessThanBasefee"),
        (|tx| tx.value = U256::MAX, "OverflowPaymentInTransaction"),
        (|tx| tx.value = U256::MAX >> 1, "LackOfFundForMaxFee"),
        (|tx| tx.chain_id = Some(9), "InvalidChainId"),
        (|tx| tx.caller = Address::repeat_byte(0xee), "RejectCallerWithCode"),
    ];
    let counter = Asm::new().count(0).build();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (spoil, reason) in spoils {
        for place in 0..6 {
            let mut txs: Vec<_> = (1..=6).map(|from| call(from, 0, Address::repeat_byte(0xee), 1)).collect();
            spoil(&mut txs[place]);
            let case = Case::new("Osaka").with((1..=6).map(eoa)).with([contract(0xee, &counter)]).block(txs);
            let proof = case.check(&some_ways(&mut rng)).unwrap_or_else(|what| panic!("{reason}, {place}: {what}"));
            let verdict = proof.blocks[0].as_ref().expect_err("an invalid block");
            let index = format!("index: {place},");
            assert!(verdict.contains(&index) && reason.split('|').any(|reason| verdict.contains(reason)), "{verdict}");
        }
    }
}
