//! Honest lists, and calls that revert, nest deeply, or give prediction and replay the most to do.

use super::{
    case::{Case, Size},
    code::{Code, at, call, contract, sender, senders},
};
use phalanx::revm::{
    bytecode::opcode::{
        ADD, ADDRESS, AND, CALLDATALOAD, CALLER, DUP1, GAS, JUMP, JUMPDEST, KECCAK256, MLOAD, MSTORE, MUL, POP, PUSH1,
        REVERT, SLOAD, SSTORE, SWAP1, XOR,
    },
    context::TxEnv,
    primitives::{Bytes, U256, keccak256},
};

/// Blocks of calls of one contract that use so much gas, each by another sender with an input of its own.
fn blocks(size: Size, count: u64, gas: u64, code: Vec<u8>, input: impl Fn(u64, u64) -> Bytes) -> Case {
    let senders_of = size.count(gas);
    let tx = |from, nonce| TxEnv { data: input(from, nonce), ..call(from, nonce, at(0), gas) };
    let block = |nonce| (0..senders_of).map(|from| tx(from, nonce)).collect();
    Case::new(senders(senders_of).chain([contract(0, code)]), (0..count).map(block).collect())
}

const fn nothing(_: u64, _: u64) -> Bytes {
    Bytes::new()
}

/// A word as input, which differs from call to call.
fn number(from: u64, nonce: u64) -> Bytes {
    U256::from(from * 10 + nonce).to_be_bytes_vec().into()
}

/// Transfers.
pub(super) fn transfers(size: Size) -> Case {
    let count = size.count(21_000);
    let pay =
        |from: u64, nonce| TxEnv { value: U256::ONE, ..call(from, nonce, sender((from * 7 + 3) % count), 21_000) };
    let block = |nonce| (0..count).map(|from| pay(from, nonce)).collect();
    Case::new(senders(count), (0..3).map(block).collect())
}

/// Blocks of one transfer.
pub(super) fn lone_transfers(size: Size) -> Case {
    let count = size.count(180_000);
    let pay = |from| vec![TxEnv { value: U256::ONE, ..call(from, 0, sender(from + count), 21_000) }];
    Case::new(senders(count), (0..count).map(pay).collect())
}

/// Blocks of one call of a contract that no block called before.
pub(super) fn lone_calls(size: Size) -> Case {
    let count = size.count(360_000);
    let genesis = senders(count).chain((0..count).map(|number| contract(number, Code::distinct(number).count().end())));
    Case::new(genesis, (0..count).map(|from| vec![call(from, 0, at(from), 80_000)]).collect())
}

/// Heavy calls of one contract, which burn the gas of the block.
pub(super) fn calls(size: Size) -> Case {
    let gas = size.share(9);
    blocks(size, 3, gas, Code::default().burn(gas.saturating_sub(30_000)).end(), nothing)
}

/// Calls that read 60 slots and revert.
pub(super) fn reverts(size: Size) -> Case {
    let read = |code: Code, slot| code.ops(&[CALLER]).push(slot).ops(&[ADD, SLOAD, POP]);
    let code = (0..60).fold(Code::default(), read).ops(&[PUSH1, 0, PUSH1, 0, REVERT]).end();
    blocks(size, 3, 160_000, code, nothing)
}

/// A contract that calls itself until the gas is used up.
pub(super) fn deep_calls(size: Size) -> Case {
    blocks(size, 3, size.share(12), Code::default().ops(&[ADDRESS]).call().end(), nothing)
}

/// The same; each call writes a slot of its own first, and reverts at its end.
pub(super) fn deep_reverts(size: Size) -> Case {
    let code = Code::default().ops(&[GAS, DUP1, SSTORE, ADDRESS]).call().ops(&[PUSH1, 0, PUSH1, 0, REVERT]);
    blocks(size, 3, size.share(12), code.end(), nothing)
}

/// Calls that do the same for long, and end in 64 ways.
pub(super) fn parting_traces(size: Size) -> Case {
    const WAYS: u64 = 64;
    let step = |code: Code, _| {
        let code = code.ops(&[PUSH1, 0, CALLDATALOAD, PUSH1, 3, MUL, PUSH1, 7, ADD, PUSH1, 0, SLOAD, XOR, POP]);
        let code = code.ops(&[PUSH1, 0, CALLDATALOAD, PUSH1, 5, ADD, PUSH1, 0, MSTORE]);
        code.ops(&[PUSH1, 32, PUSH1, 0, KECCAK256, PUSH1, 32, MSTORE])
    };
    let code = (0..150).fold(Code::default(), step);
    let code = code.ops(&[PUSH1, 32, MLOAD, PUSH1, 0xff, AND, PUSH1, 32, CALLDATALOAD, JUMP]);
    let first = code.0.len() as u64;
    let code = code.ops(&[JUMPDEST; WAYS as usize]).ops(&[PUSH1, 32, MLOAD, CALLER, SSTORE]).end();
    let input = |from: u64, nonce: u64| {
        let way = U256::from(first + (from * 7 + nonce) % WAYS);
        [U256::from(from * 1_000 + nonce), way]
            .iter()
            .flat_map(|word| word.to_be_bytes::<32>())
            .collect::<Vec<_>>()
            .into()
    };
    blocks(size, 4, 100_000, code, input)
}

/// A slot that is the 200th hash of the input.
pub(super) fn hash_chain(size: Size) -> Case {
    let code = Code::default().ops(&[PUSH1, 0, CALLDATALOAD, PUSH1, 0, MSTORE]);
    let hash = |code: Code, _| code.ops(&[PUSH1, 32, PUSH1, 0, KECCAK256, PUSH1, 0, MSTORE]);
    let code = (0..200).fold(code, hash);
    let code = code.ops(&[PUSH1, 0, MLOAD, DUP1, SLOAD, PUSH1, 1, ADD, SWAP1, SSTORE]).end();
    blocks(size, 4, 80_000, code, number)
}

/// Reads of 60 slots of mappings.
pub(super) fn mapping_slots(size: Size) -> Case {
    let code = Code::default().ops(&[PUSH1, 0, CALLDATALOAD, PUSH1, 0, MSTORE]);
    let read = |code: Code, slot| code.push(slot).ops(&[PUSH1, 32, MSTORE, PUSH1, 64, PUSH1, 0, KECCAK256, SLOAD, POP]);
    blocks(size, 4, 160_000, (0..60).fold(code, read).end(), number)
}

/// Calls of one contract, each with a selector that no call had before.
pub(super) fn selectors(size: Size) -> Case {
    let code = Code::default().ops(&[PUSH1, 0, CALLDATALOAD, CALLER, SSTORE]).end();
    blocks(size, 3, 46_000, code, |from, nonce| keccak256((from * 10 + nonce).to_be_bytes()).to_vec().into())
}
