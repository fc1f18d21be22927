//! alloy-evm's traits: recorded blocks handed out by a `BlockExecutor` leave the state that stock revm leaves, and EVMs of a
//! factory run on every executor.

use crate::kit::{Asked, builder, call, env, eoa, recorded, stock};
use alloy_consensus::transaction::Recovered;
use phalanx::{
    ChainRules, Engine, Executor, Hints, Invalid, Outcome,
    alloy_evm::{
        FactoryEvm, KnownBlock, KnownBlockError,
        traits::{EthEvmFactory, EvmEnv, EvmFactory as _, block::BlockExecutor as _},
    },
    chain::ChainSpec,
    revm::{
        context::TxEnv,
        database::{BundleAccount, BundleState, State, WrapDatabaseRef, states::bundle_state::BundleRetention},
        primitives::{Address, B256, U256, hardfork::SpecId},
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// Balance, nonce and code hash of an account if they changed, and its changed slots.
type Changed = (Option<(U256, u64, B256)>, BTreeMap<U256, U256>);

#[test]
fn recorded_blocks_handed_out_leave_what_revm_leaves() {
    let rules = ChainSpec::mainnet();
    let (mut handed, mut old) = (0, 0);
    for block in crate::foreign::some_blocks() {
        let (body, world) = crate::foreign::body_of(&block);
        let reads = Asked::new(&world);
        let (results, bundle) = stock(&rules, &reads, &body);
        let engine = Engine::builder().with_chain(rules.clone()).with_executor(Executor::Dag).with_threads(2);
        let mut engine = engine.with_access_lists(true).build().expect("an engine in memory");
        let ours = engine.execute_on(&Asked::new(&world), &body.payload(), Hints::Predict).expect("a valid block");
        let spec = rules.spec(&body.header);
        let asked = Asked::new(&world);
        let mut db = State::builder().with_database(WrapDatabaseRef(&asked)).with_bundle_update().build();
        let env = EvmEnv { cfg_env: rules.cfg(spec, body.header.timestamp), block_env: rules.env(&body.header) };
        let evm = EthEvmFactory::default().create_evm(&mut db, env);
        let hashes: Vec<_> = block.envelopes.iter().map(|tx| *tx.tx_hash()).collect();
        let executor = match KnownBlock::new(evm, &ours.block, hashes) {
            Ok(executor) => executor,
            Err(KnownBlockError::TooOld { .. }) if !spec.is_enabled_in(SpecId::CANCUN) => {
                old += 1;
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let txs = block.envelopes.iter().zip(&block.txs);
        let txs = txs.map(|(envelope, tx)| Recovered::new_unchecked(envelope.clone(), tx.caller));
        let result = executor.execute_block(txs).expect("a known block");
        assert_eq!(result.receipts, ours.block.receipts());
        assert_eq!(result.gas_used, ours.block.gas_used());
        assert_eq!(results.len(), result.receipts.len());
        db.merge_transitions(BundleRetention::Reverts);
        let theirs = db.take_bundle();
        // A step that leaves an account as it was is no change of a list, but a touch in revm's.
        let changed = |bundle: &BundleState| -> BTreeMap<Address, Changed> {
            let of = |(address, account): (&Address, &BundleAccount)| {
                let slots = account.storage.iter().filter(|(_, slot)| slot.is_changed());
                let slots: BTreeMap<_, _> = slots.map(|(key, slot)| (*key, slot.present_value)).collect();
                let info = account.info.clone().filter(|info| account.original_info.as_ref() != Some(info));
                let info = info.map(|info| (info.balance, info.nonce, info.code_hash));
                (info.is_some() || !slots.is_empty()).then_some((*address, (info, slots)))
            };
            bundle.state.iter().filter_map(of).collect()
        };
        assert_eq!(changed(&theirs), changed(&bundle), "{}", body.header.number);
        handed += 1;
    }
    println!("{handed} blocks handed out, {old} are older than Cancun");
    // The blocks of the repository are older.
    assert!(handed > 0 || std::env::var_os("PHALANX_REQUIRE_FIXTURES").is_none(), "no block was handed out");
}

#[test]
fn another_transaction_and_an_incomplete_block_are_errors() {
    let rules = ChainSpec::mainnet();
    let blocks = crate::foreign::some_blocks();
    let recent = blocks
        .iter()
        .find(|block| rules.spec(&block.header).is_enabled_in(SpecId::CANCUN) && block.envelopes.len() > 2);
    let Some(block) = recent else { return };
    let (body, world) = recorded(&rules, block, vec![]);
    let lists =
        |lists| Engine::builder().with_chain(rules.clone()).with_access_lists(lists).build().expect("an engine");
    let asked = Asked::new(&world);
    let ours = lists(true).execute_on(&asked, &body.payload(), Hints::Predict).expect("a valid block");
    let bare = lists(false).execute_on(&asked, &body.payload(), Hints::Predict).expect("a valid block");
    let hashes: Vec<_> = block.envelopes.iter().map(|tx| *tx.tx_hash()).collect();
    let spec = rules.spec(&body.header);
    let executor = |of: &phalanx::BlockInfo, hashes: &[B256]| {
        let db = State::builder().with_database(WrapDatabaseRef(&asked)).build();
        let env = EvmEnv { cfg_env: rules.cfg(spec, body.header.timestamp), block_env: rules.env(&body.header) };
        KnownBlock::new(EthEvmFactory::default().create_evm(db, env), of, hashes.to_vec())
    };
    assert_eq!(executor(&bare.block, &hashes).err(), Some(KnownBlockError::NoAccessList));
    let (hashes_len, txs) = (hashes.len() - 1, hashes.len());
    let wrong = KnownBlockError::Hashes { hashes: hashes_len, txs };
    assert_eq!(executor(&ours.block, &hashes[1..]).err(), Some(wrong));
    let tx = |index: usize| Recovered::new_unchecked(block.envelopes[index].clone(), block.txs[index].caller);
    let mut known = executor(&ours.block, &hashes).expect("a known block");
    known.apply_pre_execution_changes().expect("the first step");
    let error = known.execute_transaction(tx(1)).expect_err("the second before the first");
    assert!(error.to_string().contains("position 0"), "{error}");
    known.execute_transaction(tx(0)).expect("the first");
    let error = known.execute_transaction(tx(0)).expect_err("twice");
    assert!(error.to_string().contains("position 1"), "{error}");
    let Err(error) = known.finish() else { panic!("most are missing") };
    assert!(error.to_string().contains("1 were asked for"), "{error}");
}

#[test]
fn evms_of_a_factory_run_alike_on_every_executor() {
    let mut txs: Vec<TxEnv> = (1..=30).map(|from| call(from, 0, Address::repeat_byte(0x40 + from % 7), 5)).collect();
    // No EVM runs it, and the reason reaches the outcome.
    txs.insert(11, call(31, 7, Address::repeat_byte(0x40), 5));
    let genesis: Vec<_> = (1..=31).map(eoa).collect();
    let run = |executor, threads, rules: ChainRules| {
        let engine = builder().with_rules(rules).with_executor(executor).with_threads(threads);
        let mut engine = engine.build().expect("an engine in memory");
        engine.genesis(genesis.clone()).expect("a sound genesis");
        let executed = engine.execute_given(&env(1), &txs, Invalid::Skip).expect("a valid block");
        let outcomes: Vec<Outcome> = executed.block().outcomes().to_vec();
        (outcomes, engine.merkleize(executed).expect("a root").state_root())
    };
    let truth = run(Executor::Sequential, 1, ChainRules::new());
    let ran = truth.0.iter().filter(|outcome| outcome.gas_used() == 21_000).count();
    assert!(ran == 30 && matches!(truth.0[11], Outcome::Skipped(_)), "{:?}", truth.0[11]);
    for executor in [Executor::Dag, Executor::BlockStm, Executor::Sequential] {
        for threads in [1, 2, 4] {
            let rules = ChainRules::new().with_evm(Arc::new(FactoryEvm(EthEvmFactory::default())));
            assert!(run(executor, threads, rules) == truth, "{executor:?}, {threads} threads");
        }
    }
}
