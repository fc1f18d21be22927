//! Gas: warmth, refunds, floors, caps and the limit of the block.

use super::*;
use crate::kit::Case;
use phalanx::revm::{
    bytecode::opcode::{MSTORE8, POP, STOP},
    context_interface::transaction::AccessListItem,
};

#[test]
fn eip2929_warmth_ends_with_the_transaction() {
    let reader = || code(0xee, Asm::new().load(0).op(POP).load(0).op(POP));
    for (fork, loads) in [("Frontier", 2 * 50), ("Istanbul", 2 * 800), ("Berlin", 2_100 + 100), ("Osaka", 2_100 + 100)]
    {
        let proof =
            Case::new(fork).with(people()).with([reader()]).block((1..=8).map(|from| tx(from, 0, at(0xee)))).prove();
        for index in 0..8 {
            // Two pushes and two pops.
            assert_eq!(proof.gas(index), 21_000 + loads + 2 * (3 + 2), "{fork}, {index}");
        }
    }
}

#[test]
fn eip2200_the_original_value_is_the_value_before_the_transaction() {
    // 0 → 1, 1 → 2, 2 → 0, 0 → 3: each first write of a transaction is priced by the value that its predecessor left.
    let writer = || code(0xee, Asm::new().input().store(0));
    let txs = [1, 2, 0, 3].into_iter().zip(1..).map(|(value, from)| with(tx(from, 0, at(0xee)), value));
    let base = |value: u64| 21_000 + if value == 0 { 32 * 4 } else { 31 * 4 + 16 } + 3 * 3;
    let proof = Case::new("London").with(people()).with([writer()]).block(txs).prove();
    let spent = [1, 2, 0, 3].map(base);
    assert_eq!(proof.gas(0), spent[0] + 22_100);
    assert_eq!(proof.gas(1), spent[1] + 5_000);
    assert_eq!(proof.gas(2), spent[2] + 5_000 - 4_800, "cleared: the refund is below a fifth");
    assert_eq!(proof.gas(3), spent[3] + 22_100);
}

#[test]
fn eip3529_refunds_are_capped_per_transaction() {
    let slots: Vec<_> = (0..8).map(|slot| (word(slot), word(1))).collect();
    let clears = (0..8).fold(Asm::new(), |code, slot| code.set(slot, 0));
    for (fork, part) in [("Istanbul", 2), ("London", 5)] {
        let full = GenesisAccount { storage: slots.clone(), ..code(0xee, clears.clone()) };
        let refill = |from| tx(from, 0, at(0xee));
        let proof = Case::new(fork).with(people()).with([full]).block([refill(ALICE), refill(BOB)]).prove();
        let spent = 21_000 + 8 * (6 + 5_000);
        assert_eq!(proof.gas(0), spent - spent / part, "{fork}");
        assert!(proof.gas(1) < spent / 2 + 10_000, "{fork}: nothing is left to clear");
    }
}

#[test]
fn eip7623_calldata_has_a_floor_price_since_prague() {
    let data = |from| TxEnv { data: vec![1; 1_000].into(), ..tx(from, 0, at(0xd0)) };
    for (fork, gas) in [("Cancun", 21_000 + 16_000), ("Prague", 21_000 + 40_000)] {
        let proof = Case::new(fork).with(people()).block([data(ALICE), data(BOB), tx(CAROL, 0, at(ALICE))]).prove();
        assert_eq!([0, 1, 2].map(|index| proof.gas(index)), [gas, gas, 21_000], "{fork}");
    }
}

#[test]
fn eip2930_access_lists_warm_only_their_own_transaction() {
    let reader = || code(0xee, Asm::new().load(0).op(STOP));
    let listed = |from| TxEnv {
        tx_type: 1,
        access_list: vec![AccessListItem { address: at(0xee), storage_keys: vec![B256::ZERO] }].into(),
        ..tx(from, 0, at(0xee))
    };
    let proof = Case::new("Berlin")
        .with(people())
        .with([reader()])
        .block([listed(ALICE), tx(BOB, 0, at(0xee)), listed(CAROL)])
        .prove();
    assert_eq!(proof.gas(1), 21_000 + 3 + 2_100);
    assert_eq!([0, 2].map(|index| proof.gas(index)), [21_000 + 2_400 + 1_900 + 3 + 100; 2]);
}

#[test]
fn eip7825_the_gas_of_a_transaction_is_capped_since_osaka() {
    let large = |gas_limit| TxEnv { gas_limit, ..tx(BOB, 0, at(CAROL)) };
    let cap = 1 << 24;
    for (fork, gas_limit, valid) in [("Prague", cap + 1, true), ("Osaka", cap, true), ("Osaka", cap + 1, false)] {
        let proof = Case::new(fork).with(people()).block([tx(ALICE, 0, at(BOB)), large(gas_limit)]).prove();
        assert_eq!(proof.blocks[0].is_ok(), valid, "{fork}, {gas_limit}");
        if let Err(verdict) = &proof.blocks[0] {
            assert!(verdict.contains("index: 1, reason: TxGasLimitGreaterThanCap"), "{verdict}");
        }
    }
}

#[test]
fn remaining_block_gas_is_counted_in_block_order() {
    // The loop uses all its gas, the transfers little of their limits.
    let burner = || code(0xee, Asm::new().ops(&[0x5b]).push(U256::ZERO).op(0x56));
    let txs = || [tx(ALICE, 0, at(BOB)), TxEnv { gas_limit: 100_000, ..tx(BOB, 0, at(0xee)) }, tx(CAROL, 0, at(BOB))];
    let needed = 21_000 + 100_000 + 300_000;
    for (limit, verdict) in [(needed, None), (needed - 1, Some(2)), (120_999, Some(0)), (300_000, Some(2))] {
        let case = Case::new("Osaka").with(people()).with([burner()]);
        let proof = case.block_with(txs(), |body| body.header.gas_limit = limit).prove();
        match verdict {
            None => assert_eq!(proof.last().gas_used, 21_000 + 100_000 + 21_000),
            Some(index) => {
                let reason = proof.blocks[0].as_ref().expect_err("the block has no gas left");
                assert!(reason.contains("GasLimit") || reason.contains("CallerGasLimit"), "{reason}");
                assert!(reason.contains(&format!("index: {index}")), "{limit}: {reason}");
            }
        }
    }
}

#[test]
fn precompiles_are_priced_by_input_and_fork() {
    // Identity with too little gas and with enough: same input, other outcome; and modexp on minimal input.
    let identity = Address::with_last_byte(4);
    let calls = Asm::new()
        .push(U256::ONE)
        .push(U256::from(31))
        .op(MSTORE8)
        .call(phalanx::revm::bytecode::opcode::CALL, identity, 0, 17)
        .store(0)
        .call(phalanx::revm::bytecode::opcode::CALL, identity, 0, 18)
        .store(1)
        .call(phalanx::revm::bytecode::opcode::CALL, Address::with_last_byte(5), 0, 100)
        .store(2);
    for (fork, modexp) in [("Homestead", 1), ("Byzantium", 1), ("Berlin", 0), ("Osaka", 0)] {
        let proof = Case::new(fork)
            .with(people())
            .with([code(0xee, calls.clone())])
            .block([tx(ALICE, 0, at(0xee)), tx(BOB, 0, at(0xee)), tx(CAROL, 0, at(0xee))])
            .prove();
        let slots = [0, 1, 2].map(|slot| proof.slot(at(0xee), slot));
        assert_eq!(slots, [word(0), word(1), word(modexp)], "{fork}");
    }
}
