//! Code deployed within a block, and accounts with code as senders.

use super::*;
use crate::kit::{Case, deploys};
use phalanx::revm::bytecode::opcode::{CALL, CALLVALUE, CREATE, POP};

#[test]
fn a_call_runs_code_deployed_earlier_in_the_block() {
    for fork in ["Frontier", "Byzantium", "Osaka"] {
        let child = at(ALICE).create(0);
        let caller = Asm::new().call(CALL, child, 0, 60_000).op(POP);
        let proof = Case::new(fork)
            .with(people())
            .with([code(0xee, caller)])
            .block([
                tx(BOB, 0, at(0xee)),
                create(ALICE, 0, deploys(Asm::new(), &Asm::new().count(0).build())),
                tx(BOB, 1, at(0xee)),
                tx(CAROL, 0, child),
            ])
            .prove();
        assert_eq!(proof.slot(child, 0), word(2), "{fork}: the first call came before the code");
    }
}

#[test]
fn a_transfer_runs_code_deployed_at_its_receiver_in_the_block() {
    let child = at(ALICE).create(0);
    let code = deploys(Asm::new(), &Asm::new().op(CALLVALUE).store(0).count(1).build());
    let proof = Case::new("Osaka")
        .with(people())
        .block([pay(4, 0, child, 1), create(ALICE, 0, code), pay(BOB, 0, child, 7), pay(CAROL, 0, child, 9)])
        .prove();
    assert_eq!((proof.slot(child, 0), proof.slot(child, 1)), (word(9), word(2)));
    assert_eq!(proof.balance(child), word(17));
}

#[test]
fn eip3607_contracts_send_no_transactions() {
    let proof = Case::new("London")
        .with(people())
        .with([GenesisAccount { balance: word(1 << 60), ..code(0xee, Asm::new().count(0)) }])
        .block([tx(ALICE, 0, at(0xee)), tx(0xee, 1, at(BOB)), tx(BOB, 0, at(ALICE))])
        .prove();
    let verdict = proof.blocks[0].as_ref().expect_err("EIP-3607");
    assert!(verdict.contains("index: 1, reason: RejectCallerWithCode"), "{verdict}");
}

#[test]
fn eip684_creation_collides_with_code_and_nonce() {
    let factory = at(0xfa);
    for fork in ["EIP158", "Petersburg", "Osaka"] {
        // The second creation of the block meets an account that has sent a transaction. A collision takes all its gas,
        // so the factory needs some of its own.
        let taken = GenesisAccount { address: factory.create(2), nonce: 1, ..GenesisAccount::default() };
        let make = |from| TxEnv { data: deploys(Asm::new(), &[0]), gas_limit: 3_000_000, ..tx(from, 0, factory) };
        let proof = Case::new(fork)
            .with(people())
            .with([code(0xfa, Asm::new().create_from_input(CREATE).store(0)), taken])
            .block([make(ALICE), make(BOB)])
            .prove();
        assert_eq!(proof.slot(factory, 0), word(0), "{fork}");
        assert_eq!(proof.account(factory.create(2)).expect("there").code, None, "{fork}");
        assert!(proof.account(factory.create(1)).expect("created").code.is_some(), "{fork}");
        assert_eq!(proof.nonce(factory), 3, "{fork}");
    }
}
