//! Rules of Amsterdam, with numbers from the EIPs' texts. Each block runs in every way, so also from its access list.

use super::*;
use crate::kit::{COINBASE, Case, Hint, Way};
use alloy_eips::{eip4895::Withdrawal, eip7928::AccountChanges};
use alloy_rlp::Decodable as _;
use phalanx::{
    Hints, Outcome,
    access::{Access, AccessSets},
    paralyze::StateKey,
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

/// The payment was predicted, and ran, behind one that makes the account; in truth that one never happens.
#[test]
fn eip2780_a_payment_that_makes_the_account_after_all_costs_it() {
    let new = at(0xe7);
    // With calldata sets slot 0; without, pays the new account if slot 0 is zero.
    let pays = [
        &[0x36, 0x15, 0x60, 0x0a, 0x57, 0x5f, 0x35, 0x5f, 0x55, 0x00, 0x5b, 0x5f, 0x54, 0x60, 0x2e, 0x57][..],
        &[0x5f, 0x5f, 0x5f, 0x5f, 0x60, 0x05, 0x73],
        new.as_slice(),
        &[0x5a, 0xf1, 0x00, 0x5b, 0x00],
    ]
    .concat();
    let payer = GenesisAccount { balance: word(9), ..crate::kit::contract(0xc0, &pays) };
    let sets_slot = TxEnv { data: word(1).to_be_bytes_vec().into(), ..wide(tx(ALICE, 0, at(0xc0))) };
    let case = Case::new("Amsterdam").with(people()).with([payer]).block([
        sets_slot,
        wide(tx(BOB, 0, at(0xc0))),
        wide(pay(CAROL, 0, new, 5)),
    ]);
    let truth = case.prove();
    assert_eq!(truth.gas(2), 21_000 + NEW_ACCOUNT);
    let basic = StateKey::Basic;
    let mut sets = AccessSets::new();
    // The first one escapes at the slot.
    sets.push([(basic(at(ALICE)), Access::Write), (basic(at(0xc0)), Access::Read)]);
    let slot = StateKey::Slot(at(0xc0), word(0));
    let paid = [(slot, Access::Read), (basic(new), Access::Write)];
    sets.push([(basic(at(BOB)), Access::Write), (basic(at(0xc0)), Access::Write)].into_iter().chain(paid));
    sets.push([(basic(at(CAROL)), Access::Write), (basic(new), Access::Credit)]);
    for threads in [1, 2] {
        let mut engine = case.engine(&Way::dag(threads, Hint::None));
        let executed = engine.execute_block(&case.blocks[0].payload(), Hints::Sets(&sets)).expect("a valid block");
        assert!(executed.block().stats().run.reexecutions > 0, "nothing escaped");
        assert_eq!(executed.block().outcomes(), truth.last().outcomes, "{threads} threads");
    }
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
        // The same above a balance of an earlier block, and paid again.
        let rich = GenesisAccount { address: born, balance: word(5), ..GenesisAccount::default() };
        let blocks = |later: [TxEnv; 2]| {
            let case = Case::new(fork).with(people()).with([GenesisAccount { balance: word(0), ..factory.clone() }]);
            case.with([rich.clone()]).block([make(0)]).block(later).prove()
        };
        let proof = blocks([wide(pay(BOB, 0, born, 2)), make(1)]);
        assert_eq!(proof.balance(born), word(if left == 0 { 0 } else { 7 }), "{fork}");
        let proof = blocks([make(1), wide(pay(BOB, 0, born, 2))]);
        assert_eq!(proof.balance(born), word(left + 2), "{fork}");
    }
}

#[test]
fn eip7928_a_block_has_no_more_items_than_its_gas_limit_covers() {
    // Their recipients are items that no gas pays for.
    let withdrawals = |count: u64| {
        let each = (0..count).map(|index| Withdrawal {
            index,
            address: Address::from_word(B256::from(word(0x1000 + index))),
            amount: 1,
            ..Default::default()
        });
        Some(each.collect::<Vec<_>>())
    };
    let block = |fork: &str, count, gas_limit| {
        let tx = TxEnv { gas_limit: 60_000, ..pay(ALICE, 0, at(BOB), 1) };
        Case::new(fork).with(people()).block_with([tx], |body| {
            body.withdrawals = withdrawals(count);
            body.header.gas_limit = gas_limit;
        })
    };
    let proof = block("Amsterdam", 40, 1_000_000).prove();
    let list = proof.last().access_list.clone().expect("a list");
    let list = Vec::<AccountChanges>::decode(&mut &list[..]).expect("a list");
    let items =
        list.iter().map(|account| 1 + account.storage_changes.len() + account.storage_reads.len()).sum::<usize>();
    let bound = items as u64 * 2_000;
    assert!(bound > 80_000, "the transaction fits");
    let proof = block("Amsterdam", 40, bound).prove();
    assert!(proof.succeeded(0));
    for (count, gas_limit) in [(40, bound - 1), (41, bound)] {
        let proof = block("Amsterdam", count, gas_limit).prove();
        let why = proof.blocks[0].as_ref().expect_err("too many items");
        assert!(why.contains("TooLong"), "{why}");
        assert!(block("Osaka", count, gas_limit).prove().succeeded(0));
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
