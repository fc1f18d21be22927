//! Layers agree with simulation, learn once, and predict alike on any number of threads.

use super::{
    layouts::MAX_FAILURES,
    paralyze::{Layers, ParaLyze},
};
use crate::{
    batch::{Batch, Source},
    key::StateKey,
    simulate::Simulator,
    vm::VmConfig,
};
use alloy_primitives::{Address, B256};
use phalanx_access::{Access, Salt};
use revm::{
    bytecode::Bytecode,
    context::{BlockEnv, CfgEnv, TxEnv},
    database::{CacheDB, EmptyDB},
    primitives::{Bytes, TxKind, U256, keccak256},
    state::AccountInfo,
};

/// A token in thirty instructions: `transfer` moves from keccak(caller ‖ 7) to keccak(to ‖ 7), whatever the selector.
fn token_code() -> Bytes {
    let mut code = vec![0x60, 7, 0x60, 0x20, 0x52]; // mstore(32, 7)
    let balance = |owner: &[u8]| {
        let mut c = owner.to_vec(); // push owner
        c.extend_from_slice(&[0x5f, 0x52, 0x60, 0x40, 0x5f, 0x20]); // mstore(0, owner); keccak(0, 64)
        c
    };
    code.extend(balance(&[0x33])); // caller
    code.extend_from_slice(&[0x60, 36, 0x35, 0x81, 0x54, 0x03, 0x90, 0x55]); // sstore(s, sload(s) - amount)
    code.extend(balance(&[0x60, 4, 0x35])); // calldataload(4)
    code.extend_from_slice(&[0x60, 36, 0x35, 0x81, 0x54, 0x01, 0x90, 0x55, 0x00]);
    code.into()
}

fn world() -> (CacheDB<EmptyDB>, Address, B256) {
    let token = Address::repeat_byte(0xee);
    let code = Bytecode::new_raw(token_code());
    let hash = code.hash_slow();
    let mut db = CacheDB::new(EmptyDB::default());
    db.insert_account_info(token, AccountInfo::default().with_code(code));
    for i in 1..=100u8 {
        let owner = Address::repeat_byte(i);
        db.insert_account_info(owner, AccountInfo { balance: U256::from(1u64 << 60), ..Default::default() });
        let mut preimage = [0; 64];
        preimage[..32].copy_from_slice(owner.into_word().as_slice());
        preimage[63] = 7;
        db.insert_account_storage(token, keccak256(preimage).into(), U256::from(1_000)).expect("in memory");
    }
    (db, token, hash)
}

fn transfer(from: u8, token: Address, to: u8, amount: u64) -> TxEnv {
    let mut data = vec![0xa9, 0x05, 0x9c, 0xbb];
    data.extend_from_slice(Address::repeat_byte(to).into_word().as_slice());
    data.extend_from_slice(&U256::from(amount).to_be_bytes::<32>());
    TxEnv {
        caller: Address::repeat_byte(from),
        kind: TxKind::Call(token),
        data: data.into(),
        gas_limit: 100_000,
        gas_price: 1,
        chain_id: Some(1),
        ..Default::default()
    }
}

#[test]
fn a_batch_that_is_mostly_simulation_is_declined() {
    let (db, token, _) = world();
    let call = |to, data: Vec<u8>, gas_limit| TxEnv {
        caller: Address::repeat_byte(1),
        kind: TxKind::Call(to),
        data: data.into(),
        gas_limit,
        gas_price: 1,
        ..TxEnv::default()
    };
    let native = call(Address::repeat_byte(7), vec![], 100_000);
    let mut transfer = vec![0xa9, 0x05, 0x9c, 0xbb];
    transfer.extend([0; 64]);
    let (learnable, unruled) = (call(token, transfer, 100_000), call(token, vec![1], 300_000));
    // 3,000 for the transfer, whatever its limit says, 82,000 for each call of the token and 282,000 for the last.
    let mut txs = vec![&native];
    txs.extend([&learnable; 20]);
    txs.push(&unruled);
    for (txs, max_share, affordable) in [
        (&txs[..21], 0.0, true),
        // A simulation for a layout that predicts one transaction.
        (&txs[..2], 0.0, false),
        (&txs[..], 0.146, false),
        (&txs[..], 0.147, true),
        (&txs[..0], 0.0, true),
    ] {
        let mut batch = Batch::new();
        let mut paralyze = ParaLyze::new(Salt::new(1), CfgEnv::default());
        assert_eq!(paralyze.analyse_within(&db, &BlockEnv::default(), txs, max_share, &mut batch), affordable);
        assert_eq!(batch.len(), if affordable { txs.len() } else { 0 });
    }
}

#[test]
fn a_token_is_learned_from_one_simulation_and_then_predicted_as_it_runs() {
    let (db, token, hash) = world();
    let txs: Vec<_> = (0..1_500u32).map(|i| transfer(1 + (i % 50) as u8, token, 51 + (i % 50) as u8, 5)).collect();
    let refs: Vec<_> = txs.iter().collect();
    let env = BlockEnv::default();
    let mut paralyze = ParaLyze::new(Salt::new(1), CfgEnv::default());
    let mut batch = Batch::new();
    paralyze.analyse(&db, &env, &refs, &mut batch);
    assert_eq!(paralyze.layout(&hash).map(|l| l.balances), Some(7));
    let mut simulator = Simulator::new(&db, &VmConfig::default(), &env);
    for (i, tx) in txs.iter().enumerate() {
        assert_eq!(batch.source(i), Source::Erc20, "transaction {i}");
        let mut predicted = batch.sets().get(i).to_vec();
        let mut actual = simulator.simulate(tx).expect("valid").as_slice().to_vec();
        predicted.sort();
        actual.sort();
        assert_eq!(predicted, actual, "transaction {i}");
        let digest = |(key, access): &(StateKey, Access)| (phalanx_access::Key::digest(key, paralyze.salt()), *access);
        let digests: Vec<_> = batch.sets().get(i).iter().map(digest).collect();
        assert_eq!(batch.digests(i), digests);
    }
}

#[test]
fn a_call_that_reverts_first_does_not_hide_the_layout() {
    let (db, token, hash) = world();
    // Without gas to run, the first two show nothing.
    let poor = |from| TxEnv { gas_limit: 21_700, ..transfer(from, token, 60, 5) };
    let txs = [poor(1), poor(2), transfer(3, token, 61, 5), transfer(4, token, 62, 5)];
    let refs: Vec<_> = txs.iter().collect();
    let mut paralyze = ParaLyze::new(Salt::new(1), CfgEnv::default());
    let mut batch = Batch::new();
    paralyze.analyse(&db, &BlockEnv::default(), &refs, &mut batch);
    assert_eq!(paralyze.layout(&hash).map(|l| l.balances), Some(7));
    assert_eq!(batch.source(3), Source::Erc20);
    // A code that never shows one is given up.
    let mut stubborn = ParaLyze::new(Salt::new(1), CfgEnv::default());
    let txs: Vec<_> = (1..=20).map(poor).collect();
    for round in 0..3 {
        batch.clear();
        stubborn.analyse(&db, &BlockEnv::default(), &txs.iter().collect::<Vec<_>>(), &mut batch);
        assert!((0..20).all(|i| batch.source(i) != Source::Erc20), "round {round}");
    }
    assert_eq!(stubborn.layouts[&hash].failures, MAX_FAILURES);
}

#[test]
fn predictions_do_not_depend_on_threads() {
    let (db, token, _) = world();
    let txs: Vec<_> = (0..3_000u32)
        .map(|i| match i % 3 {
            0 => transfer(1 + (i % 90) as u8, token, 91, 5),
            1 => TxEnv { kind: TxKind::Call(Address::repeat_byte(200)), ..transfer(2, token, 3, 1) },
            _ => TxEnv { kind: TxKind::Create, data: Bytes::new(), ..transfer(3, token, 3, 1) },
        })
        .collect();
    let refs: Vec<_> = txs.iter().collect();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        let mut batch = Batch::new();
        pool.install(|| {
            ParaLyze::new(Salt::new(1), CfgEnv::default()).analyse(&db, &BlockEnv::default(), &refs, &mut batch);
        });
        (0..batch.len()).map(|i| (batch.source(i), batch.sets().get(i).to_vec())).collect::<Vec<_>>()
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(8));
    assert_eq!(one[2].0, Source::Simulated);
    assert!(one[2].1.iter().any(|(k, a)| matches!(k, StateKey::Code(_)) && *a == Access::Write));
}

#[test]
fn rules_do_not_predict_calls_that_they_do_not_fit() {
    let (db, token, _) = world();
    let base = TxEnv { data: Bytes::new(), ..transfer(1, token, 2, 1) };
    let to = |address| TxEnv { kind: TxKind::Call(address), value: U256::ONE, ..base.clone() };
    let precompile = to(Address::with_last_byte(4));
    let contract = to(token);
    let itself = to(base.caller);
    let zero = TxEnv { value: U256::ZERO, ..to(Address::repeat_byte(2)) };
    let poor = TxEnv { caller: Address::repeat_byte(0xdd), ..to(token) };
    let listed = TxEnv {
        access_list: vec![revm::context_interface::transaction::AccessListItem {
            address: token,
            storage_keys: vec![B256::with_last_byte(3)],
        }]
        .into(),
        tx_type: 1,
        ..base.clone()
    };
    let txs = [&precompile, &contract, &itself, &zero, &poor, &listed];
    let mut batch = Batch::new();
    let mut paralyze = ParaLyze::new(Salt::new(1), CfgEnv::default());
    paralyze.use_layers(Layers::WithoutTemplates);
    paralyze.analyse(&db, &BlockEnv::default(), &txs, &mut batch);
    let sources: Vec<_> = (0..txs.len()).map(|i| batch.source(i)).collect();
    use Source::{Declared, Native, Simulated, Unknown};
    assert_eq!(sources, [Simulated, Simulated, Native, Native, Unknown, Declared]);
    assert_eq!(batch.sets().get(2), [(StateKey::Basic(base.caller), Access::Write)]);
    assert_eq!(batch.sets().get(3)[1].1, Access::Write, "a zero transfer may delete an empty account");
    assert!(batch.sets().get(4).iter().any(|(key, _)| *key.address() == token));
    assert!(batch.sets().get(5).contains(&(StateKey::Slot(token, U256::from(3)), Access::Write)));
}

#[test]
fn transactions_without_gas_are_analysed_as_well() {
    let (db, token, _) = world();
    let tx = TxEnv { gas_limit: 0, data: Bytes::new(), ..transfer(1, token, 2, 3) };
    let mut batch = Batch::new();
    ParaLyze::new(Salt::new(1), CfgEnv::default()).analyse(&db, &BlockEnv::default(), &[&tx], &mut batch);
    assert_eq!(batch.len(), 1);
}
