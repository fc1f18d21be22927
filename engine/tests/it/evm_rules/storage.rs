//! Resets of accounts, writes without effect, and zeros.

use super::*;
use crate::kit::{Case, deploys};
use phalanx::revm::{
    bytecode::opcode::{ADD, CALLER, CREATE2, SELFDESTRUCT, SLOAD, SSTORE},
    primitives::keccak256,
};

/// Input 0 destroys the contract; any other input adds one to the slot that it names, into the slot after it.
fn reader() -> Asm {
    let read =
        |code: Asm| code.input().op(SLOAD).push(U256::ONE).op(ADD).input().push(U256::ONE).ops(&[ADD, SSTORE, 0]);
    Asm::new().input().when(read).ops(&[CALLER, SELFDESTRUCT])
}

#[test]
fn every_slot_depends_on_the_reset_of_its_account() {
    let init = deploys(Asm::new(), &reader().build());
    let child = at(0xfa).create2(B256::ZERO, keccak256(&init));
    for fork in ["Petersburg", "Berlin", "Shanghai"] {
        // The contract exists already, with slots that the block does not write.
        let storage = (1..100).map(|slot| (word(slot), word(50))).collect();
        let old = GenesisAccount { address: child, storage, ..code(0, reader()) };
        let make = |from| TxEnv { data: init.clone(), ..tx(from, 0, at(0xfa)) };
        let proof = Case::new(fork)
            .with(people())
            .with([old, code(0xfa, Asm::new().create_from_input(CREATE2).store(0))])
            .block([
                with(tx(ALICE, 0, child), 10),
                with(tx(BOB, 0, child), 0),
                make(CAROL),
                with(tx(4, 0, child), 10),
                with(tx(5, 0, child), 20),
            ])
            .block([with(tx(ALICE, 1, child), 30)])
            .prove();
        let ones = [(word(11), word(1)), (word(21), word(1)), (word(31), word(1))];
        assert_eq!(
            proof.account(child).expect("created").storage,
            ones,
            "{fork}: 50 belongs to the destroyed contract"
        );
    }
}

#[test]
fn writes_of_the_present_value_leave_no_change() {
    // By its input it does nothing, writes the present value, or writes another value and then the present one.
    let writer = Asm::new()
        .input()
        .when(|code| code.load(0).store(0))
        .input()
        .push(U256::from(2))
        .op(phalanx::revm::bytecode::opcode::EQ)
        .when(|code| code.set(0, 9).set(0, 5));
    let roots = [0, 1, 2].map(|input| {
        let writer = GenesisAccount { storage: vec![(word(0), word(5))], ..code(0xee, writer.clone()) };
        let free = |from| TxEnv { gas_price: 0, ..with(tx(from, 0, at(0xee)), input) };
        let proof = Case::new("Berlin").with(people()).with([writer]).block([free(ALICE), free(BOB)]).prove();
        assert_eq!(proof.slot(at(0xee), 0), word(5));
        proof.last().root
    });
    assert_eq!(roots, [roots[0]; 3]);
}

#[test]
fn writes_undone_by_a_later_transaction_leave_no_change() {
    let writer = || {
        let code = code(0xee, Asm::new().input().store(0));
        GenesisAccount { storage: vec![(word(0), word(5))], ..code }
    };
    let free = |from, input| TxEnv { gas_price: 0, ..with(tx(from, 0, at(0xee)), input) };
    let roots = [[5, 5], [9, 5]].map(|[first, second]| {
        let case = Case::new("Berlin").with(people()).with([writer()]);
        case.block([free(ALICE, first), free(BOB, second)]).prove().last().root
    });
    assert_eq!(roots[0], roots[1], "the root depends on the final change alone");
}

#[test]
fn zero_slots_are_not_stored() {
    let clears = Asm::new().set(1, 0).set(2, 7).set(3, 0).set(3, 8).set(3, 0);
    for fork in ["Frontier", "Istanbul", "Osaka"] {
        let old =
            GenesisAccount { storage: vec![(word(1), word(1)), (word(2), word(2))], ..code(0xee, clears.clone()) };
        let proof = Case::new(fork)
            .with(people())
            .with([old])
            .block([tx(ALICE, 0, at(0xee)), tx(BOB, 0, at(0xee))])
            .block([tx(ALICE, 1, at(0xee))])
            .prove();
        assert_eq!(proof.account(at(0xee)).expect("there").storage, [(word(2), word(7))], "{fork}");
    }
}
