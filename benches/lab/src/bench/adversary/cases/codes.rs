//! Codes: met for the first time, created, and delegated to.

use super::{
    case::{Case, Size},
    code::{Code, account, at, call, contract, large, sender, senders, word},
};
use phalanx::revm::{
    bytecode::opcode::{ADD, CALL, CALLDATALOAD, DUP1, DUP6, GAS, GT, JUMPI, MSTORE, POP, PUSH1, PUSH2, RETURN},
    context::{TxEnv, either::Either},
    context_interface::transaction::{Authorization, RecoveredAuthority, RecoveredAuthorization},
    primitives::{Address, TxKind, U256},
};

/// Contracts of the largest size, each called once and never again.
pub(super) fn cold_each(size: Size) -> Case {
    let count = size.count(24_000);
    let block = |nonce| (0..count).map(|from| call(from, nonce, at(nonce * count + from), 24_000)).collect();
    let genesis = senders(count).chain((0..2 * count).map(|number| contract(number, large(number))));
    Case::new(genesis, (0..2).map(block).collect())
}

/// Transactions that call many contracts of the largest size, each for the first time.
pub(super) fn cold_many(size: Size) -> Case {
    const CALLER: u64 = 900_000;
    // Calls all contracts from the number in the first word of the input up to the one in the second.
    let (code, [high, low]) = Code::default().ops(&[PUSH1, 0, CALLDATALOAD]).mark();
    let code = code.ops(&[PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, DUP6]).word(word(0));
    let code = code.ops(&[ADD, GAS, CALL, POP, PUSH1, 1, ADD, DUP1, PUSH1, 32, CALLDATALOAD, GT]);
    let code = code.ops(&[PUSH2, high, low, JUMPI]).end();
    let (txs, each) = (8, size.count(9_000).div_ceil(8));
    let codes = (0..txs * each).map(|number| contract(number, large(number)));
    let tx = |from: u64| {
        let range = [U256::from(from * each), U256::from((from + 1) * each)];
        let data: Vec<u8> = range.iter().flat_map(|word| word.to_be_bytes::<32>()).collect();
        TxEnv { data: data.into(), ..call(from, 0, at(CALLER), 60_000 + each * 2_900) }
    };
    Case::new(senders(txs).chain([contract(CALLER, code)]).chain(codes), vec![(0..txs).map(tx).collect()])
}

/// Accounts that delegate to new targets in every block.
pub(super) fn delegations(size: Size) -> Case {
    const EACH: u64 = 40;
    const FIRST: u64 = 200_000;
    let count = size.count(EACH * 25_000 + 21_000);
    let tx = |from: u64, block: u64| {
        let authorized = |number: u64| {
            let account = from * EACH + number;
            let target = Address::from_word(U256::from((block << 32) + (1 << 60) + account).into());
            let authorization = Authorization { chain_id: U256::ONE, address: target, nonce: block };
            let authority = RecoveredAuthority::Valid(sender(FIRST + account));
            Either::Right(RecoveredAuthorization::new_unchecked(authorization, authority))
        };
        let authorization_list = (0..EACH).map(authorized).collect();
        TxEnv { tx_type: 4, authorization_list, ..call(from, block, sender(from), EACH * 25_000 + 21_000) }
    };
    let authorities = (0..count * EACH).map(|number| account(FIRST + number, 1));
    let blocks = (0..3).map(|block| (0..count).map(|from| tx(from, block)).collect());
    Case::new(senders(count).chain(authorities), blocks.collect())
}

/// Creations of codes of the largest size.
pub(super) fn creations(size: Size) -> Case {
    const GAS_LIMIT: u64 = 5_100_000;
    // A block that is smaller than that creates smaller codes.
    let gas = size.0.min(GAS_LIMIT);
    let bytes = (gas.saturating_sub(150_000) / 200).min(24_576);
    let count = size.count(gas);
    let tx = |from: u64, nonce: u64| {
        let number = (1 << 60) + nonce * count + from;
        let code = Code::default().push(number).push(8).ops(&[MSTORE]).push(bytes).push(0).ops(&[RETURN]);
        TxEnv { kind: TxKind::Create, data: code.0.into(), ..call(from, nonce, Address::ZERO, gas) }
    };
    let blocks = (0..3).map(|nonce| (0..count).map(|from| tx(from, nonce)).collect());
    Case::new(senders(count), blocks.collect())
}
