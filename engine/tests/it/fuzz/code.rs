//! Random bytecode from meaningful statements.

use super::world::World;
use crate::kit::{Asm, deploys};
use phalanx::revm::{
    bytecode::opcode::*,
    primitives::{Address, Bytes, U256, hardfork::SpecId},
};
use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

/// Number of contended slots.
const SLOTS: u64 = 4;

/// A program of at most `most` statements.
pub(super) fn program(rng: &mut ChaCha8Rng, world: &World, most: usize) -> Vec<u8> {
    let count = rng.random_range(1..=most);
    body(Asm::new(), rng, world, count).op(STOP).build()
}

/// Init code that executes and deploys random code, or copies another account's code.
pub(super) fn init(rng: &mut ChaCha8Rng, world: &World) -> Bytes {
    let count = rng.random_range(0..3);
    let before = body(Asm::new(), rng, world, count);
    match rng.random_range(0..4) {
        0 => {
            let model = any(rng, world);
            let copy = before.addr(model).op(EXTCODESIZE).ops(&[DUP1, PUSH1, 0, PUSH1, 0]).addr(model).op(EXTCODECOPY);
            copy.ops(&[PUSH1, 0, RETURN]).bytes()
        }
        1 => before.op(STOP).bytes(),
        _ => {
            let code = program(rng, world, 3);
            deploys(before, &code)
        }
    }
}

/// A factory that deploys its input.
pub(super) fn factory(world: &World) -> Vec<u8> {
    let op = if world.has(SpecId::PETERSBURG) { CREATE2 } else { CREATE };
    Asm::new().create_from_input(op).store(0).op(STOP).build()
}

fn body(mut code: Asm, rng: &mut ChaCha8Rng, world: &World, count: usize) -> Asm {
    for _ in 0..count {
        if rng.random_bool(0.3) {
            code = condition(code, rng, world);
            code = code.when(|code| statement(code, rng, world));
        } else {
            code = statement(code, rng, world);
        }
    }
    code
}

fn any(rng: &mut ChaCha8Rng, world: &World) -> Address {
    *world.all.choose(rng).expect("an address")
}

/// Pushes an address.
fn address(code: Asm, rng: &mut ChaCha8Rng, world: &World) -> Asm {
    match rng.random_range(0..10) {
        0 => code.op(CALLER),
        1 => code.op(ADDRESS),
        2 => code.op(COINBASE),
        3 => code.op(ORIGIN),
        4 => code.input(),
        5 => {
            let slot = rng.random_range(0..SLOTS);
            code.load(slot)
        }
        _ => code.addr(any(rng, world)),
    }
}

/// Pushes a slot.
fn slot(code: Asm, rng: &mut ChaCha8Rng) -> Asm {
    match rng.random_range(0..4) {
        // The slot depends on the value of another one.
        0 => {
            let slot = rng.random_range(0..SLOTS);
            code.load(slot).push(U256::from(SLOTS - 1)).op(AND)
        }
        1 => code.input().push(U256::from(SLOTS - 1)).op(AND),
        _ => code.push(U256::from(rng.random_range(0..SLOTS))),
    }
}

/// Pushes a value.
fn value(code: Asm, rng: &mut ChaCha8Rng, world: &World) -> Asm {
    match rng.random_range(0..15) {
        0 => code.push(U256::ZERO),
        1 => code.push(U256::from(rng.random_range(0..4u64))),
        2 => slot(code, rng).op(SLOAD),
        3 if world.has(SpecId::ISTANBUL) => code.op(SELFBALANCE),
        4 | 5 => address(code, rng, world).op(BALANCE),
        6 if world.has(SpecId::PETERSBURG) => address(code, rng, world).op(EXTCODEHASH),
        7 => address(code, rng, world).op(EXTCODESIZE),
        8 if world.has(SpecId::CANCUN) => slot(code, rng).op(TLOAD),
        9 => code.op(CALLVALUE),
        10 => code.op(GAS),
        11 => code.push(U256::from(rng.random_range(1..14u64))).op(BLOCKHASH),
        12 => {
            let op = [NUMBER, TIMESTAMP, DIFFICULTY, GASLIMIT, COINBASE, ORIGIN, GASPRICE, CALLER].choose(rng);
            code.op(*op.expect("one"))
        }
        13 if world.has(SpecId::LONDON) => code.op(BASEFEE),
        _ => slot(code, rng).op(SLOAD).push(U256::ONE).op(ADD),
    }
}

/// Pushes the condition of a branch.
fn condition(code: Asm, rng: &mut ChaCha8Rng, world: &World) -> Asm {
    match rng.random_range(0..3) {
        0 => code.input().push(U256::from(1u64 << rng.random_range(2..6))).op(AND),
        _ => value(code, rng, world).push(U256::ONE).op(AND),
    }
}

fn statement(code: Asm, rng: &mut ChaCha8Rng, world: &World) -> Asm {
    match rng.random_range(0..24) {
        0..=5 => {
            let code = value(code, rng, world);
            slot(code, rng).op(SSTORE)
        }
        // A counter.
        6 | 7 => code.count(rng.random_range(0..SLOTS)),
        8 => {
            let code = code.push(U256::ZERO);
            slot(code, rng).op(SSTORE)
        }
        9 if world.has(SpecId::CANCUN) => {
            let code = value(code, rng, world);
            slot(code, rng).op(TSTORE)
        }
        10..=13 => call(code, rng, world),
        14 => {
            let code = value(code, rng, world);
            value(code, rng, world).push(U256::ZERO).push(U256::ZERO).op(LOG2)
        }
        15 | 16 => create(code, rng, world),
        17 => address(code, rng, world).op(SELFDESTRUCT),
        18 => {
            let code = condition(code, rng, world);
            let end = [
                &[INVALID][..],
                &[PUSH1, 0, PUSH1, 0, RETURN],
                &[PUSH1, 0, PUSH1, 0, REVERT],
                &[STOP],
                &[CALLER, SELFDESTRUCT],
                &[COINBASE, SELFDESTRUCT],
                &[ADDRESS, SELFDESTRUCT],
            ];
            let end = *end.choose(rng).expect("one");
            code.when(|code| code.ops(end))
        }
        // The output of the call is used.
        19 => {
            let code = call(code, rng, world).push(U256::ZERO).op(MLOAD);
            slot(code, rng).op(SSTORE)
        }
        20 => value(code, rng, world).push(U256::ZERO).op(MSTORE),
        _ => {
            let code = address(code, rng, world).op(BALANCE);
            slot(code, rng).op(SSTORE)
        }
    }
}

fn call(code: Asm, rng: &mut ChaCha8Rng, world: &World) -> Asm {
    let ops = [CALL, CALL, CALL, CALLCODE, DELEGATECALL, STATICCALL];
    let op = match *ops.choose(rng).expect("one") {
        DELEGATECALL if !world.has(SpecId::HOMESTEAD) => CALL,
        STATICCALL if !world.has(SpecId::BYZANTIUM) => CALL,
        op => op,
    };
    let code = match rng.random_range(0..3) {
        0 => value(code, rng, world).push(U256::ZERO).op(MSTORE),
        _ => code,
    };
    let code = code.push(U256::from(32)).push(U256::ZERO).push(U256::from(32)).push(U256::ZERO);
    let code = match op {
        CALL | CALLCODE => match rng.random_range(0..8) {
            0 | 1 => code.push(U256::from(rng.random_range(1..3u64))),
            // The whole balance: destruction and payments in between decide.
            2 => code.op(ADDRESS).op(BALANCE),
            3 => code.op(CALLVALUE),
            _ => code.push(U256::ZERO),
        },
        _ => code,
    };
    let code = address(code, rng, world).push(U256::from([5_000u64, 30_000, 60_000][rng.random_range(0..3)])).op(op);
    keep_or_drop(code, rng)
}

fn create(code: Asm, rng: &mut ChaCha8Rng, world: &World) -> Asm {
    // Short enough for a push: destroys itself, deploys one byte, stores a value, or fails.
    let inits: [&[u8]; 6] = [
        &[CALLER, SELFDESTRUCT],
        &[PUSH1, 0, PUSH1, 0, MSTORE8, PUSH1, 1, PUSH1, 0, RETURN],
        &[PUSH1, CALLER, PUSH1, 0, MSTORE8, PUSH1, SELFDESTRUCT, PUSH1, 1, MSTORE8, PUSH1, 2, PUSH1, 0, RETURN],
        &[PUSH1, 7, PUSH1, 1, SSTORE],
        &[INVALID],
        &[],
    ];
    let init = *inits.choose(rng).expect("one");
    let code = if init.is_empty() {
        code
    } else {
        let mut word = [0; 32];
        word[..init.len()].copy_from_slice(init);
        code.push(U256::from_be_bytes(word)).push(U256::ZERO).op(MSTORE)
    };
    let value = U256::from(rng.random_range(0..2u64));
    let code = if world.has(SpecId::PETERSBURG) && rng.random_bool(0.6) {
        let salt = U256::from(rng.random_range(0..2u64));
        code.push(salt).push(U256::from(init.len())).push(U256::ZERO).push(value).op(CREATE2)
    } else {
        code.push(U256::from(init.len())).push(U256::ZERO).push(value).op(CREATE)
    };
    keep_or_drop(code, rng)
}

fn keep_or_drop(code: Asm, rng: &mut ChaCha8Rng) -> Asm {
    if rng.random_bool(0.5) { code.op(POP) } else { code.store(rng.random_range(0..SLOTS)) }
}
