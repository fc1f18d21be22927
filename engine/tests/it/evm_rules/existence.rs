//! Empty, absent and touched accounts.

use super::*;
use crate::kit::{COINBASE, Case};
use phalanx::revm::{
    bytecode::opcode::{CALL, EXTCODEHASH, INVALID, POP},
    primitives::keccak256,
};

fn shell(address: Address) -> GenesisAccount {
    GenesisAccount { address, ..GenesisAccount::default() }
}

#[test]
fn eip161_empty_accounts_exist_before_spurious_dragon_and_a_touch_deletes_them_since() {
    for (fork, exists) in [("Frontier", true), ("EIP150", true), ("EIP158", false), ("Osaka", false)] {
        let toucher = Asm::new().call(CALL, at(0xe1), 0, 1_000).op(POP).call(CALL, at(0xe2), 0, 1_000).op(POP);
        let proof = Case::new(fork)
            .with(people())
            .with([shell(at(0xe0)), shell(at(0xe1)), shell(at(0xe3)), code(0xee, toucher)])
            .block([tx(ALICE, 0, at(0xe0)), tx(BOB, 0, at(0xee)), tx(CAROL, 0, at(0xe4))])
            .prove();
        for touched in [0xe0, 0xe1, 0xe2, 0xe4] {
            assert_eq!(proof.account(at(touched)).is_some(), exists, "{fork}, {touched:x}");
        }
        assert!(proof.account(at(0xe3)).is_some(), "{fork}: untouched");
    }
}

#[test]
fn eip161_the_price_of_a_new_account_depends_on_earlier_transactions() {
    let payer = || GenesisAccount { balance: word(9), ..code(0xee, Asm::new().call(CALL, at(0xd0), 1, 1_000).op(POP)) };
    for fork in ["Frontier", "EIP158", "Osaka"] {
        let case = || Case::new(fork).with(people()).with([payer()]);
        let later = case().block([pay(ALICE, 0, at(0xd0), 1), tx(BOB, 0, at(0xee))]).prove();
        let first = case().block([tx(BOB, 0, at(0xee)), pay(ALICE, 0, at(0xd0), 1)]).prove();
        assert_eq!(first.gas(0) - later.gas(1), 25_000, "{fork}");
        assert_eq!((first.balance(at(0xd0)), later.balance(at(0xd0))), (word(2), word(2)), "{fork}");
    }
    // Before Spurious Dragon existence decides, since then emptiness.
    for (fork, dearer) in [("Frontier", 0), ("EIP158", 25_000)] {
        let case = |touched: bool| {
            let shell = touched.then(|| shell(at(0xd0)));
            Case::new(fork).with(people()).with([payer()]).with(shell).block([tx(BOB, 0, at(0xee))]).prove().gas(0)
        };
        assert_eq!(case(false) - case(true), 25_000 - dearer, "{fork}");
    }
}

#[test]
fn eip161_the_touch_of_ripemd_survives_a_revert() {
    let ripemd = Address::with_last_byte(3);
    let fails = Asm::new().call(CALL, ripemd, 0, 1).op(POP).call(CALL, at(0xe0), 0, 0).op(POP).op(INVALID);
    let outer = Asm::new().call(CALL, at(0xaa), 0, 30_000).store(0).count(1);
    let proof = Case::new("EIP158")
        .with(people())
        .with([shell(ripemd), shell(at(0xe0)), code(0xaa, fails), code(0xee, outer)])
        .block([tx(ALICE, 0, at(0xee)), tx(BOB, 0, at(CAROL))])
        .prove();
    assert_eq!((proof.slot(at(0xee), 0), proof.slot(at(0xee), 1)), (word(0), word(1)), "the inner call failed");
    assert_eq!(proof.account(ripemd), None, "as on mainnet in block 2675119");
    assert!(proof.account(at(0xe0)).is_some(), "other touches are undone");
}

#[test]
fn eip1052_extcodehash_distinguishes_absent_accounts_from_codeless_ones() {
    let look = |slot: u64| Asm::new().addr(at(0xd0)).op(EXTCODEHASH).store(slot);
    for fork in ["Petersburg", "Osaka"] {
        let proof = Case::new(fork)
            .with(people())
            .with([code(0xe1, look(0)), code(0xe2, look(0)), shell(at(0xd1))])
            .block([tx(ALICE, 0, at(0xe1)), pay(BOB, 0, at(0xd0), 1), tx(CAROL, 0, at(0xe2))])
            .prove();
        assert_eq!(proof.slot(at(0xe1), 0), word(0), "{fork}");
        assert_eq!(proof.slot(at(0xe2), 0), of(keccak256([])), "{fork}");
    }
}

#[test]
fn an_address_may_have_several_roles_in_a_block() {
    for fork in ["Homestead", "EIP158", "London", "Osaka"] {
        let created = at(CAROL).create(0);
        let own = |nonce, to| TxEnv { caller: COINBASE, ..pay(ALICE, nonce, to, 3) };
        let rich = GenesisAccount { address: COINBASE, balance: word(1 << 60), ..GenesisAccount::default() };
        let proof = Case::new(fork)
            .with(people())
            .with([rich, GenesisAccount { address: created, balance: word(77), ..GenesisAccount::default() }])
            .block([
                pay(ALICE, 0, at(ALICE), 5),
                pay(ALICE, 1, COINBASE, 5),
                own(0, COINBASE),
                own(1, at(BOB)),
                pay(BOB, 0, Address::with_last_byte(4), 6),
                pay(BOB, 1, Address::ZERO, 6),
                pay(BOB, 2, alloy_eips::eip4788::BEACON_ROOTS_ADDRESS, 6),
                TxEnv { value: word(1), ..create(CAROL, 0, crate::kit::deploys(Asm::new(), &[0])) },
            ])
            .prove();
        assert_eq!(proof.balance(created), word(78), "{fork}: the contract keeps the earlier balance");
        assert_eq!(proof.nonce(COINBASE), 2, "{fork}");
        assert_eq!(proof.balance(Address::with_last_byte(4)), word(6), "{fork}");
        assert_eq!(proof.balance(alloy_eips::eip4788::BEACON_ROOTS_ADDRESS), word(6), "{fork}");
    }
}
