//! Rules of Amsterdam, with numbers from the EIPs' texts. Each block runs in every way, so also from its access list.

use super::*;
use crate::kit::{COINBASE, Case};
use phalanx::{
    Outcome,
    revm::{
        bytecode::opcode::{ADDRESS, CREATE2, SELFDESTRUCT, SLOTNUM},
        context_interface::result::ExecutionResult,
        handler::SYSTEM_ADDRESS,
        primitives::{b256, keccak256},
    },
};

/// State gas of a new account: 120 bytes at 1530 (EIP-8037).
const NEW_ACCOUNT: u64 = 183_600;

/// State gas of a new slot: 64 bytes at 1530.
const NEW_SLOT: u64 = 97_920;

/// A rich gas limit.
fn wide(tx: TxEnv) -> TxEnv {
    TxEnv { gas_limit: 1_000_000, ..tx }
}

const fn result(outcome: &Outcome) -> &ExecutionResult {
    outcome.result().expect("a valid transaction")
}

#[test]
fn eip2780_a_transfer_costs_by_its_receiver() {
    let new = at(0xe7);
    let case = Case::new("Amsterdam").with(people()).with([holder(0xd0, 1)]);
    let proof = case
        .block([
            wide(pay(ALICE, 0, at(ALICE), 5)),
            wide(tx(ALICE, 1, at(BOB))),
            wide(pay(ALICE, 2, at(BOB), 5)),
            wide(pay(ALICE, 3, at(0xd0), 5)),
            wide(pay(ALICE, 4, new, 5)),
            // It exists by now.
            wide(pay(BOB, 0, new, 5)),
            // Without the state gas it runs out of gas, and is valid.
            TxEnv { gas_limit: 21_000 + NEW_ACCOUNT - 1, ..pay(BOB, 1, at(0xe8), 5) },
        ])
        .prove();
    let gas = [12_000, 15_000, 21_000, 21_000, 21_000 + NEW_ACCOUNT, 21_000, 21_000 + NEW_ACCOUNT - 1];
    for (index, gas) in gas.into_iter().enumerate() {
        assert_eq!(proof.gas(index), gas, "transaction {index}");
    }
    assert!(!proof.succeeded(6) && proof.account(at(0xe8)).is_none());
    assert_eq!(proof.balance(new), word(10));
}

#[test]
fn eip8037_the_larger_part_of_the_gas_is_the_blocks() {
    let new = |number: u8| wide(pay(ALICE, u64::from(number), at(0xe0 + number), 1));
    let proof = Case::new("Amsterdam").with(people()).block((0..4).map(new)).prove();
    assert_eq!(proof.last().gas_used, 4 * NEW_ACCOUNT);
    let paid: u64 = (0..4).map(|index| proof.gas(index)).sum();
    assert_eq!(paid, 4 * (21_000 + NEW_ACCOUNT), "receipts have what was paid");
    // The second part is full, so that a gas limit of the rest of the first does not fit.
    let block = (0..4).map(new).chain([TxEnv { gas_limit: 1_000_001, ..pay(BOB, 0, at(ALICE), 1) }]);
    let refused = Case::new("Amsterdam")
        .with(people())
        .block_with(block, |body| body.header.gas_limit = 1_000_000 + 4 * NEW_ACCOUNT)
        .prove();
    let why = refused.blocks[0].as_ref().expect_err("no room").clone();
    assert!(why.contains("GasLimit { index: 4, gas_limit: 1000001, left: 1000000 }"), "{why}");
}

#[test]
fn eip8037_a_gas_limit_above_the_cap_pays_for_state() {
    // 200 new slots take 19.6 million gas: more than 2^24.
    let fill = |count: u64| (0..count).fold(Asm::new(), |code, slot| code.set(slot, 1));
    let case = Case::new("Amsterdam").with(people()).with([code(0xc0, fill(200))]);
    let proof = case.block([TxEnv { gas_limit: 25_000_000, ..tx(ALICE, 0, at(0xc0)) }]).prove();
    assert!(proof.succeeded(0));
    assert_eq!(proof.last().gas_used, 200 * NEW_SLOT);
    assert!(proof.gas(0) > 200 * NEW_SLOT && proof.gas(0) - 200 * NEW_SLOT < 1 << 24);
}

#[test]
fn eip7778_refunds_are_the_payers_and_not_the_blocks() {
    let cleared = GenesisAccount { storage: vec![(word(0), word(1))], ..code(0xc0, Asm::new().set(0, 0)) };
    let proof = Case::new("Amsterdam").with(people()).with([cleared]).block([wide(tx(ALICE, 0, at(0xc0)))]).prove();
    let ExecutionResult::Success { gas, .. } = result(&proof.last().outcomes[0]) else { panic!("it succeeds") };
    assert!(gas.inner_refunded() > 0);
    assert_eq!(proof.last().gas_used, proof.gas(0) + gas.final_refunded());
}

#[test]
fn eip7708_every_moved_value_has_a_log() {
    let call = Asm::new().call(phalanx::revm::bytecode::opcode::CALL, at(BOB), 3, 100_000);
    let payer = GenesisAccount { balance: word(9), ..code(0xc0, call) };
    let proof = Case::new("Amsterdam")
        .with(people())
        .with([payer])
        .block([wide(pay(ALICE, 0, at(0xc0), 7)), wide(pay(ALICE, 1, at(ALICE), 7)), wide(tx(ALICE, 2, at(BOB)))])
        .prove();
    let topic = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
    let logs = result(&proof.last().outcomes[0]).logs();
    let moved = [(ALICE, 0xc0, 7), (0xc0, BOB, 3)];
    assert_eq!(logs.len(), moved.len());
    for (log, (from, to, amount)) in logs.iter().zip(moved) {
        assert_eq!(log.address, SYSTEM_ADDRESS);
        assert_eq!(log.topics(), [topic, at(from).into_word(), at(to).into_word()]);
        assert_eq!(log.data.data, Bytes::from(word(amount).to_be_bytes_vec()));
    }
    assert!(proof.last().outcomes[1..].iter().all(|outcome| result(outcome).logs().is_empty()));
}

#[test]
fn eip7843_the_slot_is_the_headers() {
    let case = Case::new("Amsterdam").with(people()).with([code(0xc0, Asm::new().op(SLOTNUM).store(0))]);
    let proof = case.block_with([wide(tx(ALICE, 0, at(0xc0)))], |body| body.header.slot_number = Some(123_456)).prove();
    assert_eq!(proof.slot(at(0xc0), 0), word(123_456));
}

#[test]
fn eip8246_what_a_destroyed_account_is_paid_stays_its_own() {
    let factory = code(0xfa, Asm::new().create_from_input(CREATE2).store(0));
    // Destroys itself in favour of itself.
    let init: Bytes = Asm::new().ops(&[ADDRESS, SELFDESTRUCT]).bytes();
    let born = at(0xfa).create2(B256::ZERO, keccak256(&init));
    let make = |nonce| TxEnv { data: init.clone(), gas_price: 103, ..wide(tx(ALICE, nonce, at(0xfa))) };
    for beneficiary in [COINBASE, born] {
        let proof = Case::new("Amsterdam")
            .with(people())
            .with([factory.clone()])
            .block_with([make(0), wide(pay(BOB, 0, at(CAROL), 1))], |body| body.header.beneficiary = beneficiary)
            .prove();
        assert!(proof.succeeded(0));
        let fees = word((proof.gas(0) * (103 - 7)) + proof.gas(1) * (PRICE - 7));
        assert_eq!(proof.balance(beneficiary), fees);
        let account = proof.account(born).map(|account| (account.nonce, account.code.clone()));
        assert_eq!(account, (beneficiary == born).then_some((0, None)), "a balance, and nothing else");
    }
    // Paid before it is destroyed: burnt until Osaka.
    for (fork, left) in [("Osaka", 0), ("Amsterdam", 5)] {
        let proof = Case::new(fork)
            .with(people())
            .with([GenesisAccount { balance: word(0), ..factory.clone() }, holder(0xd0, 1)])
            .block([wide(pay(BOB, 0, born, 5)), make(0)])
            .prove();
        assert_eq!(proof.balance(born), word(left), "{fork}");
    }
}

#[test]
fn eip8282_builder_requests_are_part_of_the_block() {
    let mut case = Case::new("Amsterdam").with(people());
    let contracts = case.rules.request_calls(phalanx::revm::primitives::hardfork::SpecId::AMSTERDAM);
    assert_eq!(contracts.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // Returns a word of ones.
    let answer = Asm::new().push(U256::MAX).push(0).op(0x52).push(32).push(0).op(0xf3).bytes();
    for (_, address) in &contracts[2..] {
        let account = case.genesis.iter_mut().find(|account| account.address == *address).expect("it is there");
        account.code = Some(answer.clone());
    }
    let missing = contracts[3].1;
    let proof = case.clone().block([wide(pay(ALICE, 0, at(BOB), 1))]).prove();
    let requests = proof.last().requests.as_ref().expect("requests");
    let kinds: Vec<(u8, usize)> =
        requests.iter().filter(|request| request.len() > 1).map(|request| (request[0], request.len())).collect();
    assert_eq!(kinds, [(3, 33), (4, 33)]);
    case.genesis.retain(|account| account.address != missing);
    let proof = case.block([wide(pay(ALICE, 0, at(BOB), 1))]).prove();
    let why = proof.blocks[0].as_ref().expect_err("a contract is missing");
    assert!(why.contains("has no code"), "{why}");
}

#[test]
fn a_block_before_the_fork_has_the_old_rules() {
    let case = Case::new("OsakaToAmsterdamAtTime132").with(people());
    let contracts = case.rules.request_calls(phalanx::revm::primitives::hardfork::SpecId::AMSTERDAM)[2..].iter();
    let contracts: Vec<_> = contracts.map(|(_, address)| contract_at(*address)).collect();
    // Blocks 10 and 11 are at 120 and 132 s.
    let proof = case
        .with(contracts)
        .block([wide(pay(ALICE, 0, at(0xe7), 5))])
        .block([wide(pay(ALICE, 1, at(0xe8), 5))])
        .prove();
    assert_eq!(proof.block(0).outcomes[0].gas_used(), 21_000);
    assert_eq!(proof.block(1).outcomes[0].gas_used(), 21_000 + NEW_ACCOUNT);
}

fn contract_at(address: Address) -> GenesisAccount {
    GenesisAccount { address, nonce: 1, code: Some(Bytes::from_static(&[0])), ..GenesisAccount::default() }
}
