//! Exceptions: the small artefact, with the access sets of transactions that no rule predicts.

use crate::kit::{Asm, Case, Hint, Way, call, contract, eoa};
use phalanx::{
    Hints, Outcome, RunStats,
    revm::{
        bytecode::opcode::{ADD, CALLER, DUP1, SHL, SLOAD, SSTORE, SWAP1},
        context::TxEnv,
        primitives::{Address, U256},
    },
};

const fn at(byte: u8) -> Address {
    Address::repeat_byte(byte)
}

/// Transfers, and calls that write to the slot after the one that the previous call wrote.
fn case() -> Case {
    let code = Asm::new().load(0).push(U256::ONE).op(ADD).op(DUP1).store(0);
    let code = code.push(U256::from(100)).op(ADD).push(U256::ONE).op(SWAP1).op(0x55);
    let calls = (2..=6).map(|from| call(from, 0, at(0xc1), 0));
    let transfers = (0..20u64).map(|nonce| call(1, nonce, at(0xd0), 1));
    Case::new("Prague").with((1..=9).map(eoa)).with([contract(0xc1, &code.build())]).block(transfers.chain(calls))
}

fn stats(case: &Case, hints: Hints<'_>) -> RunStats {
    let mut engine = case.engine(&Way::dag(2, Hint::Predict));
    let executed = engine.execute_block(&case.blocks[0].payload(), hints).expect("a valid block");
    executed.block().stats().run
}

#[test]
fn only_unpredicted_sets_are_sent_and_no_transaction_escapes() {
    let case = case();
    case.prove();
    let mut engine = case.engine(&Way::sequential());
    let body = &case.blocks[0];
    let exceptions = engine.exceptions(&body.payload()).expect("a valid block");
    // Of five calls: sender, contract, two slots each.
    assert!(exceptions.len() < 200, "{}", exceptions.len());
    let told = stats(&case, Hints::Exceptions(&exceptions));
    assert_eq!((told.escapes, told.reexecutions, told.fallback), (0, 0, false));
    let alone = stats(&case, Hints::Predict);
    assert!(alone.escapes > 0 || alone.fallback, "without exceptions the engine cannot know: {alone:?}");
    // Sets of transfers are derived.
    let transfers = Case { blocks: Vec::new(), ..case }.block((0..20u64).map(|nonce| call(1, nonce, at(0xd0), 1)));
    let mut engine = transfers.engine(&Way::sequential());
    let nothing = engine.exceptions(&transfers.blocks[0].payload()).expect("a valid block");
    assert_eq!(nothing, [2, 0, 0]);
    let told = stats(&transfers, Hints::Exceptions(&nothing));
    assert_eq!((told.escapes, told.fallback), (0, false));
}

#[test]
fn missing_or_malformed_exceptions_cost_only_time() {
    let case = case();
    let body = &case.blocks[0];
    let mut engine = case.engine(&Way::sequential());
    let exceptions = engine.exceptions(&body.payload()).expect("a valid block");
    let truth = engine.execute_block(&body.payload(), Hints::None).expect("a valid block");
    // No exceptions, then bytes that are no exceptions at all.
    for bytes in [&[1, 0, 0][..], &exceptions[..exceptions.len() - 1], &[], &[2], &[0xff; 40]] {
        let mut engine = case.engine(&Way::dag(2, Hint::Exceptions));
        let ours = engine.execute_block(&body.payload(), Hints::Exceptions(bytes)).expect("a valid block");
        assert_eq!(ours.block().outcomes(), truth.block().outcomes());
        assert_eq!(ours.block().access_list(), truth.block().access_list());
    }
}

/// Calls that use much storage, much of it in common: every key is in the exceptions once, as in the access list.
#[test]
fn exceptions_of_a_storage_heavy_block_are_no_longer_than_its_access_list() {
    // Reads and counts up 12 slots in common, and 8 behind `caller * 2^8`.
    let mut code = Asm::new();
    for slot in 0..12u64 {
        code = code.count(slot);
    }
    for slot in 0..8u8 {
        code = code.op(CALLER).push(U256::from(8)).op(SHL).push(U256::from(slot)).op(ADD).op(DUP1).op(SLOAD);
        code = code.push(U256::ONE).op(ADD).op(SWAP1).op(SSTORE);
    }
    let txs = (0..48u8).map(|tx| call(1 + tx % 16, u64::from(tx / 16), at(0xc1), 0));
    let txs = txs.map(|tx| TxEnv { gas_limit: 520_000, ..tx });
    let case = Case::new("Prague").with((1..=16).map(eoa)).with([contract(0xc1, &code.build())]).block(txs);
    let payload = case.blocks[0].payload();
    let mut engine = case.engine(&Way::sequential());
    let exceptions = engine.exceptions(&payload).expect("a valid block");
    let executed = engine.execute_block(&payload, Hints::None).expect("a valid block");
    assert!(executed.block().outcomes().iter().all(Outcome::is_success));
    let list = executed.block().access_list().expect("a list").rlp().len();
    assert!(exceptions.len() <= list && exceptions.len() > 3_000, "{} bytes, the list has {list}", exceptions.len());
    let told = stats(&case, Hints::Exceptions(&exceptions));
    assert_eq!((told.escapes, told.fallback), (0, false), "no set is left out");
}
