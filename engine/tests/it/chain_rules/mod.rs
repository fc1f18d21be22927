//! A chain with three recipients of fees, an extra fee and forced transactions that mint, against a plain revm loop with a
//! handler of its own: equal on every executor, with the parallelism of a chain without.

mod blocks;
mod foreign_evm;
mod pool;
mod service;
mod simulate;
mod stock;

use crate::kit::{COINBASE, ETHER, builder, call, contract, env, eoa};
use phalanx::{
    BlockLimits, ChainRules, Engine, EngineBuilder, Error, Executor, ExtraFee, ForcedTx, GenesisAccount, Invalid,
    Order, Outcome, RunStats,
    revm::{
        bytecode::opcode::*,
        context::{BlockEnv, CfgEnv, TxEnv},
        context_interface::result::InvalidTransaction,
        primitives::{Address, B256, TxKind, U256, hardfork::SpecId},
    },
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use std::sync::Arc;
use stock::{Fees, Truth, data_fee};

/// A sender as well.
const TREASURY: Address = Address::repeat_byte(0x28);
/// A contract.
const VAULT: Address = Address::repeat_byte(0xb1);
/// No account at first.
const DATA: Address = Address::repeat_byte(0xc1);
const COUNTER: Address = Address::repeat_byte(0xee);
const READER: Address = Address::repeat_byte(0xdd);

const FEES: Fees = Fees { treasury: TREASURY, vault: VAULT, data: Some(DATA) };

/// Charges each transaction for its calldata.
#[derive(Debug)]
struct DataFee;

impl ExtraFee for DataFee {
    fn fee(&self, tx: &TxEnv, _: &BlockEnv) -> U256 {
        data_fee(tx)
    }
}

fn rules(fees: Fees) -> ChainRules {
    let rules = ChainRules::new().with_tip_share(fees.treasury, 4_000).with_base_fee_share(fees.vault, 7_500);
    let rules = rules.with_forced_transactions();
    match fees.data {
        Some(to) => rules.with_extra_fee(to, Arc::new(DataFee)),
        None => rules,
    }
}

fn genesis() -> Vec<GenesisAccount> {
    // `storage[caller] += 1`
    let counts = [CALLER, SLOAD, PUSH1, 1, ADD, CALLER, SSTORE, STOP];
    // `storage[calldata] = balance(treasury)`
    let mut reads = vec![PUSH20];
    reads.extend_from_slice(TREASURY.as_slice());
    reads.extend([BALANCE, PUSH0, CALLDATALOAD, SSTORE, STOP]);
    // `storage[0] = balance(this)`
    let looks = [SELFBALANCE, PUSH0, SSTORE, STOP];
    let contracts = [contract(0xee, &counts), contract(0xdd, &reads), contract(0xb1, &looks)];
    (1..=40).map(eoa).chain(contracts).collect()
}

/// Random transactions; `looks` of 100 read or move the balance of a recipient.
fn transactions(seed: u64, count: usize, looks: u32) -> Vec<TxEnv> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut nonces = [0u64; 41];
    let mut next = |from: u8| {
        let nonce = &mut nonces[usize::from(from)];
        *nonce += 1;
        *nonce - 1
    };
    (0..count)
        .map(|index| {
            let from = rng.random_range(1..40u8);
            let to = Address::repeat_byte(rng.random_range(1..60));
            if rng.random_ratio(looks, 100) {
                let data = U256::from(index).to_be_bytes_vec().into();
                return match rng.random_range(0..5) {
                    0 => TxEnv { data, ..call(from, next(from), READER, 0) },
                    1 => call(0x28, next(0x28), to, 5),
                    2 => call(from, next(from), VAULT, 3),
                    3 => call(from, next(from), TREASURY, 9),
                    _ => call(from, next(from), DATA, rng.random_range(0..2)),
                };
            }
            match rng.random_range(0..20) {
                0..9 => call(from, next(from), to, rng.random_range(0..1000)),
                9..14 => call(from, next(from), COUNTER, 0),
                14 => TxEnv { gas_priority_fee: Some(0), ..call(from, next(from), to, 1) },
                15 => call(from, next(from), to, 11 * ETHER),
                16 => TxEnv { gas_limit: 21_000, ..call(from, next(from), COUNTER, 0) },
                kind => {
                    // The nonce grows by one, whatever becomes of it.
                    next(from);
                    let gas_limit = if kind == 17 { 20_000 } else { 100_000 };
                    let to = if kind == 18 { COUNTER } else { to };
                    let kind = if rng.random_ratio(1, 8) { TxKind::Create } else { TxKind::Call(to) };
                    let value = U256::from(rng.random_range(0..30) * ETHER / 2);
                    let from = Address::repeat_byte(from);
                    ForcedTx { from, kind, mint: u128::from(ETHER), value, gas_limit, ..ForcedTx::default() }.env()
                }
            }
        })
        .collect()
}

fn cfg(spec: SpecId) -> CfgEnv {
    CfgEnv::new_with_spec(spec)
}

fn truth(genesis: &[GenesisAccount], spec: SpecId, fees: Fees, blocks: &[(BlockEnv, Vec<TxEnv>)]) -> Truth {
    truth_by(&cfg(spec), genesis, fees, blocks)
}

fn truth_by(cfg: &CfgEnv, genesis: &[GenesisAccount], fees: Fees, blocks: &[(BlockEnv, Vec<TxEnv>)]) -> Truth {
    stock::run(genesis, cfg, fees, blocks)
}

/// Ways to run a block: executor, threads, seed of the schedule.
fn ways() -> Vec<(Executor, usize, Option<u64>)> {
    let mut ways = vec![(Executor::Sequential, 1, None)];
    for threads in [1, 2, 4] {
        for executor in [Executor::Dag, Executor::BlockStm] {
            ways.extend([None, Some(1), Some(2)].map(|seed| (executor, threads, seed)));
        }
    }
    ways
}

struct Ran {
    outcomes: Vec<Outcome>,
    root: B256,
    stats: RunStats,
    engine: Engine,
}

/// Runs one block on a new engine.
fn ran(
    builder: EngineBuilder,
    genesis: &[GenesisAccount],
    (executor, threads, seed): (Executor, usize, Option<u64>),
    txs: &[TxEnv],
) -> Ran {
    let builder = builder.with_executor(executor).with_threads(threads).with_schedule_seed(seed);
    let mut engine = builder.build().expect("an engine in memory");
    engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
    let executed = engine.execute_given(&env(1), txs, Invalid::Skip).expect("execution");
    let committed = {
        let merkleized = engine.merkleize(executed).expect("a root");
        engine.commit(merkleized).expect("a commit")
    };
    let stats = committed.block.stats().run;
    Ran { outcomes: committed.block.into_outcomes().1, root: committed.state_root, stats, engine }
}

/// Asserts that the engine's state is that of the loop.
fn compare(engine: &Engine, truth: &Truth, what: &str) {
    for (address, (balance, nonce, slots)) in &truth.accounts {
        let account = engine.state().account(address).expect("readable").unwrap_or_default();
        let (held_nonce, held) = (account.nonce, account.balance);
        assert_eq!((held, held_nonce), (*balance, *nonce), "{address}, {what}");
        for (slot, value) in slots {
            let held = engine.state().storage(address, slot).expect("readable");
            assert_eq!(held, *value, "{slot} of {address}, {what}");
        }
    }
}

/// Runs one block in every way, and compares with the loop.
fn prove(genesis: &[GenesisAccount], spec: SpecId, fees: Fees, txs: &[TxEnv], what: &str) -> Vec<Ran> {
    // Before London there is no base fee.
    let basefee = if spec.is_enabled_in(SpecId::LONDON) { env(1).basefee } else { 0 };
    let truth = truth(genesis, spec, fees, &[(BlockEnv { basefee, ..env(1) }, txs.to_vec())]);
    let builder = builder().with_cfg(cfg(spec)).with_rules(rules(fees));
    let mut first = None;
    let run = |way| {
        let ours = ran(builder.clone(), genesis, way, txs);
        let what = format!("{what}, {way:?}");
        for (index, (ours, truth)) in ours.outcomes.iter().zip(&truth.outcomes).enumerate() {
            assert_eq!(ours, truth, "transaction {index}, {what}");
        }
        assert_eq!(ours.outcomes.len(), truth.outcomes.len(), "{what}");
        compare(&ours.engine, &truth, &what);
        assert_eq!(*first.get_or_insert(ours.root), ours.root, "{what}");
        ours
    };
    ways().into_iter().map(run).collect()
}

#[test]
fn random_blocks_equal_a_loop_with_its_own_handler() {
    let genesis = genesis();
    let seeds = std::env::var("PHALANX_RULES_SEEDS").map_or(3, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        for (looks, data) in [(0, None), (12, Some(DATA)), (60, Some(TREASURY)), (5, None)] {
            let fees = Fees { data, ..FEES };
            let txs = transactions(seed, 120, looks);
            prove(&genesis, SpecId::OSAKA, fees, &txs, &format!("seed {seed}, {looks} %, {data:?}"));
        }
    }
}

/// A recipient that is destroyed loses its payment, one that is the beneficiary gets both, one that is empty comes to life.
#[test]
fn unusual_recipients_are_paid_alike() {
    // `selfdestruct(caller)`
    let boom = contract(0xb1, &[CALLER, SELFDESTRUCT]);
    let hollow = GenesisAccount { address: DATA, ..GenesisAccount::default() };
    for spec in [SpecId::HOMESTEAD, SpecId::LONDON, SpecId::SHANGHAI, SpecId::OSAKA] {
        let mut genesis: Vec<_> = genesis().into_iter().filter(|account| account.address != VAULT).collect();
        genesis.extend([boom.clone(), hollow.clone()]);
        for vault in [VAULT, COINBASE, Address::repeat_byte(3)] {
            let legacy = |tx: TxEnv| TxEnv { tx_type: 0, gas_priority_fee: None, ..tx };
            let mut txs: Vec<_> = transactions(9, 60, 20).into_iter().filter(|tx| tx.tx_type != 0x7e).collect();
            // Nonces have gaps without the forced ones.
            let mut nonces = [0u64; 256];
            for tx in &mut txs {
                let nonce = &mut nonces[usize::from(tx.caller[0])];
                tx.nonce = *nonce;
                *nonce += u64::from(tx.value < U256::from(ETHER) && tx.gas_limit > 21_000);
            }
            let txs: Vec<_> = txs.into_iter().map(legacy).collect();
            let fees = Fees { vault, ..FEES };
            prove(&genesis, spec, fees, &txs, &format!("{spec:?}, {vault}"));
        }
    }
}

#[test]
fn a_payment_that_would_overflow_is_not_made() {
    for room in [0u64, 100_000, 400_000, 900_000] {
        for full in [TREASURY, VAULT, DATA] {
            let mut genesis: Vec<_> = genesis().into_iter().filter(|account| account.address != full).collect();
            let balance = U256::MAX - U256::from(room);
            genesis.push(GenesisAccount { address: full, balance, nonce: 1, ..GenesisAccount::default() });
            let txs: Vec<_> = (1..=30).map(|from| call(from, 0, COUNTER, 0)).collect();
            prove(&genesis, SpecId::OSAKA, FEES, &txs, &format!("{full} has room for {room}"));
        }
    }
}

/// The rules cost no parallelism: chains, escapes and repeated executions are those of the same block without.
#[test]
fn shares_cost_no_parallelism() {
    let genesis = genesis();
    let txs: Vec<_> = (0..160u64)
        .map(|index| {
            let from = 1 + (index % 39) as u8;
            let to = if index % 3 == 0 { COUNTER } else { Address::repeat_byte(0x80 + (index % 13) as u8) };
            call(from, index / 39, to, u64::from(index % 3 != 0))
        })
        .collect();
    for data in [None, Some(DATA)] {
        let with = rules(Fees { data, ..FEES });
        for threads in [1, 2, 4] {
            for seed in [None, Some(3)] {
                let of = |executor, rules: &ChainRules| {
                    let builder = builder().with_rules(rules.clone());
                    ran(builder, &genesis, (executor, threads, seed), &txs).stats
                };
                let key = |stats: RunStats| (stats.critical_path, stats.escapes, stats.reexecutions, stats.fallback);
                let plain = ChainRules::new();
                let [ours, without] = [&with, &plain].map(|rules| key(of(Executor::Dag, rules)));
                assert_eq!(ours, without, "{threads} threads, {seed:?}, {data:?}");
                assert_eq!(
                    (ours.1, ours.3),
                    (0, threads == 1),
                    "it runs on the DAG, unless one thread predicts in vain"
                );
                let [ours, without] = [&with, &plain].map(|rules| of(Executor::BlockStm, rules));
                if seed.is_none() && threads == 1 {
                    assert_eq!(ours.reexecutions, without.reexecutions);
                }
                assert!(ours.reexecutions <= 5 * txs.len(), "{ours:?}");
            }
        }
        let limits = BlockLimits { max_txs: 70, max_gas: u64::MAX };
        let [ours, without] = [&with, &ChainRules::new()].map(|rules| {
            let builder = builder().with_rules(rules.clone()).with_threads(2);
            let ran = crate::kit::run(builder, &genesis, &txs, Order::Free, limits, env);
            (ran.blocks.len(), ran.escapes, ran.fallbacks, ran.reexecutions, ran.alone)
        });
        assert_eq!(ours, without, "{data:?}");
        // Block-STM without chains of senders: nothing depends on anything.
        let apart: Vec<_> = (1..=39).map(|from| call(from, 0, COUNTER, 0)).collect();
        for threads in [1, 2, 4] {
            let builder = builder().with_rules(with.clone());
            let ran = ran(builder, &genesis, (Executor::BlockStm, threads, None), &apart);
            assert_eq!(ran.stats.reexecutions, 0, "{threads} threads, {data:?}");
        }
    }
}

/// A planner's blocks, in free and in given order, with transactions that escape.
#[test]
fn planned_blocks_equal_the_loop() {
    let genesis = genesis();
    for (seed, looks) in [(21, 0), (22, 25)] {
        // Forced transactions have places of their own; a planner has none for them.
        let txs: Vec<_> = transactions(seed, 200, looks)
            .into_iter()
            .filter(|tx| tx.tx_type != 0x7e && tx.value < U256::from(ETHER) && tx.gas_limit > 21_000)
            .collect();
        let mut nonces = [0u64; 256];
        let txs: Vec<_> = txs
            .into_iter()
            .map(|tx| {
                let nonce = &mut nonces[usize::from(tx.caller[0])];
                *nonce += 1;
                TxEnv { nonce: *nonce - 1, ..tx }
            })
            .collect();
        for order in [Order::Free, Order::Given] {
            for threads in [1, 2, 4] {
                let limits = BlockLimits { max_txs: 70, max_gas: u64::MAX };
                let builder = builder().with_rules(rules(FEES)).with_threads(threads);
                let ran = crate::kit::run(builder, &genesis, &txs, order, limits, env);
                let blocks = (1..).zip(&ran.blocks).map(|(number, block)| {
                    let txs = block.order.iter().map(|tx| txs[*tx as usize].clone());
                    (env(number), txs.collect::<Vec<_>>())
                });
                let truth = truth(&genesis, SpecId::OSAKA, FEES, &blocks.collect::<Vec<_>>());
                let outcomes: Vec<_> = ran.outcomes().map(|(_, outcome)| outcome.clone()).collect();
                assert_eq!(outcomes, truth.outcomes, "seed {seed}, {order:?}, {threads} threads");
                compare(&ran.engine, &truth, &format!("seed {seed}, {order:?}, {threads} threads"));
            }
        }
    }
}

#[test]
fn a_sender_pays_the_extra_fee_or_its_transaction_is_invalid() {
    let tx = call(1, 0, COUNTER, 0);
    let most = U256::from(300_000u64 * 100) + data_fee(&tx);
    for (balance, pays) in [(most, true), (most - U256::ONE, false)] {
        let mut genesis: Vec<_> = genesis();
        genesis[0].balance = balance;
        for ran in prove(&genesis, SpecId::OSAKA, FEES, &[tx.clone(), call(2, 0, COUNTER, 0)], "one wei") {
            assert_eq!(ran.outcomes[0].is_success(), pays);
            if let Outcome::Skipped(reason) = &ran.outcomes[0] {
                assert!(matches!(reason, InvalidTransaction::LackOfFundForMaxFee { .. }), "{reason}");
            }
        }
    }
}

#[test]
fn rules_that_contradict_themselves_and_unasked_forced_transactions_are_refused() {
    let twice = ChainRules::new().with_tip_share(TREASURY, 9_000).with_tip_share(VAULT, 1_001);
    let error = builder().with_rules(twice).build().expect_err("more than the tip");
    assert!(matches!(&error, Error::Configuration { what } if what.contains("10001 parts")), "{error}");
    let forced = ForcedTx { from: DATA, mint: 5, ..ForcedTx::default() }.env();
    let rules = ChainRules::new().with_tip_share(TREASURY, 1);
    for way in ways() {
        let ran = ran(builder().with_rules(rules.clone()), &genesis(), way, core::slice::from_ref(&forced));
        assert!(matches!(&ran.outcomes[0], Outcome::Skipped(InvalidTransaction::Str(_))), "{:?}", ran.outcomes);
    }
}
