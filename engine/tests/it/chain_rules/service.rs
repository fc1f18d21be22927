//! A service on a chain with three recipients of fees, an extra fee and forced transactions: built by one, executed by another,
//! equal to the loop.

use super::{COUNTER, DATA, FEES, Fees, READER, TREASURY, VAULT, genesis, rules, stock::data_fee, truth_by};
use crate::{
    kit::ETHER,
    node::{
        CHAIN, genesis as genesis_json,
        service::{commit, env, steady, submit},
        system_contracts,
        wallet::{Call, address, signed},
    },
};
use phalanx::{
    ChainRules, Engine, ForcedTx, Form, GenesisAccount, Outcome, RecoverError, Recovery, SendError, Service,
    ServiceConfig,
    api::{
        BlockBudget, Build as _, BuildRequest, Candidate, ExecId, ExecutionEngine as _, Failure, InvalidCause, Payload,
        Priority, ProofQuery, Prove as _, Ticket, TxPolicy, TxStatus, ViewAt,
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
    verify_transaction,
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
    open_with(path, whole, rules, ServiceConfig::default().with_forced_check(|_| true))
}

fn open_with(path: &Path, whole: bool, rules: ChainRules, config: ServiceConfig) -> Service {
    let store = StoreConfig::new(Backend::File(path.into())).with_durability(Durability::Block);
    let builder = Engine::builder().with_store(store).with_threads(2).with_rules(rules);
    let builder = if whole {
        let file = genesis_json(&[("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0)], &[]);
        builder.with_chain(steady(&file))
    } else {
        builder.with_cfg(cfg())
    };
    let mut engine = builder.build().expect("an engine");
    if engine.state().height().is_none() {
        engine.genesis(accounts()).expect("a sound genesis");
    }
    Service::open(engine, config).expect("a service")
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
        let folder = crate::kit::folder();
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
            let built = job.finish().expect("a block");
            let payload = built.candidate.payload();
            assert_eq!(payload.txs()[..3], forced, "forced transactions come first");
            assert_eq!((payload.txs().len(), built.dropped.len()), (3 + offered.len(), 0), "at height {height}");
            let outcome = built.outcome.expect("executed");
            assert_eq!(submit(&validator, &built.candidate), outcome, "whole: {whole}");
            assert_eq!(submit(&producer, &built.candidate), outcome, "whole: {whole}");
            for service in [&validator, &producer] {
                commit(service, &built.candidate);
            }
            for (index, status) in (0..).zip(&outcome.txs[..]) {
                let proof = validator.prove(ProofQuery::Transaction { height, index }).expect("a proof");
                assert_eq!(proof.root, outcome.receipts_root);
                let proven = verify_transaction(proof.root, index as usize, &proof.bytes).expect("it verifies");
                assert_eq!(proven, *status, "{index} at height {height}");
                verify_transaction(proof.root, index as usize + 1, &proof.bytes).expect_err("another place");
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
    let folder = crate::kit::folder();
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
    assert_eq!(failure_of(&permits, strict), Some(Failure::Invalid(InvalidCause::Transaction { index: 1 })));
    assert_eq!(data_fee(&TxEnv::default()), U256::from(1_000), "which the accounts are funded by");
}

/// Failure of a submitted block.
fn failure_of(service: &Service, candidate: Candidate) -> Option<Failure> {
    service.submit(Ticket(9), candidate, Priority::Decided).expect("accepted");
    crate::node::service::events(service).into_iter().find_map(|event| match event {
        phalanx::api::EngineEvent::Failed { why, .. } => Some(why),
        _ => None,
    })
}

fn block(height: u64, policy: TxPolicy, txs: Vec<Bytes>) -> Candidate {
    Candidate::new(CHAIN, ExecId::GENESIS, env(height), policy, Payload::new(txs).into())
}

fn request(forced: Vec<Bytes>) -> BuildRequest {
    let (budget, attributes) = (BlockBudget::UNLIMITED, Bytes::new());
    BuildRequest { parent: ExecId::GENESIS, env: env(1), budget, forced, attributes }
}

#[test]
fn a_proposer_mints_only_what_the_check_knows() {
    let folder = crate::kit::folder();
    let due = |block: &Candidate| {
        let held = block.payload().txs().iter().filter(|tx| tx.first() == Some(&ForcedTx::TYPE));
        held.eq(&forced(block.env().height))
    };
    let checks = ServiceConfig::default().with_forced_check(due);
    let checks = open_with(&folder.path().join("checks"), false, rules(FEES), checks);
    let trusts = open(&folder.path().join("trusts"), false, rules(FEES));
    let denies = open_with(&folder.path().join("denies"), false, rules(FEES), ServiceConfig::default());
    let refused = |index| Some(Failure::Invalid(InvalidCause::Forced { index }));
    let pay = signed(2, &Call::to(0, 0, address(1), 7), vec![]);
    let all = forced(1);
    let minted = encode_forced(B256::ZERO, &ForcedTx { mint: u128::MAX, ..ForcedTx::default() });
    let broken = minted.slice(..minted.len() - 1);
    for policy in [TxPolicy::Strict, TxPolicy::SkipInvalid] {
        for bytes in [&minted, &broken] {
            let mints = || block(1, policy, vec![pay.clone(), bytes.clone()]);
            assert_eq!(failure_of(&denies, mints()), refused(1), "{policy:?}");
            assert_eq!(failure_of(&checks, mints()), refused(1), "{policy:?}");
        }
        let more = [&all[..], &[pay.clone(), minted.clone()]].concat();
        assert_eq!(failure_of(&checks, block(1, policy, more)), refused(0), "{policy:?}");
        assert_eq!(failure_of(&checks, block(1, policy, all[..2].to_vec())), refused(0), "{policy:?}");
        let twice = [&all[..], &[all[1].clone()]].concat();
        assert_eq!(failure_of(&trusts, block(1, policy, twice)), refused(3), "{policy:?}");
    }
    assert_eq!(denies.build(request(all.clone())).err(), refused(0));
    let sentence = refused(0).expect("a failure").to_string();
    assert!(sentence.contains("forced transaction 0") && sentence.contains("set it"), "{sentence}");
    // A builder cannot avoid the check either.
    let other = checks.build(request(vec![minted])).expect("a job").finish().expect("a block");
    assert_eq!(failure_of(&checks, other.candidate), refused(0));
    let due = block(1, TxPolicy::Strict, [&all[..], std::slice::from_ref(&pay)].concat());
    assert_eq!(submit(&checks, &due), submit(&trusts, &due));
    assert_eq!(submit(&denies, &block(1, TxPolicy::Strict, vec![pay])).txs[..], [TxStatus::Succeeded]);
}

#[test]
fn no_block_is_built_without_its_forced_transactions() {
    let folder = crate::kit::folder();
    let at = |name: &str, whole| open(&folder.path().join(name), whole, rules(FEES));
    for (name, whole) in [("plain", false), ("whole", true)] {
        let service = at(name, whole);
        let all = forced(1);
        for tx in pooled(1) {
            let _ = service.send(&tx).expect("a transaction");
        }
        for round in 0..20u64 {
            let job = service.build(request(all.clone())).expect("a job");
            match job.best() {
                Ok(best) => assert_eq!(best.candidate.payload().txs()[..3], all),
                Err(error) => assert!(matches!(error, Failure::Retry(_)), "{error}"),
            }
            // A submission ends the job early.
            let pay = signed(2, &Call::to(0, 0, address(1), round), vec![]);
            if round % 2 == 0 {
                let other = block(1, TxPolicy::Strict, vec![pay]);
                service.submit(Ticket(round), other, Priority::Speculative).expect("accepted");
            }
            let built = job.finish().expect("a block");
            assert_eq!(built.candidate.payload().txs()[..3], all, "in round {round}");
            assert!(built.outcome.is_some());
            service.keep_only(Ticket(100 + round), &[]).expect("accepted");
            service.settle();
        }
        let broken = all[1].slice(..all[1].len() - 1);
        let invalid = |forced| service.build(request(forced)).err();
        let refused = |index| Some(Failure::Invalid(InvalidCause::Forced { index }));
        assert_eq!(invalid(vec![all[0].clone(), broken]), refused(1));
        assert_eq!(invalid(vec![all[0].clone(), all[1].clone(), all[0].clone()]), refused(2));
        let greedy = ForcedTx { gas_limit: env(1).gas_limit, ..ForcedTx::default() };
        let greedy = vec![all[0].clone(), encode_forced(B256::ZERO, &greedy)];
        assert_eq!(invalid(greedy), Some(Failure::Invalid(InvalidCause::GasLimit)));
        let late = BuildRequest { attributes: Bytes::from_static(b"none"), ..request(all.clone()) };
        let late = service.build(late).expect("a job").finish();
        assert_eq!(late.err(), Some(Failure::Invalid(InvalidCause::Environment)));
        let jobs: Vec<_> = (0..8).map(|_| service.build(request(all.clone())).expect("a job")).collect();
        service.abandon();
        for job in jobs {
            match job.finish() {
                Ok(built) => assert_eq!(built.candidate.payload().txs()[..3], all),
                Err(error) => assert!(matches!(error, Failure::Fatal(_)), "{error}"),
            }
        }
    }
}

#[test]
fn an_undecided_forced_transaction_costs_its_sender_nothing() {
    let folder = crate::kit::folder();
    let service = open(&folder.path().join("one"), false, rules(FEES));
    let pay = |nonce| signed(2, &Call::to(0, nonce, address(1), 7), vec![]);
    for nonce in 0..2 {
        let _ = service.send(&pay(nonce)).expect("a transaction");
    }
    // Its nonce becomes that of the first one.
    let forced = encode_forced(B256::ZERO, &ForcedTx { from: address(0), ..ForcedTx::default() });
    let job = service.build(request(vec![forced.clone()])).expect("a job");
    service.settle();
    let built = job.finish().expect("a block");
    assert_eq!(built.candidate.payload().txs()[0], forced);
    assert_eq!(service.waiting(), 2);
    let job = service.build(request(vec![])).expect("a job");
    service.settle();
    assert_eq!(job.finish().expect("a block").candidate.payload().txs(), [pay(0), pay(1)]);
}
