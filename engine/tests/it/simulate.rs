//! Calls, gas estimates and access lists on states of an engine, against stock revm.

use crate::kit::{Asked, Asm, Fails, World};
use phalanx::{
    Engine, GenesisAccount, Hints, RecoveredBlock, SnapshotAt, StateSnapshot,
    alloy::{consensus::Header, eips::eip2930::AccessListItem},
    chain::ChainSpec,
    revm::{
        Context, ExecuteEvm as _, Inspector, MainBuilder as _, MainContext as _,
        bytecode::opcode::{
            BALANCE, BASEFEE, BLOBBASEFEE, CALLER, EXTCODESIZE, GAS, GT, INVALID, ISZERO, LT, MSTORE, PC, POP, RETURN,
            SLOAD, SSTORE,
        },
        context::TxEnv,
        context_interface::result::{HaltReason, InvalidTransaction},
        database_interface::WrapDatabaseRef,
        interpreter::{Interpreter, interpreter_types::Jumps as _},
        primitives::{Address, B256, Bytes, TxKind, U256, hardfork::SpecId},
    },
    simulate::{ACCESS_LIST_ROUNDS, ESTIMATE_TOLERANCE, SimulateError, Simulator},
};
use std::collections::BTreeMap;

const RICH: Address = Address::repeat_byte(1);
const POOR: Address = Address::repeat_byte(2);
const OTHER: Address = Address::repeat_byte(0x0e);

const fn at(byte: u8) -> Address {
    Address::repeat_byte(byte)
}

fn code(byte: u8, code: Asm) -> GenesisAccount {
    let address = at(byte);
    GenesisAccount { address, nonce: 1, balance: U256::from(5), code: Some(code.bytes()), ..Default::default() }
}

/// Returns the word on the stack.
fn gives(code: Asm) -> Asm {
    code.push(U256::ZERO).op(MSTORE).push(U256::from(32)).push(U256::ZERO).op(RETURN)
}

const SETS: u8 = 0xa0;
const CLEARS: u8 = 0xa1;
const NESTS: u8 = 0xa2;
const REVERTS: u8 = 0xa3;
const INVALIDS: u8 = 0xa4;
const SPENDS: u8 = 0xa5;
const SHY: u8 = 0xa6;
const LOOKS: u8 = 0xa7;
const TELLS: u8 = 0xa8;
const SENDS: u8 = 0xa9;
const NEEDS: u8 = 0xaa;
const BLOBS: u8 = 0xab;
const DELEGATES: u8 = 0xac;

fn accounts() -> Vec<GenesisAccount> {
    let mut clears = code(CLEARS, Asm::new().set(0, 0).set(1, 0).set(2, 0));
    clears.storage = (0..3).map(|slot| (U256::from(slot), U256::from(9))).collect();
    let nests = Asm::new().call(0xf1, at(SETS), 0, 60_000).op(ISZERO).when(|code| code.op(INVALID));
    let reverts = Asm::new().push(U256::from(7)).push(U256::ZERO).op(MSTORE);
    let reverts = reverts.push(U256::from(32)).push(U256::ZERO).op(0xfd);
    // Needs to have 50,000 gas, and does not use it.
    let spends = Asm::new().push(U256::from(50_000)).op(GAS).op(LT).when(|code| code.op(INVALID));
    // Fails with more than a million.
    let shy = Asm::new().push(U256::from(1_000_000)).op(GAS).op(GT).when(|code| code.op(INVALID));
    let looks = Asm::new().load(3).op(POP).load(4).op(POP).addr(OTHER).ops(&[BALANCE, POP]).addr(at(SETS));
    let looks = looks.ops(&[EXTCODESIZE, POP]).call(0xf1, at(CLEARS), 0, 100_000).op(POP);
    let tells = gives(Asm::new().op(BASEFEE));
    let sends = Asm::new().call(0xf1, OTHER, 1, 0).op(ISZERO).when(|code| code.op(INVALID));
    // Needs to have 20 million gas.
    let needs = Asm::new().push(U256::from(20_000_000)).op(GAS).op(LT).when(|code| code.op(INVALID));
    let blobs = gives(Asm::new().op(BLOBBASEFEE));
    let delegates = Bytes::from([&[0xef, 0x01, 0x00][..], at(SETS).as_slice()].concat());
    let balance = U256::from(10).pow(U256::from(20));
    vec![
        GenesisAccount { address: RICH, balance, ..Default::default() },
        GenesisAccount { address: POOR, balance: U256::from(1_000_000_000), ..Default::default() },
        code(SETS, Asm::new().set(0, 1).set(1, 2)),
        clears,
        code(NESTS, nests),
        code(REVERTS, reverts),
        code(INVALIDS, Asm::new().op(INVALID)),
        code(SPENDS, spends),
        code(SHY, shy),
        code(LOOKS, looks),
        code(TELLS, tells),
        code(SENDS, sends),
        code(NEEDS, needs),
        code(BLOBS, blobs),
        GenesisAccount { address: at(DELEGATES), nonce: 1, code: Some(delegates), ..Default::default() },
    ]
}

fn header() -> Header {
    Header {
        number: 1,
        timestamp: 12,
        gas_limit: 30_000_000,
        base_fee_per_gas: Some(7),
        excess_blob_gas: Some(0),
        blob_gas_used: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        beneficiary: at(0xbe),
        ..Header::default()
    }
}

fn engine(fork: &str) -> Engine {
    let chain = ChainSpec::named(fork).expect("a fork");
    let mut engine = Engine::builder().with_chain(chain).build().expect("an engine");
    engine.genesis(accounts()).expect("a genesis");
    engine
}

fn simulator(fork: &str) -> Simulator<StateSnapshot> {
    let engine = engine(fork);
    let (rules, env) = engine.rules_of(&header());
    Simulator::new(rules, env, engine.snapshot(SnapshotAt::Committed).expect("a state"))
}

fn call(from: Address, to: u8) -> TxEnv {
    TxEnv { caller: from, kind: TxKind::Call(at(to)), gas_limit: 30_000_000, ..TxEnv::default() }
}

#[test]
fn calls_give_what_stock_revm_gives() {
    let engine = engine("Osaka");
    let simulator = simulator("Osaka");
    let (rules, env) = engine.rules_of(&header());
    for to in [SETS, CLEARS, NESTS, REVERTS, INVALIDS, SPENDS, SHY, LOOKS, SENDS, 0x0e] {
        for gas_limit in [25_000, 60_000, 100_000, 16_000_000] {
            let tx = TxEnv { gas_limit, gas_price: 100, ..call(RICH, to) };
            let context = Context::mainnet().with_db(WrapDatabaseRef(engine.state())).with_cfg(rules.cfg.clone());
            let mut evm = context.with_block(env.clone()).build_mainnet();
            let truth = evm.transact_one(tx.clone());
            match truth {
                Ok(truth) => {
                    let called = simulator.call(&tx).expect("a valid call");
                    assert_eq!(called.result, truth, "{to:x} with {gas_limit}");
                    let mut state = evm.finalize();
                    // The beneficiary is not paid.
                    state.remove(&at(0xbe));
                    let touched = |state: &phalanx::revm::state::EvmState| {
                        let touched = state.iter().filter(|(_, account)| account.is_touched());
                        touched.map(|(address, account)| (*address, account.info.clone())).collect::<BTreeMap<_, _>>()
                    };
                    assert_eq!(touched(&called.state), touched(&state));
                }
                Err(error) => {
                    let ours = simulator.call(&tx).expect_err("an invalid call").to_string();
                    assert!(error.to_string().ends_with(ours.trim_start_matches("the call is invalid: ")), "{ours}");
                }
            }
        }
    }
}

#[test]
fn a_call_needs_no_signature() {
    let simulator = simulator("Osaka");
    // Any nonce, a contract as the sender, more gas than a transaction may have, a sender without money.
    for (from, nonce) in [(RICH, 77), (at(SETS), 0), (at(0x99), 5)] {
        let tx = TxEnv { nonce, gas_limit: 29_000_000, chain_id: Some(99), ..call(from, SETS) };
        assert!(simulator.call(&tx).expect("a valid call").result.is_success());
    }
    // The same sender as receiver sees its own code.
    let called = simulator.call(&call(at(TELLS), TELLS)).expect("a valid call");
    assert_eq!(called.result.output().map(|output| U256::from_be_slice(output)), Some(U256::ZERO));
    // A call with a price sees the base fee, and pays.
    let paid = TxEnv { gas_price: 9, ..call(RICH, TELLS) };
    let called = simulator.call(&paid).expect("a valid call");
    assert_eq!(called.result.output().map(|output| U256::from_be_slice(output)), Some(U256::from(7)));
    let cheap = TxEnv { gas_price: 6, ..call(RICH, TELLS) };
    let refused = simulator.call(&cheap);
    assert!(matches!(refused, Err(SimulateError::Invalid(InvalidTransaction::GasPriceLessThanBasefee))));
    let poor = TxEnv { gas_price: 100, ..call(POOR, TELLS) };
    let refused = simulator.call(&poor);
    assert!(matches!(refused, Err(SimulateError::Invalid(InvalidTransaction::LackOfFundForMaxFee { .. }))));
    let rich = TxEnv { value: U256::from(2_000_000_000u64), ..call(POOR, 0x0e) };
    assert!(simulator.call(&rich).is_err(), "it has less than it sends");
}

/// Least gas limit with which a call succeeds, by trying.
fn least(simulator: &Simulator<StateSnapshot>, tx: &TxEnv) -> u64 {
    let succeeds = |gas_limit: u64| {
        simulator.call(&TxEnv { gas_limit, ..tx.clone() }).is_ok_and(|called| called.result.is_success())
    };
    let (mut low, mut high) = (0, 1_000_000);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if succeeds(middle) { high = middle } else { low = middle }
    }
    high
}

#[test]
fn estimates_suffice_and_are_as_close_as_asked() {
    let simulator = simulator("Osaka");
    let with = |to, data: Bytes| TxEnv { data, ..call(RICH, to) };
    let init = Bytes::from_static(&[0x60, 0x01, 0x5f, 0x55, 0x60, 0x01, 0x5f, 0xf3]);
    let create = TxEnv { kind: TxKind::Create, data: init, ..call(RICH, 0) };
    let sha256 =
        TxEnv { kind: TxKind::Call(Address::with_last_byte(2)), data: Bytes::from(vec![1; 64]), ..call(RICH, 0) };
    // Its data costs more than its execution (EIP-7623).
    let floor = with(0x0e, Bytes::from(vec![7; 1000]));
    let paid = TxEnv { gas_price: 50, value: U256::from(1), ..call(RICH, 0x0e) };
    let txs = [call(RICH, SETS), call(RICH, CLEARS), call(RICH, NESTS), call(RICH, SPENDS)];
    for tx in txs.into_iter().chain([call(RICH, SENDS), create, sha256, floor, paid, call(POOR, 0x0e)]) {
        let least = least(&simulator, &tx);
        let exact = simulator.estimate_gas_within(&tx, 0.0).expect("it can succeed");
        assert_eq!(exact, least, "{tx:?}");
        let estimate = simulator.estimate_gas(&tx).expect("it can succeed");
        let most = least as f64 / (1.0 - ESTIMATE_TOLERANCE) + 1.0;
        assert!(estimate >= least && (estimate as f64) <= most, "{estimate} for {least}");
    }
    // A plain transfer takes what a transfer takes.
    assert_eq!(simulator.estimate_gas(&call(POOR, 0x0e)).expect("it can succeed"), 21_000);
}

#[test]
fn estimates_of_a_call_that_fails_with_more_gas_succeed() {
    let simulator = simulator("Osaka");
    // With all gas it fails, as in geth.
    assert!(matches!(
        simulator.estimate_gas(&call(RICH, SHY)),
        Err(SimulateError::Halted { reason: HaltReason::InvalidFEOpcode })
    ));
    let tx = TxEnv { gas_limit: 900_000, ..call(RICH, SHY) };
    let estimate = simulator.estimate_gas(&tx).expect("it can succeed");
    let tried = simulator.call(&TxEnv { gas_limit: estimate, ..tx }).expect("a valid call");
    assert!(tried.result.is_success());
}

#[test]
fn what_no_gas_makes_succeed_is_told() {
    let simulator = simulator("Osaka");
    let SimulateError::Reverted { output } = simulator.estimate_gas(&call(RICH, REVERTS)).expect_err("it reverts")
    else {
        panic!("another reason")
    };
    assert_eq!(U256::from_be_slice(&output), U256::from(7));
    let halts = simulator.estimate_gas(&call(RICH, INVALIDS)).expect_err("it halts");
    assert!(matches!(halts, SimulateError::Halted { .. }), "{halts}");
    for gas_limit in [0, 20_999, 40_000] {
        let tx = TxEnv { gas_limit, ..call(RICH, SETS) };
        let refused = simulator.estimate_gas(&tx).expect_err("too little");
        assert!(matches!(refused, SimulateError::GasAllowance { allowance } if allowance == gas_limit), "{refused}");
    }
    // 1,000,000,000 wei pay for 50,000 gas at this price.
    let poor = TxEnv { gas_price: 20_000, ..call(POOR, SETS) };
    let refused = simulator.estimate_gas(&poor).expect_err("too poor");
    assert!(matches!(refused, SimulateError::GasAllowance { allowance: 50_000 }), "{refused}");
    let poor = TxEnv { gas_price: 20_000, value: U256::from(1_000_000_001), ..call(POOR, 0x0e) };
    let refused = simulator.estimate_gas(&poor).expect_err("too poor");
    assert!(matches!(refused, SimulateError::Invalid(InvalidTransaction::LackOfFundForMaxFee { .. })), "{refused}");
    let poor = TxEnv { gas_price: 40_000, ..call(POOR, 0x0e) };
    assert_eq!(simulator.estimate_gas(&poor).expect("it can pay for a transfer"), 21_000);
}

#[test]
fn estimates_keep_the_limit_of_a_transaction() {
    let simulator = simulator("Osaka");
    let needs = TxEnv { gas_limit: 29_000_000, ..call(RICH, NEEDS) };
    // In Osaka at most 2^24 are given.
    let refused = simulator.estimate_gas(&needs).expect_err("it needs more");
    assert!(refused.to_string().contains("halts"), "{refused}");
    let before = self::simulator("Prague").estimate_gas(&needs).expect("it can succeed");
    assert!((20_000_000..21_000_000).contains(&before), "{before}");
    let tx = TxEnv { gas_limit: u64::MAX, ..call(RICH, SETS) };
    assert!(simulator.estimate_gas(&tx).expect("it can succeed") < 100_000);
}

/// Only transactions with blobs and no price for them lower it.
#[test]
fn a_call_without_blobs_sees_the_price_of_blobs() {
    let simulator = simulator("Osaka");
    for gas_price in [0, 100] {
        let called = simulator.call(&TxEnv { gas_price, ..call(RICH, BLOBS) }).expect("a valid call");
        assert_eq!(called.result.output().map(|word| U256::from_be_slice(word)), Some(U256::ONE), "price {gas_price}");
    }
}

#[test]
fn the_delegate_of_a_receiver_is_warm() {
    let listed = simulator("Osaka").create_access_list(&call(RICH, DELEGATES)).expect("a valid call");
    assert!(listed.result.is_success());
    let storage_keys = (0..2).map(|slot| B256::from(U256::from(slot))).collect();
    assert_eq!(*listed.access_list, [AccessListItem { address: at(DELEGATES), storage_keys }]);
}

#[test]
fn access_lists_hold_what_is_cold() {
    let simulator = simulator("Osaka");
    let listed = simulator.create_access_list(&call(RICH, LOOKS)).expect("a valid call");
    assert!(listed.result.is_success());
    let slots = |slots: &[u64]| slots.iter().map(|slot| B256::from(U256::from(*slot))).collect::<Vec<_>>();
    let item = |address, storage_keys| AccessListItem { address, storage_keys };
    let expected = [
        item(OTHER, vec![]),
        item(at(SETS), vec![]),
        item(at(CLEARS), slots(&[0, 1, 2])),
        item(at(LOOKS), slots(&[3, 4])),
    ];
    assert_eq!(*listed.access_list, expected);
    // With the list, the same call uses just this gas, and touches nothing else.
    let tx = TxEnv { tx_type: 1, access_list: listed.access_list.clone(), ..call(RICH, LOOKS) };
    assert_eq!(simulator.call(&tx).expect("a valid call").result.tx_gas_used(), listed.gas_used);
    let again = simulator.create_access_list(&tx).expect("a valid call");
    assert_eq!((again.access_list, again.gas_used), (listed.access_list, listed.gas_used));
    // A list that the call came with stays part of it.
    let given = vec![item(at(0x55), slots(&[9]))];
    let tx = TxEnv { tx_type: 1, access_list: given.clone().into(), ..call(RICH, SETS) };
    let listed = simulator.create_access_list(&tx).expect("a valid call");
    assert!(listed.access_list.contains(&given[0]));
    assert!(listed.access_list.contains(&item(at(SETS), slots(&[0, 1]))));
    // Sender, receiver, precompiles, beneficiary and created accounts are warm anyway.
    let plain = [call(RICH, 0x0e), call(RICH, 0xbe)];
    let sha256 = TxEnv { kind: TxKind::Call(Address::with_last_byte(2)), ..call(RICH, 0) };
    let init = Bytes::from_static(&[0x60, 0x01, 0x5f, 0x55, 0x60, 0x01, 0x5f, 0xf3]);
    let create = TxEnv { kind: TxKind::Create, data: init, ..call(RICH, 0) };
    for tx in plain.into_iter().chain([sha256, create]) {
        let listed = simulator.create_access_list(&tx).expect("a valid call");
        assert!(listed.access_list.is_empty(), "{:?}", listed.access_list);
    }
    // A call that fails has one as well.
    let listed = simulator.create_access_list(&call(RICH, INVALIDS)).expect("a valid call");
    assert!(!listed.result.is_success() && listed.access_list.is_empty());
}

#[test]
fn access_lists_that_depend_on_themselves_end() {
    // Touches the slot of the gas that it has left: another one for every list.
    let mut engine =
        Engine::builder().with_chain(ChainSpec::named("Osaka").expect("a fork")).build().expect("an engine");
    let odd = code(0xd0, Asm::new().op(GAS).op(SLOAD).op(POP));
    let rich = GenesisAccount { address: RICH, balance: U256::from(10), ..Default::default() };
    engine.genesis([odd, rich]).expect("a genesis");
    let (rules, env) = engine.rules_of(&header());
    let simulator = Simulator::new(rules, env, engine.snapshot(SnapshotAt::Committed).expect("a state"));
    let listed = simulator.create_access_list(&call(RICH, 0xd0)).expect("a valid call");
    assert_eq!(listed.access_list[0].storage_keys.len(), ACCESS_LIST_ROUNDS - 1);
    let berlin = self::simulator("Istanbul");
    let refused = berlin.create_access_list(&call(RICH, SETS)).expect_err("no lists yet");
    assert!(matches!(refused, SimulateError::Invalid(InvalidTransaction::Eip2930NotSupported)), "{refused}");
}

#[test]
fn a_state_that_cannot_be_read_is_an_error() {
    let chain = ChainSpec::named("Osaka").expect("a fork");
    let world = World::new(&accounts(), &BTreeMap::new(), SpecId::OSAKA);
    let (rules, env) = (chain.cfg(SpecId::OSAKA, 12).into(), chain.env(&header()));
    let slot = phalanx::ForeignItem::Slot(at(CLEARS), U256::from(1));
    let broken = Asked::failing(&world, |item| if item == slot { Fails::Error } else { Fails::No });
    let simulator = Simulator::new(rules, env, broken);
    assert!(simulator.call(&call(RICH, SETS)).expect("it reads other slots").result.is_success());
    for error in [
        simulator.call(&call(RICH, CLEARS)).map(|_| ()).expect_err("it reads the slot"),
        simulator.estimate_gas(&call(RICH, CLEARS)).map(|_| ()).expect_err("it reads the slot"),
        simulator.create_access_list(&call(RICH, CLEARS)).map(|_| ()).expect_err("it reads the slot"),
    ] {
        assert!(matches!(error, SimulateError::State(_)), "{error}");
    }
}

/// Counts executed instructions.
#[derive(Debug, Default)]
struct Counts(BTreeMap<u8, u32>);

impl<C> Inspector<C> for Counts {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut C) {
        *self.0.entry(interpreter.bytecode.opcode()).or_default() += 1;
    }
}

#[test]
fn inspectors_watch_calls_on_older_states_while_the_chain_goes_on() {
    let engine = engine("Cancun");
    let (rules, env) = engine.rules_of(&header());
    let before = Simulator::new(rules, env, engine.snapshot(SnapshotAt::Committed).expect("a state"));
    let block = header();
    let contracts = [SETS, CLEARS];
    let tx =
        |(nonce, to): (usize, u8)| TxEnv { nonce: nonce as u64, gas_price: 100, gas_limit: 200_000, ..call(RICH, to) };
    let txs: Vec<_> = contracts.into_iter().enumerate().map(tx).collect();
    let mut engine = engine;
    let payload = RecoveredBlock { header: &block, txs: &txs, ommers: &[], withdrawals: Some(&[]) };
    let executed = engine.execute_block(&payload, Hints::None).expect("a valid block");
    let merkleized = engine.merkleize(executed).expect("a root");
    _ = engine.commit(merkleized).expect("a commit");
    let (rules, env) = engine.rules_of(&header());
    let after = Simulator::new(rules, env, engine.snapshot(SnapshotAt::Committed).expect("a state"));
    let [(old, counted), (new, _)] =
        [&before, &after].map(|simulator| simulator.inspect(&call(RICH, SETS), Counts::default()).expect("valid"));
    assert_eq!(counted.0[&SSTORE], 2);
    assert_eq!(counted.0.get(&PC), None);
    assert_eq!(counted.0.get(&CALLER), None);
    assert!(old.result.tx_gas_used() > new.result.tx_gas_used() + 30_000, "the slots are set by then");
}
