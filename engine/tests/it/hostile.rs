//! Hostile blocks and declarations: wasted gas, false credits, code that imitates delegations.

use crate::kit::{builder, contract, eoa};
use alloy_consensus::Header;
use phalanx::{
    BlockError, Engine, Executor, GenesisAccount, Hints, Outcome, RecoveredBlock,
    access::{Access, AccessSets},
    chain::ChainSpec,
    merkle::{Backend, StoreConfig},
    paralyze::{Precompile, PrecompileCall, PrecompileState, Refused, StateKey},
    revm::{
        context::TxEnv,
        precompile::PrecompileOutput,
        primitives::{Address, Bytes, TxKind, U256},
    },
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const METER: Address = Address::repeat_byte(0xee);
const FRIEND: Address = Address::repeat_byte(0xf0);

/// Burns gas, counts its calls, and returns a friend's balance.
#[derive(Debug, Default)]
struct Meter {
    calls: AtomicUsize,
    declares: Option<Access>,
}

impl Precompile for Meter {
    fn address(&self) -> Address {
        METER
    }

    fn call(&self, call: &PrecompileCall<'_>, state: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let balance = state.balance(FRIEND)?;
        Ok(PrecompileOutput::new(60_000, balance.to_be_bytes_vec().into(), call.reservoir))
    }

    fn accesses(&self, _: &TxEnv) -> Option<Vec<(StateKey, Access)>> {
        self.declares.map(|access| vec![(StateKey::Basic(FRIEND), access)])
    }
}

fn tx(from: u8, nonce: u64, kind: TxKind, data: Bytes) -> TxEnv {
    let (caller, gas_limit) = (Address::repeat_byte(from), 100_000);
    TxEnv { caller, gas_limit, gas_price: 1, kind, data, nonce, chain_id: Some(1), ..Default::default() }
}

fn header(gas_limit: u64) -> Header {
    Header { number: 1, gas_limit, ..Header::default() }
}

fn ways() -> Vec<(Executor, usize)> {
    [Executor::Sequential, Executor::Dag, Executor::BlockStm]
        .into_iter()
        .flat_map(|executor| [1, 2, 4].map(|threads| (executor, threads)))
        .collect()
}

fn engine(fork: &str, way: (Executor, usize), meter: &Arc<Meter>, genesis: &[GenesisAccount]) -> Engine {
    let chain = ChainSpec::named(fork).expect("a fork");
    let builder = builder().with_chain(chain).with_executor(way.0).with_threads(way.1);
    let mut engine = builder.with_precompile(Arc::clone(meter) as _).build().expect("an engine");
    engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
    engine
}

fn people() -> Vec<GenesisAccount> {
    (1..=200).map(eoa).collect()
}

#[test]
fn transactions_beyond_the_gas_limit_are_not_executed() {
    let calls: Vec<_> = (1..=200).map(|from| tx(from, 0, TxKind::Call(METER), Bytes::new())).collect();
    let header = header(250_000);
    let payload = RecoveredBlock { header: &header, txs: &calls, ommers: &[], withdrawals: None };
    let mut sets = AccessSets::new();
    for tx in &calls {
        let friend = (StateKey::Basic(FRIEND), Access::Read);
        sets.push([(StateKey::Basic(tx.caller), Access::Write), (StateKey::Basic(METER), Access::Write), friend]);
    }
    let mut free = AccessSets::new();
    calls.iter().for_each(|tx| free.push([(StateKey::Basic(tx.caller), Access::Write)]));
    for way in ways() {
        for (name, hints, runs_ahead) in [
            ("predicted", Hints::Predict, false),
            ("none", Hints::None, true),
            ("chained", Hints::Sets(&sets), false),
            ("wrong", Hints::Sets(&free), true),
        ] {
            let meter = Arc::new(Meter { declares: Some(Access::Read), ..Meter::default() });
            let verdict = engine("Berlin", way, &meter, &people()).execute_block(&payload, hints);
            let is_refused =
                matches!(verdict, Err(BlockError::GasLimit { index: 2, gas_limit: 100_000, left: 88_000 }));
            assert!(is_refused, "{way:?}, {name}: {verdict:?}");
            let calls = meter.calls.load(Ordering::Relaxed);
            // Workers of Block-STM run ahead until the lowest transactions are final, which depends on timing.
            let is_counted = way.1 == 1 || way.0 == Executor::Sequential || !runs_ahead && way.0 == Executor::Dag;
            assert!(!is_counted || calls <= 24, "{way:?}, {name}: {calls} calls where gas suffices for two");
        }
    }
}

#[test]
fn a_precompile_that_declares_a_credit_and_reads_sees_the_true_balance() {
    let mut genesis = people();
    genesis.push(GenesisAccount { address: FRIEND, balance: U256::from(77), ..Default::default() });
    let calls: Vec<_> = (1..=4).map(|from| tx(from, 0, TxKind::Call(METER), Bytes::new())).collect();
    let header = header(30_000_000);
    let payload = RecoveredBlock { header: &header, txs: &calls, ommers: &[], withdrawals: None };
    for way in ways() {
        for declares in [Access::Read, Access::Write, Access::Credit] {
            let meter = Arc::new(Meter { declares: Some(declares), ..Meter::default() });
            let executed = engine("Berlin", way, &meter, &genesis).execute_block(&payload, Hints::Predict);
            for outcome in executed.expect("a valid block").block().outcomes() {
                let output = outcome.result().and_then(|result| result.output().cloned()).unwrap_or_default();
                assert_eq!(U256::from_be_slice(&output), U256::from(77), "{way:?}, {declares:?}");
            }
        }
    }
}

/// Before London any sender may deploy bytes that later mean a delegation; until Prague they are code that fails.
#[test]
fn code_that_looks_like_a_delegation_is_code_before_prague() {
    let looks: Vec<u8> = [&[0xef, 1, 0][..], METER.as_slice()].concat();
    let mut genesis = people();
    // Returns one word.
    genesis.push(contract(0xc0, &[0x60, 32, 0x60, 0, 0xf3]));
    for target in [Address::repeat_byte(0xc0), FRIEND] {
        for len in [2, 3, 22, 23] {
            let mut code = looks.clone();
            code[3..].copy_from_slice(target.as_slice());
            code.truncate(len);
            // PUSH(code) PUSH1 0 MSTORE; PUSH1 len PUSH1 offset RETURN.
            let mut init = vec![0x5f + len as u8];
            init.extend(&code);
            init.extend([0x60, 0, 0x52, 0x60, len as u8, 0x60, 32 - len as u8, 0xf3]);
            let made = Address::repeat_byte(1).create(0);
            let txs = [
                tx(1, 0, TxKind::Create, init.into()),
                tx(2, 0, TxKind::Call(made), Bytes::new()),
                tx(3, 0, TxKind::Call(made), Bytes::new()),
            ];
            let header = header(30_000_000);
            let payload = RecoveredBlock { header: &header, txs: &txs, ommers: &[], withdrawals: None };
            let mut truth: Option<Vec<Outcome>> = None;
            for way in ways() {
                for hints in [Hints::Predict, Hints::None] {
                    let meter = Arc::new(Meter::default());
                    let executed = engine("Berlin", way, &meter, &genesis).execute_block(&payload, hints);
                    let outcomes = executed.expect("a valid block").block().outcomes().to_vec();
                    assert!(
                        outcomes[0].is_success() && !outcomes[1].is_success(),
                        "{way:?}, {len} bytes, {outcomes:?}"
                    );
                    let truth = truth.get_or_insert_with(|| outcomes.clone());
                    assert_eq!(*truth, outcomes, "{way:?}, {len} bytes");
                }
            }
        }
    }
}

/// Deploys such code, and opens the store again.
#[test]
fn a_store_with_code_of_a_truncated_delegation_reopens() {
    let dir = tempfile::tempdir().expect("a folder");
    let open = || {
        let store = StoreConfig::new(Backend::File(dir.path().join("file")));
        builder().with_chain(ChainSpec::named("Berlin").expect("a fork")).with_store(store).build()
    };
    // PUSH3 ef0100 PUSH1 0 MSTORE PUSH1 3 PUSH1 29 RETURN
    let init = Bytes::from_static(&[0x62, 0xef, 1, 0, 0x60, 0, 0x52, 0x60, 3, 0x60, 29, 0xf3]);
    let txs = [tx(1, 0, TxKind::Create, init)];
    let header = header(30_000_000);
    let payload = RecoveredBlock { header: &header, txs: &txs, ommers: &[], withdrawals: None };
    let mut engine = open().expect("a store");
    engine.genesis([eoa(1)]).expect("a sound genesis");
    let executed = engine.execute_block(&payload, Hints::None).expect("a valid block");
    let merkleized = engine.merkleize(executed).expect("a root");
    let committed = engine.commit(merkleized).expect("a commit");
    committed.write.wait().expect("durable");
    let state = engine.state().dump().expect("sound");
    drop(engine);
    assert_eq!(open().expect("a sound store").state().dump().expect("sound"), state);
}

/// A genesis may hold storage of an otherwise empty account. A reward keeps the account alive.
#[test]
fn a_reward_saves_an_empty_beneficiary_and_its_storage() {
    let beneficiary = Address::repeat_byte(0xbe);
    let mut genesis = people();
    genesis.push(GenesisAccount {
        address: beneficiary,
        storage: vec![(U256::ONE, U256::from(9))],
        ..Default::default()
    });
    let header = Header { beneficiary, ..header(30_000_000) };
    for price in [0, 1] {
        let touch = TxEnv { gas_price: price, ..tx(1, 0, TxKind::Call(beneficiary), Bytes::new()) };
        let away = TxEnv { gas_price: price, ..tx(2, 0, TxKind::Call(FRIEND), Bytes::new()) };
        for txs in [vec![touch.clone()], vec![away.clone()], vec![touch.clone(), away.clone()]] {
            let payload = RecoveredBlock { header: &header, txs: &txs, ommers: &[], withdrawals: None };
            let mut truth = None;
            for way in ways() {
                let mut engine = engine("Berlin", way, &Arc::default(), &genesis);
                let executed = engine.execute_block(&payload, Hints::None).expect("a valid block");
                let merkleized = engine.merkleize(executed).expect("a root");
                let _ = engine.commit(merkleized).expect("a commit");
                let left = engine.state().dump().expect("sound").remove(&beneficiary);
                let truth = truth.get_or_insert_with(|| left.clone());
                assert_eq!(*truth, left, "{way:?}, {} transactions at {price}", txs.len());
            }
        }
    }
}
