//! Contents of a block access list, rule by rule of EIP-7928.

use super::{encode, execute, list};
use crate::kit::{Asm, Body, COINBASE, Case, Hint, Way, call, contract, deploys, eoa};
use alloy_eips::{eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS, eip4895::Withdrawal};
use phalanx::{
    BlockError,
    eip7928::AccountChanges,
    revm::{
        bytecode::opcode::{
            BALANCE, CALL, CREATE2, EXTCODEHASH, EXTCODESIZE, POP, PUSH1, REVERT, SELFDESTRUCT, STATICCALL,
        },
        context::{
            TxEnv,
            either::Either,
            transaction::{AccessList, AccessListItem},
        },
        context_interface::transaction::{Authorization, RecoveredAuthority, RecoveredAuthorization},
        handler::SYSTEM_ADDRESS,
        primitives::{Address, B256, TxKind, U256, keccak256},
    },
};

const fn at(byte: u8) -> Address {
    Address::repeat_byte(byte)
}

fn word(number: u64) -> U256 {
    U256::from(number)
}

fn case() -> Case {
    Case::new("Prague").with((1..=9).map(eoa))
}

/// Entry of an account in the first block's list.
fn listed(case: &Case, address: Address) -> Option<AccountChanges> {
    case.prove();
    list(case).expect("a valid block").into_iter().find(|account| account.address == address)
}

/// All balance changes as `(index, value)`.
fn balances(account: &AccountChanges) -> Vec<(u64, U256)> {
    account.balance_changes.iter().map(|change| (change.block_access_index.get(), change.post_balance)).collect()
}

fn is_bare(account: Option<&AccountChanges>) -> bool {
    account.is_some_and(|account| *account == AccountChanges::new(account.address))
}

#[test]
fn a_transfer_changes_sender_receiver_and_the_beneficiary_at_its_index() {
    let case = case().block([call(1, 0, at(0xd0), 5), call(2, 0, at(0xd0), 6), call(1, 1, at(3), 0)]);
    let list = list(&case).expect("a valid block");
    let account = |address| list.iter().find(|account| account.address == address).expect("listed");
    assert_eq!(balances(account(at(0xd0))), [(1, word(5)), (2, word(11))]);
    // 21000 gas at a priority fee of 3.
    assert_eq!(balances(account(COINBASE)), [(1, word(63_000)), (2, word(126_000)), (3, word(189_000))]);
    let nonces: Vec<_> =
        account(at(1)).nonce_changes.iter().map(|c| (c.block_access_index.get(), c.new_nonce)).collect();
    assert_eq!(nonces, [(1, 1), (3, 2)]);
    assert_eq!(balances(account(at(1))).len(), 2);
    assert!(is_bare(Some(account(at(3)))), "a transfer of zero is an access");
    for system in [BEACON_ROOTS_ADDRESS, HISTORY_STORAGE_ADDRESS] {
        assert!(is_bare(Some(account(system))), "called, although without code");
    }
    assert!(list.iter().all(|account| account.address != SYSTEM_ADDRESS));
    case.prove();
}

#[test]
fn a_block_without_rewards_lists_the_beneficiary_bare_and_an_empty_block_not_at_all() {
    let free = TxEnv { gas_priority_fee: Some(0), ..call(1, 0, at(2), 1) };
    assert!(is_bare(listed(&case().block([free]), COINBASE).as_ref()));
    assert_eq!(listed(&case().block([]), COINBASE), None);
}

#[test]
fn reads_of_a_reverted_call_are_listed_and_its_changes_are_not() {
    let code = Asm::new()
        .addr(at(0xd1))
        .ops(&[BALANCE, POP])
        .addr(at(0xd2))
        .ops(&[EXTCODESIZE, POP])
        .addr(at(0xd3))
        .ops(&[EXTCODEHASH, POP])
        .load(5)
        .op(POP)
        .set(6, 1)
        .ops(&[PUSH1, 0, PUSH1, 0, REVERT]);
    let case = case().with([contract(0xc1, &code.build())]).block([call(1, 0, at(0xc1), 7)]);
    let reader = listed(&case, at(0xc1)).expect("listed");
    assert_eq!(reader.storage_reads, [word(5), word(6)]);
    assert_eq!((reader.storage_changes.len(), reader.balance_changes.len()), (0, 0));
    for looked_at in [0xd1, 0xd2, 0xd3] {
        assert!(is_bare(listed(&case, at(looked_at)).as_ref()), "{looked_at:x}");
    }
}

#[test]
fn accesses_that_gas_did_not_cover_are_not_listed() {
    let code = Asm::new().addr(at(0xd1)).op(BALANCE).load(3);
    let short = TxEnv { gas_limit: 21_000 + 2_600, ..call(1, 0, at(0xc1), 0) };
    let enough = TxEnv { gas_limit: 21_000 + 2_700, ..call(1, 0, at(0xc1), 0) };
    let accounts = [contract(0xc1, &code.build())];
    assert_eq!(listed(&case().with(accounts.clone()).block([short]), at(0xd1)), None);
    let case = case().with(accounts).block([enough]);
    assert!(is_bare(listed(&case, at(0xd1)).as_ref()));
    assert!(listed(&case, at(0xc1)).expect("listed").storage_reads.is_empty());
}

#[test]
fn a_write_of_the_same_value_is_a_read_and_a_slot_is_listed_once() {
    let code = Asm::new().set(1, 7).load(2).store(2).input().store(3);
    let with =
        |from: u8, input: u64| TxEnv { data: word(input).to_be_bytes_vec().into(), ..call(from, 0, at(0xc1), 0) };
    let txs = [with(1, 0), with(2, 4), with(3, 4), with(4, 0)];
    let contract = listed(&case().with([contract(0xc1, &code.build())]).block(txs), at(0xc1)).expect("listed");
    let changes: Vec<_> = contract
        .storage_changes
        .iter()
        .flat_map(|slot| slot.changes.iter().map(|c| (slot.slot, c.block_access_index.get(), c.new_value)))
        .collect();
    let (one, three) = (word(1), word(3));
    assert_eq!(changes, [(one, 1, word(7)), (three, 2, word(4)), (three, 4, U256::ZERO)]);
    assert_eq!(contract.storage_reads, [word(2)]);
}

#[test]
fn precompiles_and_callees_are_listed_and_declared_accesses_are_not() {
    let code = Asm::new().call(STATICCALL, Address::with_last_byte(4), 0, 1_000).op(POP);
    let code = code.call(CALL, at(0xd4), 0, 1_000).op(POP);
    let declared = AccessList(vec![AccessListItem { address: at(0xd5), storage_keys: vec![B256::with_last_byte(1)] }]);
    let tx = TxEnv { access_list: declared, ..call(1, 0, at(0xc1), 0) };
    let case = case().with([contract(0xc1, &code.build())]).block([tx]);
    assert!(is_bare(listed(&case, Address::with_last_byte(4)).as_ref()));
    assert!(is_bare(listed(&case, at(0xd4)).as_ref()));
    assert_eq!(listed(&case, at(0xd5)), None);
}

#[test]
fn accounts_created_and_destroyed_in_one_transaction_leave_accesses() {
    let init = Asm::new().set(1, 1).addr(at(0xd6)).op(SELFDESTRUCT);
    let tx = TxEnv { kind: TxKind::Create, data: init.bytes(), value: word(9), ..call(1, 0, at(0), 0) };
    let case = case().block([tx]);
    let created = listed(&case, at(1).create(0)).expect("listed");
    let expected = AccountChanges { storage_reads: vec![word(1)], ..AccountChanges::new(created.address) };
    assert_eq!(created, expected);
    assert_eq!(balances(&listed(&case, at(0xd6)).expect("listed")), [(1, word(9))]);
}

#[test]
fn a_slot_that_went_with_its_account_is_written_again_with_the_same_value() {
    let init = deploys(Asm::new().set(0, 5), &Asm::new().addr(at(0xd6)).op(SELFDESTRUCT).build());
    let factory = contract(0xfa, &Asm::new().create_from_input(CREATE2).op(POP).build());
    let created = at(0xfa).create2(B256::ZERO, keccak256(&init));
    let create = |from| TxEnv { data: init.clone(), ..call(from, 0, at(0xfa), 0) };
    for fork in ["London", "Paris", "Shanghai"] {
        let txs = [create(1), call(2, 0, created, 0), create(3)];
        let case = Case::new(fork).with((1..=9).map(eoa)).with([factory.clone()]).block(txs);
        let account = listed(&case, created).expect("listed");
        let changes = account.storage_changes.iter().flat_map(|slot| &slot.changes);
        let changes: Vec<_> = changes.map(|c| (c.block_access_index.get(), c.new_value)).collect();
        assert_eq!(changes, [(1, word(5)), (3, word(5))], "{fork}");
    }
}

#[test]
fn a_delegation_changes_nonce_and_code_and_lists_its_target_when_called() {
    let authorize = |nonce| {
        let authorization = Authorization { chain_id: U256::ONE, address: at(0xc7), nonce };
        Either::Right(RecoveredAuthorization::new_unchecked(authorization, RecoveredAuthority::Valid(at(5))))
    };
    let delegate = |nonce, authorized| TxEnv {
        tx_type: 4,
        authorization_list: vec![authorize(authorized)],
        ..call(1, nonce, at(2), 0)
    };
    let target = contract(0xc7, &Asm::new().set(1, 1).build());
    let case = case().with([target]).block([delegate(0, 0)]);
    assert_eq!(listed(&case, at(0xc7)), None, "not called yet");
    let authority = listed(&case, at(5)).expect("listed");
    assert_eq!(authority.nonce_changes[0].new_nonce, 1);
    assert_eq!(authority.code_changes[0].new_code.as_ref(), [&[0xef, 1, 0][..], at(0xc7).as_slice()].concat());
    // The second authorization has a wrong nonce: its authority is only read.
    let case = Case { blocks: Vec::new(), ..case }.block([delegate(0, 0), delegate(1, 7), call(3, 0, at(5), 0)]);
    assert!(is_bare(listed(&case, at(0xc7)).as_ref()));
    let authority = listed(&case, at(5)).expect("listed");
    assert_eq!((authority.nonce_changes.len(), authority.code_changes.len()), (1, 1));
    assert_eq!(authority.storage_changes[0].changes[0].block_access_index.get(), 3);
}

#[test]
fn withdrawals_come_after_the_last_transaction() {
    let withdrawal = |address, amount| Withdrawal { address, amount, ..Withdrawal::default() };
    let withdrawals = vec![withdrawal(at(0xd8), 2), withdrawal(at(0xd8), 3), withdrawal(COINBASE, 1)];
    let pay = |body: &mut Body| body.withdrawals = Some(withdrawals);
    let case = case().block_with([call(1, 0, at(0xd8), 1)], pay);
    let gwei = 1_000_000_000;
    assert_eq!(balances(&listed(&case, at(0xd8)).expect("listed")), [(1, word(1)), (2, word(1 + 5 * gwei))]);
    assert_eq!(balances(&listed(&case, COINBASE).expect("listed")), [(1, word(63_000)), (2, word(63_000 + gwei))]);
}

#[test]
fn an_invalid_transaction_is_reported_before_any_later_lie() {
    let good = case().block([call(1, 0, at(2), 1), call(3, 0, at(4), 1)]);
    let rlp = encode(&list(&good).expect("a valid block"));
    // The third transaction repeats a nonce, and the list holds another transaction's changes at its index.
    let bad =
        Case { blocks: Vec::new(), ..good }.block([call(1, 0, at(2), 1), call(3, 0, at(4), 1), call(1, 0, at(2), 1)]);
    let ways = [1, 2, 4].map(|threads| Way::dag(threads, Hint::AccessList));
    let ways = ways.into_iter().chain([Way::sequential(), Way::stm(2, None)]);
    for way in ways.clone() {
        let error = execute(&bad, &bad.blocks[0], &way, &rlp, keccak256(&rlp));
        assert!(matches!(error, Err(BlockError::InvalidTransaction { index: 2, .. })), "{way:?}: {error:?}");
    }
    // And after any earlier lie.
    let mut lie = list(&cut(&bad, 2)).expect("a valid block");
    let receiver = lie.iter_mut().find(|account| account.address == at(4)).expect("listed");
    receiver.balance_changes[0].post_balance += word(1);
    let rlp = encode(&lie);
    for way in ways {
        let error = execute(&bad, &bad.blocks[0], &way, &rlp, keccak256(&rlp));
        assert!(matches!(error, Err(BlockError::AccessList { index: Some(2), .. })), "{way:?}: {error:?}");
    }
}

/// The case with its block cut to this many transactions.
fn cut(case: &Case, txs: usize) -> Case {
    let mut case = case.clone();
    case.blocks[0].txs.truncate(txs);
    case
}

#[test]
fn a_block_past_its_gas_limit_ends_there_with_any_list() {
    // Each burns all its gas.
    let burn = |from: u8| TxEnv { gas_limit: 9_000_000, ..call(from, 0, at(0xc1), 0) };
    let code = Asm::new().op(0x5b).push(word(0)).op(0x56);
    let accounts = [contract(0xc1, &code.build())];
    let good = case().with(accounts).block((1..=3).map(burn));
    let rlp = encode(&list(&good).expect("a valid block"));
    let bad = Case { blocks: Vec::new(), ..good }.block((1..=9).map(burn));
    for threads in [1, 2, 4] {
        let error = execute(&bad, &bad.blocks[0], &Way::dag(threads, Hint::AccessList), &rlp, keccak256(&rlp));
        assert!(matches!(error, Err(BlockError::GasLimit { index: 3, .. })), "{error:?}");
    }
}
