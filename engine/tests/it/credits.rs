//! Credits to contracts: a call does not wait for payments to its contract, and a read of the balance sees every
//! payment before.

use crate::kit::{builder, call, contract, env, eoa};
use phalanx::{
    Engine, Executor, GenesisAccount, Invalid, Outcome,
    revm::{
        context::TxEnv,
        primitives::{Address, B256, U256},
    },
};

const AT: Address = Address::repeat_byte(0xee);

/// With calldata `sstore(calldataload(0), selfbalance())`, without calldata nothing.
const LOOKS_IF_ASKED: [u8; 11] = [0x36, 0x15, 0x60, 0x09, 0x57, 0x47, 0x5f, 0x35, 0x55, 0x5b, 0x00];

struct Ran {
    outcomes: Vec<Outcome>,
    root: B256,
    reexecutions: usize,
    engine: Engine,
}

fn run(executor: Executor, threads: usize, seed: Option<u64>, genesis: &[GenesisAccount], txs: &[TxEnv]) -> Ran {
    let builder = builder().with_executor(executor).with_threads(threads).with_schedule_seed(seed);
    let mut engine = builder.build().expect("an engine in memory");
    engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
    let executed = engine.execute_given(&env(1), txs, Invalid::Skip).expect("execution");
    let merkleized = engine.merkleize(executed).expect("a root");
    let root = merkleized.state_root();
    let committed = engine.commit(merkleized).expect("a commit");
    let reexecutions = committed.block.stats().run.reexecutions;
    Ran { outcomes: committed.block.into_outcomes().1, root, reexecutions, engine }
}

/// Runs the transactions on Block-STM in every way, and compares with sequential revm.
fn prove(genesis: &[GenesisAccount], txs: &[TxEnv]) -> Vec<Ran> {
    let truth = run(Executor::Sequential, 1, None, genesis, txs);
    let ways = [1, 2, 3, 4]
        .into_iter()
        .flat_map(|threads| core::iter::once((threads, None)).chain((0..12).map(move |seed| (threads, Some(seed)))));
    ways.map(|(threads, seed)| {
        let ours = run(Executor::BlockStm, threads, seed, genesis, txs);
        assert_eq!((&ours.outcomes, ours.root), (&truth.outcomes, truth.root), "{threads} threads, seed {seed:?}");
        ours
    })
    .collect()
}

fn people(contract: GenesisAccount) -> Vec<GenesisAccount> {
    (1..=60).map(eoa).chain([contract]).collect()
}

/// Balance of the contract.
fn balance(ran: &Ran) -> U256 {
    ran.engine.state().account(&AT).expect("a state").expect("it is there").balance
}

/// A call whose data is a number.
fn asks(from: u8, nonce: u64, value: u64, slot: u64) -> TxEnv {
    TxEnv { data: U256::from(slot).to_be_bytes_vec().into(), ..call(from, nonce, AT, value) }
}

#[test]
fn calls_and_payments_commute() {
    let genesis = people(contract(0xee, &LOOKS_IF_ASKED));
    let txs: Vec<_> = (1..=60).map(|from| call(from, 0, AT, u64::from(from % 3))).collect();
    for ran in prove(&genesis, &txs) {
        assert_eq!(ran.reexecutions, 0, "no transaction reads the balance");
        assert_eq!(balance(&ran), U256::from(60));
        assert!(ran.outcomes.iter().all(Outcome::is_success));
    }
}

#[test]
fn a_read_sees_every_payment_before_it() {
    let genesis = people(contract(0xee, &LOOKS_IF_ASKED));
    let tx = |from: u8| match from % 5 {
        0 => asks(from, 0, u64::from(from % 2), from.into()),
        _ => call(from, 0, AT, 1),
    };
    let txs: Vec<_> = (1..=60).map(tx).collect();
    for ran in prove(&genesis, &txs) {
        let seen = ran.engine.state().storage(&AT, &U256::from(60)).expect("a word");
        assert_eq!(seen, U256::from(48 + 6), "48 payments, and every second of the reading calls pays");
    }
}

/// A payment that overflows the balance fails where it is made; all payments before decide whether it does.
#[test]
fn overflowing_payments_fail_at_their_place() {
    for room in [0u64, 7, 20, 30] {
        let full = GenesisAccount { balance: U256::MAX - U256::from(room), ..contract(0xee, &LOOKS_IF_ASKED) };
        let genesis = people(full);
        let tx = |from: u8| match from % 7 {
            0 => asks(from, 0, 2, from.into()),
            3 => call(from, 0, AT, 0),
            _ => call(from, 0, AT, 3),
        };
        let txs: Vec<_> = (1..=25).map(tx).collect();
        let paid = prove(&genesis, &txs).remove(0).outcomes.iter().filter(|outcome| outcome.is_success()).count();
        assert!(paid < 25, "{room}: some overflow");
    }
}

/// The contract pays back half of its balance, which depends on all payments before.
#[test]
fn a_contract_that_sends_value_reads_its_balance() {
    // `call(gas, caller, selfbalance / 2, 0, 0, 0, 0)`
    let sends = [0x5f, 0x5f, 0x5f, 0x5f, 0x60, 2, 0x47, 0x04, 0x33, 0x5a, 0xf1, 0x00];
    // The same with a fixed sum: the call itself is the only read.
    let pays = [0x5f, 0x5f, 0x5f, 0x5f, 0x60, 3, 0x33, 0x5a, 0xf1, 0x5f, 0x35, 0x55, 0x00];
    for code in [&sends[..], &pays] {
        let txs: Vec<_> = (1..=40).map(|from| asks(from, 0, u64::from(from % 5), from.into())).collect();
        let ran = prove(&people(contract(0xee, code)), &txs);
        assert!(balance(&ran[0]) < U256::from(80), "some was paid back");
    }
}

/// A transfer that overflows uses all gas of its frame and returns its value to the sender. This holds also where the
/// frame would have failed on its own and leaves no change.
#[test]
fn a_reverted_payment_fails_at_its_place() {
    // Reverts with calldata, keeps the payment without.
    let reverts_if_asked = [0x36, 0x15, 0x60, 0x08, 0x57, 0x5f, 0x5f, 0xfd, 0x5b, 0x00];
    // `sstore(calldataload(0), call(50000, AT, callvalue, 0, 1, 0, 0))`: passes its payment on and stores the result.
    let hands_on =
        [&[0x5f, 0x5f, 0x60, 1, 0x5f, 0x34, 0x73], AT.as_slice(), &[0x61, 0xc3, 0x50, 0xf1, 0x5f, 0x35, 0x55, 0]];
    let between = contract(0xdd, &hands_on.concat());
    let mut failed = 0;
    for room in [0u64, 2, 3, 4, 8, 60] {
        let full = GenesisAccount { balance: U256::MAX - U256::from(room), ..contract(0xee, &reverts_if_asked) };
        let genesis: Vec<_> = people(full).into_iter().chain([between.clone()]).collect();
        let tx = |from: u8| match from % 4 {
            0 => asks(from, 0, 3, from.into()),
            1 => call(from, 0, AT, 1),
            2 => TxEnv { kind: between.address.into(), ..asks(from, 0, 3, from.into()) },
            _ => TxEnv { kind: between.address.into(), ..asks(from, 0, 0, from.into()) },
        };
        let txs: Vec<_> = (1..=12).map(tx).collect();
        let halted =
            |outcome: &Outcome| outcome.result().is_some_and(phalanx::revm::context::result::ExecutionResult::is_halt);
        failed += prove(&genesis, &txs)[0].outcomes.iter().filter(|outcome| halted(outcome)).count();
    }
    assert!(failed > 10, "{failed} overflow");
}
