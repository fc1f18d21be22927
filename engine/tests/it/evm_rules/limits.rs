//! Execution that gas alone bounds, and the longest chain of conflicts.

use super::*;
use crate::kit::{Case, Way};
use phalanx::revm::bytecode::opcode::{CALL, GAS, JUMP, JUMPDEST, MLOAD, POP, PUSH1, SSTORE};

#[test]
fn gas_bounds_loops_depth_and_memory() {
    let forever = code(0xa1, Asm::new().ops(&[JUMPDEST, PUSH1, 0, JUMP]));
    // Calls itself as deep as possible, and counts on the way back.
    let deep =
        Asm::new().ops(&[PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0]).addr(at(0xa2)).ops(&[GAS, CALL, POP]);
    let deep = code(0xa2, deep.count(0));
    let vast = code(0xa3, Asm::new().push(U256::from(u32::MAX)).ops(&[MLOAD, POP]).count(0));
    // Loops unless an earlier transaction stops it: on a stale state it would run until its gas ends.
    let guarded = Asm::new().load(0).op(0x15).when(|code| code.ops(&[JUMPDEST]).push(U256::from(8)).op(JUMP)).set(1, 1);
    let guarded = code(0xa4, Asm::new().input().when(|code| code.set(0, 1).op(0)).ops(&guarded.build()));
    for fork in ["EIP150", "Osaka"] {
        let proof = Case::new(fork)
            .with(people())
            .with([forever.clone(), deep.clone(), vast.clone(), guarded.clone()])
            .block([
                tx(ALICE, 0, at(0xa1)),
                TxEnv { gas_limit: 3_000_000, ..tx(BOB, 0, at(0xa2)) },
                tx(CAROL, 0, at(0xa3)),
                with(tx(4, 0, at(0xa4)), 1),
                tx(5, 0, at(0xa4)),
            ])
            .prove();
        assert!(!proof.succeeded(0) && !proof.succeeded(2), "{fork}");
        assert!(proof.succeeded(1) && proof.slot(at(0xa2), 0) > word(10), "{fork}");
        assert_eq!(proof.gas(0), 300_000, "{fork}");
        assert_eq!(proof.slot(at(0xa4), 0), word(1), "{fork}");
    }
}

#[test]
fn a_chain_on_one_slot_makes_progress() {
    // Every transaction depends on all before, by value and by slot.
    let chain = Asm::new().load(0).push(U256::ONE).ops(&[0x01, 0x80]).store(0).push(U256::ONE).ops(&[0x90, SSTORE]);
    let case = Case::new("Osaka")
        .with(people())
        .with([code(0xee, chain)])
        .block((0..60u64).map(|i| tx(1 + (i % 10) as u8, i / 10, at(0xee))));
    let proof = case.prove();
    assert_eq!(proof.slot(at(0xee), 0), word(60));
    // The strict bound: one worker runs each transaction once.
    let (_, stats) = case.run(&Way::stm(1, None), &[]);
    assert_eq!(stats[0].reexecutions, 0);
}
