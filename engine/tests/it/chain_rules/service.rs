//! A service on a chain with three recipients of fees, an extra fee and forced transactions: built by one, executed by another,
//! equal to the loop.

use super::{COUNTER, DATA, FEES, Fees, READER, TREASURY, VAULT, genesis, rules, stock::data_fee, truth_by};
use crate::{
    kit::ETHER,
    node::{
        CHAIN, genesis as genesis_json,
        service::{commit, env, submit},
        system_contracts,
        wallet::{Call, address, signed},
    },
};
use phalanx::{
    ChainRules, Engine, ForcedTx, Form, GenesisAccount, Outcome, RecoverError, Recovery, SendError, Service,
    ServiceConfig,
    api::{
        BlockBudget, Build as _, BuildRequest, Candidate, ExecId, ExecutionEngine as _, Failure, InvalidCause, Payload,
        Priority, Ticket, TxPolicy, TxStatus, ViewAt,
    },
    chain::ChainSpec,
    encode_forced,
    merkle::{Backend, Durability, StoreConfig},
    pool::{Admission, Refusal},
    revm::{
        DatabaseRef as _,
        context::{BlockEnv, CfgEnv, TxEnv},
        primitives::{Address, B256, Bytes, TxKind, U256, hardfork::SpecId},
    },
};
use std::path::Path;

const GAS_COST: u64 = 300_000 * 3_000_000_000;

fn cfg() -> CfgEnv {
    CfgEnv::new_with_spec(SpecId::OSAKA).with_chain_id(CHAIN)
}

/// Accounts 0 to 15 are rich, 16 can pay for a transaction and its extra fee, 17 lacks one wei.
fn accounts() -> Vec<GenesisAccount> {
    let eoa = |account: u64, balance: U256| GenesisAccount { address: address(account), balance, ..Default::default() };
    let enough = U256::from(GAS_COST) + U256::from(1_000);
    let mut all: Vec<_> = (0..16).map(|account| eoa(account, U256::from(10 * ETHER))).collect();
    all.extend([eoa(16, enough), eoa(17, enough - U256::ONE)]);
    all.extend(genesis().into_iter().filter(|account| account.code.is_some()));
    all.extend(system_contracts());
    all
}

fn open(path: &Path, whole: bool, rules: ChainRules) -> Service {
    let store = StoreConfig::new(Backend::File(path.into())).with_durability(Durability::Block);
    let builder = Engine::builder().with_store(store).with_threads(2).with_rules(rules);
    let builder = if whole {
        let file = genesis_json(&[("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0)], &[]);
        builder.with_chain(ChainSpec::from_genesis(&file).expect("a chain"))
    } else {
        builder.with_cfg(cfg())
    };
    let mut engine = builder.build().expect("an engine");
    if engine.state().height().is_none() {
        engine.genesis(accounts()).expect("a sound genesis");
    }
    Service::open(engine, ServiceConfig::default()).expect("a service")
}

/// Mints for a sender of the height, and pays or calls: the last one lacks the gas for anything.
fn forced(height: u64) -> Vec<Bytes> {
    let tx = |index: u8, kind, gas_limit| {
        let from = Address::repeat_byte(0x60 + index);
        let tx = ForcedTx { from, kind, mint: ETHER.into(), value: U256::from(5), gas_limit, data: Bytes::new() };
        encode_forced(B256::from(U256::from(100 * height + u64::from(index))), &tx)
    };
    let call = TxKind::Call(COUNTER);
    vec![tx(1, TxKind::Call(address(3)), 50_000), tx(2, TxKind::Call(TREASURY), 21_000), tx(3, call, 20_000)]
}

fn pooled(height: u64) -> Vec<Bytes> {
    let call = |from: u64, to: Address, value: u64, data: Bytes| {
        signed((from % 3) as u8, &Call { data, ..Call::to(from, height - 1, to, value) }, vec![])
    };
    let data: Bytes = U256::from(height).to_be_bytes_vec().into();
    let mut all: Vec<_> = (0..8).map(|from| call(from, COUNTER, 0, Bytes::new())).collect();
    all.extend((8..12).map(|from| call(from, address(from + 1), 7, Bytes::new())));
    all.extend([call(12, READER, 0, data), call(13, VAULT, 9, Bytes::new()), call(14, DATA, 1, Bytes::new())]);
    all
}

/// The transactions as the loop takes them.
fn envs(payload: &Payload) -> Vec<TxEnv> {
    let recovery = Recovery::new(ChainSpec::mainnet().with_chain_id(CHAIN), SpecId::OSAKA).with_forced_transactions();
    let tx = |bytes: &Bytes| recovery.recover(Form::Block, bytes).expect("a transaction").tx().clone();
    payload.txs().iter().map(tx).collect()
}

fn block_env(height: u64) -> BlockEnv {
    let env = env(height);
    BlockEnv {
        number: U256::from(height),
        timestamp: U256::from(env.timestamp_ms / 1000),
        beneficiary: env.beneficiary,
        gas_limit: env.gas_limit,
        basefee: env.base_fee,
        prevrandao: Some(env.prevrandao),
        ..BlockEnv::default()
    }
}

#[test]
fn built_and_submitted_blocks_equal_the_loop_and_a_restart_keeps_the_rules() {
    for whole in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| open(&folder.path().join(name), whole, rules(FEES));
        let (producer, mut validator) = (at("producer"), at("validator"));
        let (mut parent, mut blocks, mut statuses) = (ExecId::GENESIS, Vec::new(), Vec::new());
        for height in 1..=4 {
            drop(validator);
            validator = at("validator");
            let forced = forced(height);
            let mut offered = pooled(height);
            if height == 2 {
                offered.push(signed(2, &Call::to(16, 0, COUNTER, 0), vec![]));
                let poor = producer.send(&signed(2, &Call::to(17, 0, COUNTER, 0), vec![])).expect("a transaction");
                let cost = U256::from(GAS_COST) + U256::from(1_000);
                let Admission::Refused(Refusal::Funds { cost: asked, balance }) = poor else { panic!("{poor:?}") };
                assert_eq!((asked, balance), (cost, cost - U256::ONE));
            }
            for tx in &offered {
                let admission = producer.send(tx).expect("a transaction");
                assert!(matches!(admission, Admission::Admitted { is_ready: true, .. }), "{admission:?}");
            }
            let (budget, attributes) = (BlockBudget::UNLIMITED, Bytes::new());
            let request = BuildRequest { parent, env: env(height), budget, forced: forced.clone(), attributes };
            let job = producer.build(request).expect("a job");
            producer.settle();
            let built = job.finish();
            let payload = built.candidate.payload();
            assert_eq!(payload.txs()[..3], forced, "forced transactions come first");
            assert_eq!((payload.txs().len(), built.dropped.len()), (3 + offered.len(), 0), "at height {height}");
            let outcome = built.outcome.expect("executed");
            assert_eq!(submit(&validator, &built.candidate), outcome, "whole: {whole}");
            assert_eq!(submit(&producer, &built.candidate), outcome, "whole: {whole}");
            for service in [&validator, &producer] {
                commit(service, &built.candidate);
            }
            blocks.push((block_env(height), envs(payload)));
            statuses.extend_from_slice(&outcome.txs);
            parent = built.candidate.id();
        }
        let truth = truth_by(&cfg(), &accounts(), FEES, &blocks);
        let expected = truth.outcomes.iter().map(|outcome| match outcome {
            Outcome::Skipped(reason) => panic!("{reason}"),
            outcome if outcome.is_success() => TxStatus::Succeeded,
            Outcome::Executed(_) => TxStatus::Reverted,
        });
        assert_eq!(statuses, expected.collect::<Vec<_>>());
        assert_eq!(statuses.iter().filter(|status| **status == TxStatus::Reverted).count(), 4, "those without gas");
        let state = validator.snapshot(ViewAt::Committed).expect("a state");
        assert!(!truth.accounts[&DATA].0.is_zero() && !truth.accounts[&TREASURY].0.is_zero());
        for (address, (balance, nonce, slots)) in &truth.accounts {
            let info = state.basic_ref(*address).expect("readable").unwrap_or_default();
            assert_eq!((info.balance, info.nonce), (*balance, *nonce), "{address}, whole: {whole}");
            for (slot, value) in slots {
                assert_eq!(state.storage_ref(*address, *slot).expect("readable"), *value, "{address} {slot}");
            }
        }
    }
}

#[test]
fn forced_transactions_come_from_the_chain_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let without = ChainRules::new().with_tip_share(DATA, 1);
    let permits = open(&folder.path().join("permits"), false, rules(Fees { data: None, ..FEES }));
    let refuses = open(&folder.path().join("refuses"), false, without);
    let [good, ..] = &forced(1)[..] else { unreachable!() };
    let sent = permits.send(good).expect_err("from a sender");
    assert!(matches!(sent, SendError::Recover(RecoverError::Forced)), "{sent}");
    let sent = refuses.send(good).expect_err("an unknown type");
    assert!(matches!(sent, SendError::Recover(RecoverError::Decode(_))), "{sent}");
    let pay = signed(2, &Call::to(0, 0, address(1), 7), vec![]);
    let broken = good.slice(..good.len() - 1);
    let block =
        |policy, txs: Vec<Bytes>| Candidate::new(CHAIN, ExecId::GENESIS, env(1), policy, Payload::new(txs).into());
    let lenient = block(TxPolicy::SkipInvalid, vec![broken.clone(), good.clone(), pay.clone()]);
    let [skipped, succeeded] = [TxStatus::Skipped, TxStatus::Succeeded];
    assert_eq!(submit(&permits, &lenient).txs[..], [skipped, succeeded, succeeded]);
    assert_eq!(submit(&refuses, &lenient).txs[..], [skipped, skipped, succeeded]);
    let strict = block(TxPolicy::Strict, vec![pay, broken]);
    permits.submit(Ticket(9), strict, Priority::Decided).expect("accepted");
    let failed = crate::node::service::events(&permits).into_iter().find_map(|event| match event {
        phalanx::api::EngineEvent::Failed { why, .. } => Some(why),
        _ => None,
    });
    assert_eq!(failed, Some(Failure::Invalid(InvalidCause::Transaction { index: 1 })));
    assert_eq!(data_fee(&TxEnv::default()), U256::from(1_000), "which the accounts are funded by");
}
