//! Delegations to code (EIP-7702).

use super::*;
use crate::kit::Case;
use phalanx::revm::bytecode::opcode::{CALL, INVALID, PUSH1, REVERT};

fn counter() -> GenesisAccount {
    code(0xee, Asm::new().count(0))
}

fn case() -> Case {
    Case::new("Prague").with(people()).with([counter()])
}

#[test]
fn eip7702_a_delegation_survives_the_failure_of_its_transaction() {
    let fails = code(0xaa, Asm::new().ops(&[PUSH1, 0, PUSH1, 0, REVERT]));
    let proof = case()
        .with([fails])
        .block([delegating(tx(ALICE, 0, at(0xaa)), &[(BOB, 0, at(0xee))]), tx(CAROL, 0, at(BOB)), tx(BOB, 1, at(BOB))])
        .prove();
    assert!(!proof.succeeded(0));
    assert_eq!(proof.account(at(BOB)).expect("there").code, Some(designator(at(0xee))));
    assert_eq!((proof.slot(at(BOB), 0), proof.nonce(at(BOB))), (word(2), 2));
}

#[test]
fn eip7702_invalid_authorizations_are_skipped_one_by_one() {
    let foreign = {
        let mut tx = delegating(tx(ALICE, 0, at(5)), &[(4, 0, at(0xee)), (BOB, 1, at(0xee)), (BOB, 0, at(0xee))]);
        let Either::Right(first) = &mut tx.authorization_list[0] else { unreachable!("recovered") };
        let authorization = Authorization { chain_id: word(2), address: at(0xee), nonce: 0 };
        *first = RecoveredAuthorization::new_unchecked(authorization, RecoveredAuthority::Valid(at(4)));
        tx
    };
    let proof = case().block([foreign, tx(CAROL, 0, at(BOB)), tx(CAROL, 1, at(4))]).prove();
    assert_eq!(proof.account(at(4)).expect("there").code, None, "the authorization is for another chain");
    assert_eq!((proof.nonce(at(BOB)), proof.slot(at(BOB), 0)), (1, word(1)), "one of two nonces fits");
}

#[test]
fn eip7702_delegations_change_and_are_cleared_within_a_block() {
    let proof = case()
        .with([code(0xef, Asm::new().set(1, 7))])
        .block([
            delegating(tx(ALICE, 0, at(5)), &[(BOB, 0, at(0xee))]),
            tx(CAROL, 0, at(BOB)),
            delegating(tx(ALICE, 1, at(5)), &[(BOB, 1, at(0xef))]),
            tx(CAROL, 1, at(BOB)),
            delegating(tx(ALICE, 2, at(5)), &[(BOB, 2, Address::ZERO)]),
            tx(CAROL, 2, at(BOB)),
            tx(BOB, 3, at(CAROL)),
        ])
        .prove();
    let bob = proof.account(at(BOB)).expect("there");
    assert_eq!((&bob.code, bob.nonce), (&None, 4));
    assert_eq!(bob.storage, [(word(0), word(1)), (word(1), word(7))], "storage outlives the code");
}

#[test]
fn eip7702_delegations_are_not_followed_twice() {
    let proof = case()
        .block([
            delegating(tx(ALICE, 0, at(5)), &[(BOB, 0, at(0xee)), (CAROL, 0, at(BOB))]),
            tx(4, 0, at(BOB)),
            tx(4, 1, at(CAROL)),
        ])
        .prove();
    assert!(proof.succeeded(1) && !proof.succeeded(2), "a designator is not executed");
    assert_eq!((proof.slot(at(BOB), 0), proof.slot(at(CAROL), 0)), (word(1), word(0)));
}

#[test]
fn eip7702_calls_drain_a_delegated_sender() {
    // Pays its balance to its caller.
    let purse = Asm::new().ops(&[PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, 0x47, 0x33, 0x5a, CALL]);
    let drained = |third: TxEnv| {
        case()
            .with([code(0xab, purse.clone())])
            .block([delegating(tx(ALICE, 0, at(5)), &[(BOB, 0, at(0xab))]), tx(CAROL, 0, at(BOB)), third])
            .prove()
    };
    let proof = drained(tx(BOB, 1, at(ALICE)));
    let verdict = proof.blocks[0].as_ref().expect_err("the balance is drained");
    assert!(verdict.contains("index: 2, reason: LackOfFundForMaxFee"), "{verdict}");
    assert_eq!(drained(tx(4, 0, at(ALICE))).balance(at(BOB)), word(0));
}

#[test]
fn eip7702_a_delegated_account_sends_while_its_code_fails() {
    let proof = case()
        .with([code(0xab, Asm::new().set(0, 1).op(INVALID))])
        .block([
            delegating(tx(ALICE, 0, at(5)), &[(BOB, 0, at(0xab))]),
            pay(CAROL, 0, at(BOB), 9),
            pay(BOB, 1, at(0xd0), 4),
        ])
        .prove();
    assert_eq!([0, 1, 2].map(|index| proof.succeeded(index)), [true, false, true]);
    assert_eq!((proof.balance(at(0xd0)), proof.slot(at(BOB), 0)), (word(4), word(0)));
}
