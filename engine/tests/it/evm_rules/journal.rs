//! State of revm's journal between transactions and attempts.

use super::*;
use crate::kit::Case;
use phalanx::revm::bytecode::opcode::{ADD, CALL, INVALID, ISZERO, LOG1, POP, PUSH1, REVERT, TLOAD, TSTORE};

#[test]
fn no_journal_state_outlives_its_transaction_or_attempt() {
    // Fills transient storage, warms a slot, logs, creates and destroys a contract, and only then reads the slot that
    // decides where it writes. An attempt without that knowledge is aborted there.
    let code_of = Asm::new()
        .push(U256::from(5))
        .op(TLOAD)
        .store(1)
        .push(U256::from(9))
        .push(U256::from(5))
        .op(TSTORE)
        .ops(&[PUSH1, 7, PUSH1, 0, PUSH1, 0, LOG1])
        // Creates a contract that destroys itself at once.
        .push(U256::from_be_slice(&[0x33, 0xff]))
        .ops(&[PUSH1, 0, 0x52, PUSH1, 2, PUSH1, 30, PUSH1, 0, 0xf0, POP])
        .load(0)
        .push(U256::ONE)
        .op(ADD)
        .op(0x80)
        .store(0)
        .push(U256::ONE)
        .ops(&[0x90, 0x55]);
    let proof = Case::new("Osaka")
        .with(people())
        .with([code(0xee, code_of)])
        .block((1..=10).map(|from| tx(from, 0, at(0xee))))
        .prove();
    assert_eq!(proof.slot(at(0xee), 0), word(10));
    assert_eq!(proof.slot(at(0xee), 1), word(0), "each transaction found it empty");
    for index in 0..10 {
        let result = proof.last().outcomes[index].result().expect("it ran");
        assert_eq!(result.logs().len(), 1, "transaction {index}");
    }
    let gas: Vec<_> = (2..10).map(|index| proof.gas(index)).collect();
    assert!(gas.iter().all(|each| *each == gas[0]), "each transaction starts cold: {gas:?}");
}

#[test]
fn eip1153_transient_storage_starts_empty() {
    let code_of = Asm::new().push(U256::ZERO).op(TLOAD).ops(&[PUSH1, 5, ADD]).store(0);
    let code_of = code_of.push(U256::from(3)).push(U256::ZERO).op(TSTORE).count(1);
    let proof = Case::new("Cancun")
        .with(people())
        .with([code(0xee, code_of)])
        .block((1..=8).map(|from| tx(from, 0, at(0xee))))
        .prove();
    assert_eq!((proof.slot(at(0xee), 0), proof.slot(at(0xee), 1)), (word(5), word(8)));
}

#[test]
fn reads_of_a_reverted_frame_are_validated() {
    // The inner contract reverts if its slot 0 is set; the outer one records the result.
    let inner =
        Asm::new().load(0).when(|code| code.ops(&[PUSH1, 0, PUSH1, 0, REVERT])).input().when(|code| code.set(0, 1));
    let outer = || Asm::new().call(CALL, at(0xaa), 0, 30_000).op(ISZERO).store(1);
    let whole = Asm::new().call(CALL, at(0xaa), 0, 30_000).when(|code| code.op(INVALID)).count(2);
    for fork in ["Byzantium", "Osaka"] {
        let proof = Case::new(fork)
            .with(people())
            .with([code(0xaa, inner.clone()), code(0xe1, outer()), code(0xe2, outer()), code(0xe3, whole.clone())])
            .block([
                tx(ALICE, 0, at(0xe1)),
                tx(CAROL, 0, at(0xe3)),
                with(tx(BOB, 0, at(0xaa)), 1),
                tx(4, 0, at(0xe2)),
                tx(5, 0, at(0xe3)),
            ])
            .prove();
        assert_eq!((proof.slot(at(0xe1), 1), proof.slot(at(0xe2), 1)), (word(0), word(1)), "{fork}");
        assert_eq!(proof.slot(at(0xe3), 2), word(1), "{fork}: the first call failed with all its writes");
    }
}

#[test]
fn reads_of_an_invalid_transaction_are_validated() {
    // Balance and nonce of the sender are read by the transaction that ends invalid.
    let poor = holder(0x20, 0);
    let spend = TxEnv { gas_limit: 21_000, ..tx(0x20, 0, at(BOB)) };
    let case = || Case::new("Osaka").with(people()).with([poor.clone()]);
    let invalid = case().block([spend.clone(), pay(ALICE, 0, at(0x20), 21_000 * PRICE)]).prove();
    let verdict = invalid.blocks[0].as_ref().expect_err("the sender has no balance yet");
    assert!(verdict.contains("index: 0, reason: LackOfFundForMaxFee"), "{verdict}");
    let valid = case().block([pay(ALICE, 0, at(0x20), 21_000 * PRICE), spend]).prove();
    assert_eq!(valid.nonce(at(0x20)), 1);
}
