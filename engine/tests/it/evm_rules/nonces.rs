//! Nonces that rise by other means than sending.

use super::*;
use crate::kit::{Case, deploys};
use phalanx::revm::bytecode::opcode::{CREATE, STOP};

#[test]
fn eip7702_a_self_authorization_raises_the_senders_nonce_twice() {
    let counter = at(0xee);
    // The sender authorises itself, so its nonce rises by two; its next transaction in the block builds on that.
    let proof = Case::new("Prague")
        .with(people())
        .with([code(0xee, Asm::new().count(0))])
        .block([
            delegating(tx(ALICE, 0, at(BOB)), &[(ALICE, 1, counter)]),
            tx(ALICE, 2, at(CAROL)),
            delegating(tx(ALICE, 3, at(ALICE)), &[(ALICE, 4, counter), (ALICE, 5, counter)]),
            tx(ALICE, 6, at(CAROL)),
        ])
        .prove();
    assert_eq!(proof.nonce(at(ALICE)), 7);
    assert_eq!(proof.slot(at(ALICE), 0), word(1), "its own call ran the code of the new delegation");
}

#[test]
fn eip7702_calls_raise_the_nonce_of_an_account_that_creates_by_delegation() {
    let creator = Asm::new().create_from_input(CREATE).store(0);
    let init = deploys(Asm::new(), &[STOP]);
    let calls = |from, nonce| TxEnv { data: init.clone(), ..tx(from, nonce, at(ALICE)) };
    let proof = Case::new("Osaka")
        .with(people())
        .with([code(0xee, creator)])
        .block([
            delegating(tx(BOB, 0, at(CAROL)), &[(ALICE, 0, at(0xee))]),
            calls(BOB, 1),
            calls(CAROL, 0),
            tx(ALICE, 3, at(BOB)),
            calls(BOB, 2),
        ])
        .prove();
    assert_eq!(proof.nonce(at(ALICE)), 5);
    assert_eq!(proof.slot(at(ALICE), 0), of(at(ALICE).create(4).into_word()));
    assert!([1, 2, 4].iter().all(|nonce| proof.account(at(ALICE).create(*nonce)).is_some()));
}

#[test]
fn eip161_nonces_of_contracts_are_state() {
    let factory = at(0xfa);
    let init = deploys(Asm::new(), &[STOP]);
    for fork in ["Frontier", "EIP158", "Osaka"] {
        let txs = (1..=8).map(|from| TxEnv { data: init.clone(), ..tx(from, 0, factory) });
        let proof = Case::new(fork)
            .with(people())
            .with([code(0xfa, Asm::new().create_from_input(CREATE).store(0))])
            .block(txs)
            .prove();
        assert_eq!(proof.nonce(factory), 9, "{fork}");
        assert_eq!(proof.slot(factory, 0), of(factory.create(8).into_word()), "{fork}");
        assert!((1..=8).all(|nonce| proof.account(factory.create(nonce)).is_some()), "{fork}");
    }
}
