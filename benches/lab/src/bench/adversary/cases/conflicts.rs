//! Conflicts that come late, and accesses that depend on how many transactions came before.

use super::{
    case::{Case, Size},
    code::{Code, at, call, contract, senders},
};
use phalanx::revm::bytecode::opcode::{
    ADD, AND, BALANCE, DUP1, KECCAK256, MSTORE, MUL, NUMBER, PUSH1, PUSH3, SLOAD, SSTORE, SWAP1,
};

/// Three blocks of calls that use so much gas, each by another sender.
fn blocks(size: Size, gas: u64, codes: u64, code: impl Fn(u64) -> Vec<u8>) -> Case {
    let count = size.count(gas);
    let block = |nonce| (0..count).map(|from| call(from, nonce, at(from % codes), gas)).collect();
    let genesis = senders(count).chain((0..codes).map(|number| contract(number, code(number))));
    Case::new(genesis, (0..3).map(block).collect())
}

/// Calls that burn gas, and then count in one slot.
pub(super) fn hot_slot(size: Size) -> Case {
    blocks(size, 540_000, 1, |_| Code::default().burn(480_000).count().end())
}

/// Contracts whose slot is the hash of a counter.
pub(super) fn counted_slot(size: Size) -> Case {
    blocks(size, 90_000, 8, |number| {
        let code = Code::distinct(number).count();
        code.ops(&[DUP1, PUSH1, 0, MSTORE, PUSH1, 32, PUSH1, 0, KECCAK256, DUP1, SLOAD, ADD, SWAP1, SSTORE]).end()
    })
}

/// Calls that burn gas, count, and write one of eight slots that the count selects.
pub(super) fn counted_slot_late(size: Size) -> Case {
    blocks(size, 400_000, 1, |_| {
        let code = Code::default().burn(300_000).ops(&[PUSH1, 0, SLOAD, DUP1, PUSH1, 7, AND, PUSH1, 1, ADD]);
        let code = code.ops(&[DUP1, SLOAD, PUSH1, 1, ADD, SWAP1, SSTORE]);
        code.ops(&[PUSH1, 1, ADD, NUMBER, ADD, PUSH1, 0, SSTORE]).end()
    })
}

/// Calls that burn gas, count, and read the balance of an account that the count selects.
pub(super) fn counted_account(size: Size) -> Case {
    blocks(size, 300_000, 1, |_| {
        let code = Code::default().burn(200_000).count();
        code.ops(&[DUP1, DUP1, MUL, PUSH3, 1, 0, 0, ADD, BALANCE, SWAP1, SSTORE]).end()
    })
}
