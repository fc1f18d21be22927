//! Work before payment: how much code runs for transactions that pay nothing. A precompile counts the runs, dry ones included.

use crate::kit::{COINBASE, Ran, call, contract, eoa, run};
use phalanx::{
    BlockLimits, Budget, Builder, CandidateTx, Engine, EngineBuilder, GenesisAccount, Invalid, Order, Reason, Target,
    paralyze::{Precompile, PrecompileCall, PrecompileState, Refused},
    revm::{
        bytecode::opcode::{CALL, GAS, POP, SELFBALANCE, STOP},
        context::{BlockEnv, TxEnv},
        precompile::PrecompileOutput,
        primitives::{Address, Bytes, U256},
    },
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const METER: Address = Address::repeat_byte(0xaa);

/// Gas limit of a heavy call.
const HEAVY: u64 = 4_000_000;

/// Counts its calls, and takes a million gas each time.
#[derive(Debug, Default)]
struct Meter(AtomicUsize);

impl Precompile for Meter {
    fn address(&self) -> Address {
        METER
    }

    fn call(&self, call: &PrecompileCall<'_>, _: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(PrecompileOutput::new(1_000_000, Bytes::new(), call.reservoir))
    }
}

/// Code of contract `number`, unlike all others, that calls the meter.
fn heavy(number: u8) -> GenesisAccount {
    let code = [&[0x60, number, POP][..], &[0x5f, 0x5f, 0x5f, 0x5f, 0x5f, 0x73], METER.as_slice(), &[GAS, CALL, STOP]];
    contract(number, &code.concat())
}

fn env(number: u64) -> BlockEnv {
    BlockEnv {
        number: U256::from(number),
        beneficiary: COINBASE,
        basefee: 7,
        gas_limit: 36_000_000,
        ..BlockEnv::default()
    }
}

fn engine(threads: usize, genesis: &[GenesisAccount]) -> (Engine, Arc<Meter>) {
    let meter = Arc::new(Meter::default());
    let mut engine = counted(threads, &meter).build().expect("an engine in memory");
    engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
    (engine, meter)
}

fn counted(threads: usize, meter: &Arc<Meter>) -> EngineBuilder {
    Engine::builder().with_threads(threads).with_precompile(Arc::clone(meter) as _)
}

/// Builds a block; returns the number of its transactions, the dropped reasons, and the runs of the meter.
fn build(threads: usize, genesis: &[GenesisAccount], txs: &[TxEnv]) -> (usize, Vec<Reason>, usize) {
    let (mut engine, meter) = engine(threads, genesis);
    let mut builder = Builder::new(&engine);
    let target = Target::Plain(Box::new(env(1)));
    let mut job = builder.open(&mut engine, target, Budget::default(), []).expect("a block");
    let candidates = (0..).zip(txs).map(|(rank, tx)| CandidateTx::new(tx.clone(), rank));
    job.extend(candidates, &|| false).expect("execution");
    assert_eq!(job.progress().waiting, 0);
    let built = job.finish();
    assert_eq!(built.txs.len() + built.dropped.len(), txs.len());
    (
        built.txs.len(),
        built.dropped.into_iter().map(|dropped| dropped.reason).collect(),
        meter.0.load(Ordering::Relaxed),
    )
}

/// Plans and runs all `txs`; returns the runs of the meter with the result.
fn plan(threads: usize, genesis: &[GenesisAccount], txs: &[TxEnv]) -> (Ran, usize) {
    let meter = Arc::new(Meter::default());
    let limits = BlockLimits { max_txs: 10_000, max_gas: u64::MAX };
    let ran = run(counted(threads, &meter), genesis, txs, Order::Free, limits, env);
    (ran, meter.0.load(Ordering::Relaxed))
}

/// Senders that lose their balance in their first transaction, each with a heavy second one.
fn emptied(delegated: bool) -> (Vec<GenesisAccount>, Vec<TxEnv>) {
    let sweep = [&[0x5f, 0x5f, 0x5f, 0x5f, SELFBALANCE, 0x73][..], &[0xdd; 20], &[GAS, CALL, STOP]].concat();
    let mut genesis = vec![contract(0xee, &sweep), eoa(0xdd)];
    let mut txs = Vec::new();
    for number in 1..=40 {
        let balance = U256::from(100 * (HEAVY + 400_000));
        let delegation = [&[0xef, 1, 0], Address::repeat_byte(0xee).as_slice()].concat();
        let code = delegated.then(|| delegation.into());
        genesis.push(GenesisAccount { balance, code, ..eoa(number) });
        genesis.push(heavy(100 + number));
        let own = Address::repeat_byte(number);
        let first = match delegated {
            true => call(number, 0, own, 0),
            false => TxEnv {
                gas_limit: 21_000,
                value: U256::from(100 * HEAVY),
                ..call(number, 0, Address::repeat_byte(0xdd), 0)
            },
        };
        txs.push(first);
        txs.push(TxEnv { gas_limit: HEAVY, ..call(number, 1, Address::repeat_byte(100 + number), 0) });
    }
    (genesis, txs)
}

#[test]
fn what_an_earlier_transaction_of_its_sender_makes_invalid_does_not_run() {
    for delegated in [false, true] {
        let (genesis, txs) = emptied(delegated);
        for threads in [1, 2] {
            let (placed, dropped, runs) = build(threads, &genesis, &txs);
            assert_eq!((placed, dropped.len(), runs), (40, 40, 0), "delegated: {delegated}, {threads} threads");
            let (ran, runs) = plan(threads, &genesis, &txs);
            assert_eq!((ran.succeeded(), runs), (40, 0), "planned, delegated: {delegated}, {threads} threads");
            let (mut engine, meter) = engine(threads, &genesis);
            let executed = engine.execute_given(&env(1), &txs, Invalid::Skip).expect("execution");
            let block = executed.block();
            assert_eq!(block.outcomes().iter().filter(|outcome| outcome.result().is_some()).count(), 40);
            // A block's order is given, so delegated senders count as sure: up to a quarter of the gas limit runs dry.
            let most = if delegated { 36_000_000 / 4 / HEAVY as usize } else { 0 };
            let runs = meter.0.load(Ordering::Relaxed);
            assert!(runs <= most, "given, delegated: {delegated}, {threads} threads: {runs} runs");
        }
    }
}

#[test]
fn nonces_ahead_of_their_turn_do_not_run() {
    let genesis: Vec<_> = (1..=90).map(eoa).chain((101..=105).map(heavy)).collect();
    let gapped: Vec<_> = (1..=90u8)
        .map(|from| TxEnv { gas_limit: HEAVY, ..call(from, 3, Address::repeat_byte(101 + from % 5), 0) })
        .collect();
    for threads in [1, 2] {
        assert_eq!((build(threads, &genesis, &gapped).2, plan(threads, &genesis, &gapped).1), (0, 0));
        let (mut engine, meter) = engine(threads, &genesis);
        let executed = engine.execute_given(&env(1), &gapped, Invalid::Skip).expect("execution");
        assert!(executed.block().outcomes().iter().all(|outcome| outcome.result().is_none()));
        assert_eq!(meter.0.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn no_more_is_analysed_than_fits() {
    let genesis: Vec<_> = (1..=90).map(eoa).chain((101..=190).map(heavy)).collect();
    let txs: Vec<_> = (1..=90u8)
        .map(|from| TxEnv { gas_limit: HEAVY, ..call(from, 0, Address::repeat_byte(100 + from), 0) })
        .collect();
    for threads in [1, 2] {
        let (placed, dropped, runs) = build(threads, &genesis, &txs);
        assert!(placed >= 30, "{placed} transactions of a million gas fill a block of 36");
        assert!(dropped.iter().all(|reason| matches!(reason, Reason::Gas { .. })));
        assert!(runs <= 2 * placed, "{runs} runs for {placed} transactions");
    }
}

#[test]
fn what_funds_a_sender_within_the_block_is_waited_for() {
    let poor = |number| GenesisAccount { balance: U256::ZERO, ..eoa(number) };
    let genesis: Vec<_> = [eoa(1)].into_iter().chain((2..=6).map(poor)).chain((102..=106).map(heavy)).collect();
    let mut txs = Vec::new();
    for number in 2..=6u8 {
        let value = U256::from(100 * HEAVY + 10_000_000);
        txs.push(TxEnv { value, gas_limit: 21_000, ..call(1, u64::from(number) - 2, Address::repeat_byte(number), 0) });
        txs.push(TxEnv { gas_limit: HEAVY, ..call(number, 0, Address::repeat_byte(100 + number), 0) });
    }
    let (placed, dropped, runs) = build(2, &genesis, &txs);
    assert!(placed + dropped.len() == 10 && runs <= 3 * 5, "{placed} placed, {runs} runs");
    let (ran, runs) = plan(2, &genesis, &txs);
    assert!(ran.succeeded() >= 5 && runs <= 3 * 5, "{runs} runs");
}
