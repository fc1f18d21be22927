//! Destruction, creation after it, and payments in between.

use super::*;
use crate::kit::{Case, deploys};
use phalanx::revm::{
    bytecode::opcode::{ADDRESS, BALANCE, CALL, CALLER, CALLVALUE, CREATE2, EXTCODEHASH, POP, SELFDESTRUCT},
    primitives::keccak256,
};

const FACTORY: Address = at(0xfa);

/// With an input the contract destroys itself in favour of its caller; without input it counts in slot 0.
fn mortal() -> Asm {
    Asm::new().input().when(|code| code.ops(&[CALLER, SELFDESTRUCT])).count(0)
}

fn factory() -> GenesisAccount {
    code(0xfa, Asm::new().create_from_input(CREATE2).store(0))
}

/// Init code of [`mortal`] with 40 in slot 0, and the address at which the factory deploys it.
fn newborn() -> (Bytes, Address) {
    let init = deploys(Asm::new().set(0, 40), &mortal().build());
    let address = FACTORY.create2(B256::ZERO, keccak256(&init));
    (init, address)
}

fn make(from: u8, nonce: u64) -> TxEnv {
    TxEnv { data: newborn().0, ..tx(from, nonce, FACTORY) }
}

#[test]
fn eip6780_destruction_clears_code_and_storage_only_before_cancun() {
    for (fork, dies) in
        [("Frontier", true), ("Petersburg", true), ("Shanghai", true), ("Cancun", false), ("Osaka", false)]
    {
        let old = GenesisAccount {
            balance: word(11),
            storage: vec![(word(0), word(5)), (word(9), word(9))],
            ..code(0xdd, mortal())
        };
        let proof = Case::new(fork)
            .with(people())
            .with([old])
            .block([tx(ALICE, 0, at(0xdd)), with(tx(BOB, 0, at(0xdd)), 1), tx(CAROL, 0, at(0xdd))])
            .block([tx(CAROL, 1, at(0xdd))])
            .prove();
        let slots = [0, 9].map(|slot| proof.slot(at(0xdd), slot));
        if dies {
            assert_eq!(slots, [word(0); 2], "{fork}");
            assert_eq!(
                proof.account(at(0xdd)).is_some(),
                fork == "Frontier",
                "{fork}: an empty call leaves an empty account"
            );
        } else {
            assert_eq!(slots, [word(8), word(9)], "{fork}");
            assert_eq!(proof.balance(at(0xdd)), word(0), "{fork}: the balance went to the caller");
        }
    }
}

#[test]
fn a_contract_is_destroyed_and_created_again_in_one_block() {
    for fork in ["Petersburg", "London", "Shanghai"] {
        let (_, child) = newborn();
        let proof = Case::new(fork)
            .with(people())
            .with([factory()])
            .block([make(ALICE, 0), tx(BOB, 0, child), with(tx(CAROL, 0, child), 1), make(4, 0), tx(5, 0, child)])
            // The same again in a block of its own, on committed storage.
            .block([
                with(tx(ALICE, 1, child), 1),
                pay(BOB, 1, child, 3),
                make(CAROL, 1),
                tx(4, 1, child),
                tx(5, 1, child),
            ])
            .prove();
        assert_eq!(proof.block(0).state[&child].storage, [(word(0), word(41))], "{fork}");
        assert_eq!(proof.slot(child, 0), word(42), "{fork}");
        assert_eq!(proof.balance(child), word(3), "{fork}: the new contract keeps the payments in between");
        assert_eq!(proof.nonce(child), 1, "{fork}");
    }
}

#[test]
fn eip684_creation_over_a_living_contract_fails() {
    let (_, child) = newborn();
    // A failed creation takes all its gas.
    let again = TxEnv { gas_limit: 3_000_000, ..make(4, 0) };
    let proof = Case::new("Osaka")
        .with(people())
        .with([factory()])
        .block([make(ALICE, 0), tx(BOB, 0, child), with(tx(CAROL, 0, child), 1), again, tx(5, 0, child)])
        .prove();
    assert_eq!(proof.slot(FACTORY, 0), word(0), "the second creation returned no address");
    assert_eq!(proof.slot(child, 0), word(42));
}

#[test]
fn value_sent_to_a_destroyed_contract_is_burnt() {
    // The contract is destroyed by the first call and paid by the second, in one transaction.
    let killer = Asm::new().call_with(CALL, at(0xdd), 1, 60_000).op(POP).call(CALL, at(0xdd), 7, 60_000).op(POP);
    for (fork, left) in [("Frontier", 0), ("Shanghai", 0), ("Cancun", 7)] {
        let killer = GenesisAccount { balance: word(10), ..code(0xaa, killer.clone()) };
        let proof = Case::new(fork)
            .with(people())
            .with([
                killer,
                code(0xdd, Asm::new().op(CALLVALUE).when(|code| code.ops(&[0])).ops(&[CALLER, SELFDESTRUCT])),
            ])
            .block([tx(ALICE, 0, at(0xaa)), tx(BOB, 0, at(CAROL))])
            .prove();
        assert_eq!((proof.balance(at(0xaa)), proof.balance(at(0xdd))), (word(3), word(left)), "{fork}");
    }
}

#[test]
fn eip6780_destruction_with_itself_as_heir_burns_only_before_cancun() {
    for (fork, left) in [("Frontier", 0), ("Shanghai", 0), ("Cancun", 9), ("Osaka", 9)] {
        let selfish = GenesisAccount { balance: word(9), ..code(0xdd, Asm::new().ops(&[ADDRESS, SELFDESTRUCT])) };
        let proof = Case::new(fork)
            .with(people())
            .with([selfish])
            .block([tx(ALICE, 0, at(0xdd)), tx(BOB, 0, at(CAROL))])
            .prove();
        assert_eq!(proof.balance(at(0xdd)), word(left), "{fork}");
    }
}

#[test]
fn eip6780_creation_and_destruction_in_one_transaction_leave_no_account() {
    // Since Cancun only this removes an account.
    for fork in ["Shanghai", "Cancun", "Osaka"] {
        let init: Bytes = deploys(Asm::new().set(3, 3), &Asm::new().ops(&[CALLER, SELFDESTRUCT]).build());
        let child = FACTORY.create2(B256::ZERO, keccak256(&init));
        // Creates a contract, and calls it.
        let both = Asm::new().create_from_input(CREATE2).op(POP).call(CALL, child, 2, 60_000).store(1);
        let factory = GenesisAccount { balance: word(10), ..code(0xfa, both) };
        let make = |from| TxEnv { data: init.clone(), ..tx(from, 0, FACTORY) };
        let proof = Case::new(fork).with(people()).with([factory]).block([make(ALICE), make(BOB), make(CAROL)]).prove();
        assert_eq!(proof.account(child), None, "{fork}");
        assert_eq!((proof.balance(FACTORY), proof.slot(FACTORY, 1)), (word(10), word(1)), "{fork}");
        assert_eq!(proof.nonce(FACTORY), 4, "{fork}: each creation succeeded");
    }
}

#[test]
fn a_payment_after_a_destruction_makes_an_account_without_code_and_storage() {
    let (_, child) = newborn();
    let look = Asm::new().addr(child).op(BALANCE).store(0).addr(child).op(EXTCODEHASH).store(1);
    let proof = Case::new("London")
        .with(people())
        .with([factory(), code(0xee, look)])
        .block([make(ALICE, 0)])
        .block([with(tx(ALICE, 1, child), 1), pay(BOB, 0, child, 5), tx(CAROL, 0, at(0xee)), tx(4, 0, child)])
        .prove();
    assert_eq!(proof.slot(at(0xee), 0), word(5));
    assert_eq!(proof.slot(at(0xee), 1), of(keccak256([])), "an account without code");
    assert_eq!(proof.account(child).expect("revived").storage, []);
}
