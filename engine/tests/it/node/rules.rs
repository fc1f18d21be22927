//! Rules of a chain: kept whatever ran before, refused where they contradict each other, bound to the store.

use super::{CHAIN, after, genesis, send, system_contracts};
use crate::kit::{COINBASE, contract};
use alloy_consensus::{Header, SignableTransaction, TxEip1559, TxEnvelope, TxLegacy};
use alloy_primitives::Signature;
use phalanx::{
    BlockError, Engine, EngineBuilder, Error, Executor, GenesisAccount, Hints, Invalid, RecoveredBlock,
    chain::{ChainSpec, Parameters, TxRuleError},
    genesis_digest,
    merkle::{Backend, StoreConfig},
    revm::{
        context::{BlockEnv, CfgEnv},
        primitives::{Address, B256, Bytes, TxKind, U256, hardfork::SpecId},
    },
};

const USER: Address = Address::repeat_byte(1);

fn chain() -> ChainSpec {
    ChainSpec::named("Osaka").expect("a fork").with_chain_id(CHAIN)
}

fn alloc() -> Vec<GenesisAccount> {
    let user = GenesisAccount { address: USER, balance: U256::from(10).pow(U256::from(21)), ..Default::default() };
    system_contracts().into_iter().chain([user]).collect()
}

/// Deploys 30,000 bytes of code: more than EIP-170 permits.
const DEPLOYS_MUCH: [u8; 5] = [0x61, 0x75, 0x30, 0x5f, 0xf3];

const fn large_code(cfg: CfgEnv) -> CfgEnv {
    let mut cfg = cfg.with_chain_id(CHAIN);
    (cfg.limit_contract_code_size, cfg.tx_gas_limit_cap) = (Some(1 << 20), Some(30_000_000));
    cfg
}

fn header(engine: &Engine, parent: &Header) -> Header {
    engine.chain().child_header(parent, &after(parent)).expect("a child")
}

const fn whole<'a>(header: &'a Header, txs: &'a [phalanx::revm::context::TxEnv]) -> RecoveredBlock<'a> {
    RecoveredBlock { header, txs, ommers: &[], withdrawals: Some(&[]) }
}

#[test]
fn limits_of_the_configuration_hold_in_every_block() {
    for executor in [Executor::Dag, Executor::BlockStm, Executor::Sequential] {
        let builder = Engine::builder().with_executor(executor).with_threads(2);
        let cfg = large_code(CfgEnv::new_with_spec(SpecId::OSAKA));
        let mut engine = builder.with_chain(chain()).with_cfg(cfg).build().expect("an engine");
        let root = engine.genesis(alloc()).expect("a sound genesis");
        let parent = Header { gas_limit: 36_000_000, state_root: root, ..header_of_genesis() };
        let header = header(&engine, &parent);
        let mut tx = send(1, 0, TxKind::Create, Bytes::from_static(&DEPLOYS_MUCH));
        tx.gas_limit = 20_000_000;
        let env = engine.chain().env(&header);
        let txs = [tx];
        for _ in 0..2 {
            let plain = engine.execute_given(&env, &txs, Invalid::Refuse).expect("valid");
            assert!(plain.block().outcomes()[0].is_success(), "{executor:?}");
            let block = engine.execute_block(&whole(&header, &txs), Hints::None).expect("valid");
            assert!(block.block().outcomes()[0].is_success(), "{executor:?}: {:?}", block.block().outcomes()[0]);
        }
    }
}

fn header_of_genesis() -> Header {
    let genesis = genesis(&[("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0)], &[]);
    ChainSpec::from_genesis(&genesis).expect("a chain").genesis_header(&genesis, B256::ZERO)
}

#[test]
fn rules_of_transactions_alone_do_not_depend_on_what_ran_before() {
    // No chain: the rules are London's for ever, and whole blocks are mainnet's.
    let mut engine = Engine::builder().with_cfg(CfgEnv::new_with_spec(SpecId::LONDON)).build().expect("an engine");
    engine.genesis(alloc()).expect("a sound genesis");
    let env = BlockEnv { number: U256::from(1), gas_limit: 30_000_000, beneficiary: COINBASE, ..Default::default() };
    // PUSH0 is invalid before Shanghai.
    let mut tx = send(1, 0, TxKind::Create, Bytes::from_static(&[0x5f, 0x5f, 0xf3]));
    tx.chain_id = Some(1);
    let run = |engine: &mut Engine| {
        let executed = engine.execute_given(&env, std::slice::from_ref(&tx), Invalid::Refuse).expect("valid");
        executed.block().outcomes()[0].is_success()
    };
    assert!(!run(&mut engine));
    let osaka = Header { number: 25_000_000, timestamp: 1_800_000_000, ..header_of_genesis() };
    drop(engine.execute_block(&whole(&osaka, &[]), Hints::None).expect("a block of mainnet's future"));
    assert!(!run(&mut engine), "a whole block leaves no rules behind");
}

#[test]
fn a_schedule_holds_for_transactions_alone_as_well() {
    let chain = ChainSpec::named("ParisToShanghaiAtTime15k").expect("a transition").with_chain_id(CHAIN);
    let mut engine = Engine::builder().with_chain(chain).build().expect("an engine");
    engine.genesis(alloc()).expect("a sound genesis");
    let tx = send(1, 0, TxKind::Create, Bytes::from_static(&[0x5f, 0x5f, 0xf3]));
    for (time, succeeds) in [(14_999, false), (15_000, true), (100, false)] {
        let (number, timestamp) = (U256::from(1), U256::from(time));
        let env =
            BlockEnv { number, timestamp, gas_limit: 30_000_000, prevrandao: Some(B256::ZERO), ..Default::default() };
        let executed = engine.execute_given(&env, std::slice::from_ref(&tx), Invalid::Refuse).expect("valid");
        assert_eq!(executed.block().outcomes()[0].is_success(), succeeds, "at {time} s");
    }
}

#[test]
fn configurations_that_contradict_the_chain_are_refused() {
    let refused = |cfg: CfgEnv| {
        let error = Engine::builder().with_chain(chain()).with_cfg(cfg).build().expect_err("a contradiction");
        assert!(matches!(error, Error::Configuration { .. }), "{error}");
    };
    let cfg = || CfgEnv::new_with_spec(SpecId::OSAKA).with_chain_id(CHAIN);
    refused(cfg().with_chain_id(1));
    let mut blobs = cfg();
    blobs.max_blobs_per_tx = Some(77);
    refused(blobs);
    let mut fraction = cfg();
    fraction.blob_base_fee_update_fraction = Some(77);
    refused(fraction);
    let mut table = CfgEnv::new_with_spec(SpecId::FRONTIER).with_chain_id(CHAIN);
    table.gas_params = cfg().gas_params;
    refused(table);
    let own = chain().cfg(SpecId::OSAKA, 0);
    Engine::builder().with_chain(chain()).with_cfg(own).build().expect("the chain's own configuration");
}

#[test]
fn a_store_is_opened_as_the_chain_that_it_holds() {
    let folder = crate::kit::folder();
    let builder = |id: u64| -> EngineBuilder {
        let store = StoreConfig::new(Backend::File(folder.path().join("store")));
        Engine::builder().with_store(store).with_chain(chain().with_chain_id(id))
    };
    let digest = genesis_digest(&alloc());
    let mut backwards = alloc();
    backwards.reverse();
    assert_eq!(genesis_digest(&backwards), digest, "the order of accounts does not count");
    let mut engine = builder(CHAIN).with_genesis(digest).build().expect("an empty store");
    let other = engine.genesis([contract(7, &[0])]).expect_err("another genesis");
    assert!(matches!(other, Error::OtherChain { .. }), "{other}");
    engine.genesis(alloc()).expect("the genesis");
    drop(engine);
    let error = builder(77).build().expect_err("another chain");
    assert!(error.to_string().contains("chain 4242") && error.to_string().contains("chain 77"), "{error}");
    let error = builder(CHAIN).with_genesis(B256::repeat_byte(7)).build().expect_err("another genesis");
    assert!(matches!(error, Error::OtherChain { .. }), "{error}");
    drop(builder(CHAIN).with_genesis(digest).build().expect("the same chain"));
    drop(builder(CHAIN).build().expect("the same chain"));
}

#[test]
fn genesis_json_begins_a_chain_once() {
    let folder = crate::kit::folder();
    let file = genesis(&[("shanghai", 0), ("cancun", 0), ("prague", 0)], &[USER]);
    let open = || {
        let store = StoreConfig::new(Backend::File(folder.path().join("store")));
        let chain = ChainSpec::from_genesis(&file).expect("a chain");
        Engine::builder().with_store(store).with_chain(chain).build().expect("an engine")
    };
    let mut engine = open();
    let header = engine.begin(&file).expect("a genesis");
    assert_eq!((header.state_root, header.number, header.timestamp), (engine.state().root(), 0, 16));
    assert_eq!(engine.begin(&file).expect("the same"), header);
    drop(engine);
    let mut engine = open();
    assert_eq!(engine.begin(&file).expect("the same"), header);
    let other = genesis(&[("shanghai", 0)], &[COINBASE]);
    assert!(matches!(engine.begin(&other), Err(Error::OtherChain { .. })));
}

#[test]
fn every_field_of_a_genesis_is_part_of_the_chain() {
    let times = [("shanghai", 0), ("cancun", 0), ("prague", 0)];
    let file = genesis(&times, &[USER]);
    let open = || {
        let store = StoreConfig::new(Backend::Mem);
        let chain = ChainSpec::from_genesis(&file).expect("a chain");
        Engine::builder().with_store(store).with_chain(chain).build().expect("an engine")
    };
    let mut engine = open();
    let begun = engine.begin(&file).expect("a genesis");
    type Change = fn(&mut alloy_genesis::Genesis);
    let changes: [(&str, Change); 14] = [
        ("gasLimit", |file| file.gas_limit += 1),
        ("baseFeePerGas", |file| file.base_fee_per_gas = Some(1_000_000_001)),
        ("timestamp", |file| file.timestamp += 1),
        ("extraData", |file| file.extra_data = Bytes::from_static(&[1])),
        ("coinbase", |file| file.coinbase = COINBASE),
        ("mixHash", |file| file.mix_hash = B256::repeat_byte(1)),
        ("nonce", |file| file.nonce = 1),
        ("excessBlobGas", |file| file.excess_blob_gas = Some(131_072)),
        ("osakaTime", |file| file.config.osaka_time = Some(1 << 40)),
        ("pragueTime", |file| file.config.prague_time = Some(1)),
        ("depositContractAddress", |file| file.config.deposit_contract_address = Some(COINBASE)),
        ("blobSchedule", |file| {
            let params =
                alloy_eips::eip7840::BlobParams { target_blob_count: 1, ..alloy_eips::eip7840::BlobParams::cancun() };
            file.config.blob_schedule.insert("cancun".into(), params);
        }),
        ("a balance", |file| file.alloc.get_mut(&USER).expect("funded").balance += U256::ONE),
        ("an account", |file| _ = file.alloc.insert(COINBASE, Default::default())),
    ];
    for (what, change) in changes {
        let mut other = file.clone();
        change(&mut other);
        assert_ne!(phalanx::chain_digest(&other), phalanx::chain_digest(&file), "{what}");
        let refused = engine.begin(&other);
        assert!(matches!(refused, Err(Error::OtherChain { .. })), "{what}: {refused:?}");
        // Another chain has another root, so that nodes of the two differ at their first block.
        let chain = ChainSpec::from_genesis(&other).expect("a chain");
        let mut theirs = Engine::builder().with_chain(chain).build().expect("an engine");
        let root = theirs.begin(&other).expect("a genesis").state_root;
        assert_ne!(root, begun.state_root, "{what}");
    }
}

/// `sstore(number - n, blockhash(number - n))` for n from 1 to 3, and for 0.
fn remembers() -> Vec<u8> {
    (0..4u8).flat_map(|back| [0x60, back, 0x43, 0x03, 0x80, 0x40, 0x90, 0x55]).collect()
}

#[test]
fn blockhash_knows_the_ancestors_without_the_caller() {
    let folder = crate::kit::folder();
    let open = || {
        let store = StoreConfig::new(Backend::File(folder.path().join("store")));
        Engine::builder().with_store(store).with_chain(chain()).with_access_lists(true).build().expect("an engine")
    };
    let mut engine = open();
    let asker = contract(9, &remembers());
    let root = engine.genesis(alloc().into_iter().chain([asker.clone()])).expect("a sound genesis");
    let mut parents = vec![Header { state_root: root, ..header_of_genesis() }];
    for (number, hints) in (1u64..=8).zip([true, false].into_iter().cycle()) {
        if number == 5 {
            drop(engine);
            engine = open();
        }
        let parent = parents.last().expect("the genesis at least");
        let mut header = header(&engine, parent);
        let txs = [send(1, number - 1, TxKind::Call(asker.address), Bytes::new())];
        let mut executed = engine.execute_block(&whole(&header, &txs), Hints::None).expect("valid");
        if hints {
            // A block with a list takes another path, to the same hashes.
            let list = executed.block().access_list().expect("wanted").clone();
            let hints = Hints::AccessList { rlp: list.rlp(), hash: list.hash() };
            executed = engine.execute_block(&whole(&header, &txs), hints).expect("valid");
        }
        let merkleized = engine.merkleize(executed).expect("a root");
        merkleized.outcome().write_to(&mut header);
        engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
        for back in 1..=3u64.min(number) {
            let height = number - back;
            let word = engine.state().storage(&asker.address, &U256::from(height)).expect("readable");
            let hash = parents[height as usize].hash_slow();
            assert_eq!(word, U256::from_be_bytes(hash.0), "{height} in {number}");
        }
        parents.push(header);
    }
    for number in [0, 8, 10, 9_000, u64::MAX] {
        let wrong = Header { number, ..header(&engine, parents.last().expect("blocks")) };
        let refused = engine.execute_block(&whole(&wrong, &[]), Hints::None).expect_err("out of line");
        let BlockError::Engine(Error::Number { expected: 9, got }) = refused else { panic!("{refused}") };
        assert_eq!(got, number);
    }
}

#[test]
fn transactions_are_checked_by_every_rule_that_needs_no_state() {
    let chain = chain();
    let signature = Signature::new(U256::from(1), U256::from(1), false);
    let create = |len: usize| TxEip1559 {
        chain_id: CHAIN,
        gas_limit: 10_000_000,
        max_fee_per_gas: 9,
        max_priority_fee_per_gas: 9,
        input: vec![0; len].into(),
        ..Default::default()
    };
    let check = |chain: &ChainSpec, spec, tx: TxEip1559| {
        chain.validate_tx(spec, &TxEnvelope::Eip1559(tx.into_signed(signature)))
    };
    let long = TxRuleError::Initcode { len: 49_153, max: 49_152 };
    assert_eq!(check(&chain, SpecId::OSAKA, create(49_152)), Ok(()));
    assert_eq!(check(&chain, SpecId::OSAKA, create(49_153)), Err(long));
    assert_eq!(check(&chain, SpecId::LONDON, create(49_153)), Ok(()), "EIP-3860 comes with Shanghai");
    assert_eq!(check(&chain, SpecId::AMSTERDAM, create(131_072)), Ok(()), "EIP-7954");
    let long = TxRuleError::Initcode { len: 131_073, max: 131_072 };
    assert_eq!(check(&chain, SpecId::AMSTERDAM, create(131_073)), Err(long));
    let call = TxEip1559 { to: TxKind::Call(USER), ..create(49_153) };
    assert_eq!(check(&chain, SpecId::OSAKA, call), Ok(()), "calldata is no initcode");
    let tip = TxEip1559 { max_priority_fee_per_gas: 10, ..create(1) };
    assert_eq!(check(&chain, SpecId::OSAKA, tip), Err(TxRuleError::TipAboveFee { tip: 10, fee: 9 }));
    let hungry = TxEip1559 { gas_limit: 20_000_000, ..create(1) };
    let cap = TxRuleError::GasLimit { gas_limit: 20_000_000, max: 1 << 24 };
    assert_eq!(check(&chain, SpecId::OSAKA, hungry.clone()), Err(cap));
    assert_eq!(check(&chain, SpecId::PRAGUE, hungry.clone()), Ok(()));

    let own = chain.clone().with_cfg(large_code(CfgEnv::new_with_spec(SpecId::OSAKA))).expect("no contradiction");
    assert_eq!(check(&own, SpecId::OSAKA, hungry), Ok(()), "the cap is the configuration's");
    assert_eq!(check(&own, SpecId::OSAKA, create(1 << 21)), Ok(()), "twice the limit on code");
    let long = TxRuleError::Initcode { len: (1 << 21) + 1, max: 1 << 21 };
    assert_eq!(check(&own, SpecId::OSAKA, create((1 << 21) + 1)), Err(long));

    let unprotected = TxEnvelope::Legacy(TxLegacy { gas_limit: 21_000, ..Default::default() }.into_signed(signature));
    assert_eq!(chain.validate_tx(SpecId::OSAKA, &unprotected), Ok(()));
    let strict = chain.with_parameters(Parameters { unprotected_txs: false, ..Default::default() });
    assert_eq!(strict.validate_tx(SpecId::OSAKA, &unprotected), Err(TxRuleError::Unprotected));
    assert_eq!(strict.validate_tx(SpecId::HOMESTEAD, &unprotected), Ok(()), "there was no other kind");
}
