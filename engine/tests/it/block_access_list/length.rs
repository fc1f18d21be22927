//! Length of a received list: as many items as the block's gas can pay for by the fork's rules, and no more.

use super::{encode, execute, list};
use crate::kit::{Asm, Case, Hint, Way, call, contract, eoa};
use phalanx::{
    AccessListFault, BlockError,
    revm::{
        bytecode::opcode::POP,
        context::{
            TxEnv,
            transaction::{AccessList, AccessListItem},
        },
        primitives::{Address, B256, U256, keccak256},
    },
};

/// Number of calls, of slots that each reads, and of slots that each clears.
const CALLS: u8 = 4;
const READS: u64 = 4_400;
const CLEARS: u64 = 460;

/// Calls that read slots and clear others, each in a contract of its own. Every slot is in the transaction's list.
fn clears_and_reads(fork: &str, gas_limit: u64) -> Case {
    let mut code = Asm::new();
    for slot in 0..CLEARS {
        code = code.set(slot, 0);
    }
    for slot in CLEARS..CLEARS + READS {
        code = code.load(slot).op(POP);
    }
    let code = code.build();
    let contracts = (0..CALLS).map(|number| {
        let mut contract = contract(0xc0 + number, &code);
        contract.storage = (0..CLEARS).map(|slot| (U256::from(slot), U256::ONE)).collect();
        contract
    });
    let calls = (0..CALLS).map(|number| {
        let address = Address::repeat_byte(0xc0 + number);
        let storage_keys = (0..CLEARS + READS).map(|slot| B256::from(U256::from(slot))).collect();
        let access_list = AccessList(vec![AccessListItem { address, storage_keys }]);
        TxEnv {
            tx_type: 1,
            gas_limit: 11_200_000,
            gas_priority_fee: None,
            access_list,
            ..call(1, number.into(), address, 0)
        }
    });
    Case::new(fork).with(contracts).with([eoa(1)]).block_with(calls, |body| body.header.gas_limit = gas_limit)
}

#[test]
fn a_block_whose_refunds_pay_for_a_part_of_its_list_is_accepted_with_it() {
    // Half of the gas is refunded in Berlin, and a fifth since London.
    for (fork, gas_limit) in [("Berlin", 30_000_000), ("London", 38_000_000), ("Prague", 38_000_000)] {
        let case = clears_and_reads(fork, gas_limit);
        let list = list(&case).expect("a valid block");
        let items: usize = list.iter().map(|a| 1 + a.storage_changes.len() + a.storage_reads.len()).sum();
        assert!(items as u64 > gas_limit / 2000 + 128, "{fork}: {items} items need no refund");
        let rlp = encode(&list);
        for way in [Way::sequential(), Way::dag(2, Hint::AccessList), Way::stm(2, None)] {
            let executed = execute(&case, &case.blocks[0], &way, &rlp, keccak256(&rlp));
            assert!(executed.is_ok(), "{fork}, {way:?}, {items} items: {:?}", executed.err());
        }
    }
}

#[test]
fn every_fork_has_a_bound_of_its_own_and_it_is_exact() {
    let gas = 1_000_000;
    // Gas before refunds, by the least gas of an item.
    let forks = [
        ("Frontier", 2 * gas / 20),
        ("Homestead", 2 * gas / 20),
        ("EIP150", 2 * gas / 200),
        ("Byzantium", 2 * gas / 200),
        ("Istanbul", 2 * gas / 700),
        ("Berlin", 2 * gas / 2000),
        ("London", gas * 5 / 4 / 2000),
        ("Osaka", gas * 5 / 4 / 2000),
        ("Amsterdam", gas / 2000),
    ];
    for (fork, paid) in forks {
        // What no gas pays for counts as paid from Amsterdam on.
        let most = if fork == "Amsterdam" { paid } else { paid + 128 };
        let tx = TxEnv { tx_type: 0, gas_priority_fee: None, ..call(1, 0, Address::repeat_byte(2), 1) };
        let case = Case::new(fork).with([eoa(1)]).block_with([tx], |body| body.header.gas_limit = gas);
        let mut list = list(&case).expect("a valid block");
        let items = |list: &[phalanx::eip7928::AccountChanges]| {
            list.iter().map(|a| 1 + a.storage_changes.len() + a.storage_reads.len()).sum::<usize>() as u64
        };
        let room = most - items(&list);
        for extra in [room, room + 1] {
            let last = list.len() - 1;
            list[last].storage_reads = (0..extra).map(|slot| U256::from(1_000_000 + slot)).collect();
            let rlp = encode(&list);
            let refused = execute(&case, &case.blocks[0], &Way::dag(1, Hint::AccessList), &rlp, keccak256(&rlp));
            let Err(BlockError::AccessList { what, .. }) = refused else { panic!("{fork}: a slot too many") };
            match what {
                AccessListFault::TooLong { items, most: bound } => {
                    assert_eq!((extra, items, bound), (room + 1, most + 1, most), "{fork}");
                }
                other => assert_eq!(extra, room, "{fork}: {other}"),
            }
        }
    }
}

/// A byte of a list may take 32 in memory: a length that no block could pay for is refused before anything is decoded.
#[test]
fn a_list_that_no_block_could_pay_for_is_not_decoded() {
    for (fork, most) in [("Amsterdam", 1_000_000 / 8), ("Osaka", 1_250_000 / 8), ("Byzantium", 8_000_000)] {
        let tx = TxEnv { tx_type: 0, gas_priority_fee: None, ..call(1, 0, Address::repeat_byte(2), 1) };
        let case = Case::new(fork).with([eoa(1)]).block_with([tx], |body| body.header.gas_limit = 1_000_000);
        let unpaid = (1 << 18) + 64 * case.blocks[0].withdrawals.as_ref().map_or(0, Vec::len);
        for (length, is_decoded) in [(most + unpaid, true), (most + unpaid + 1, false)] {
            // No list begins with a string.
            let rlp = vec![0; length];
            let refused = execute(&case, &case.blocks[0], &Way::dag(2, Hint::AccessList), &rlp, keccak256(&rlp));
            let why = refused.expect_err("no list").to_string();
            assert_eq!(why.contains("could pay for"), !is_decoded, "{fork}, {length}: {why}");
        }
    }
}
