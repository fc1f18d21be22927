//! Keys that differ in few bits, and the independence of a root from salts and schedules.

use super::*;
use crate::kit::Case;
use phalanx::{
    Engine, Executor, Hints,
    revm::bytecode::opcode::{ADD, CALLDATALOAD, SLOAD, SSTORE},
};

/// Words of which any two differ in few bits, often far from either end.
fn alike() -> Vec<U256> {
    let single = (0..256).step_by(8).map(|bit| U256::ONE << bit);
    single.chain([U256::ZERO, U256::MAX, U256::MAX >> 1]).collect()
}

#[test]
fn keys_are_compared_in_full() {
    // sstore(input, sload(input) + 1)
    let counter = Asm::new().input().op(SLOAD).push(U256::ONE).op(ADD).push(U256::ZERO).ops(&[CALLDATALOAD, SSTORE]);
    // Contracts whose addresses differ in one byte, at any place.
    let homes: Vec<Address> = (0..20)
        .map(|place| {
            let mut address = at(0xee);
            address.0[place] ^= 0x10;
            address
        })
        .collect();
    let contracts = homes.iter().map(|address| GenesisAccount { address: *address, ..code(0, counter.clone()) });
    let mut nonces = [0; 11];
    let mut txs = Vec::new();
    for (index, slot) in alike().into_iter().chain(alike()).enumerate() {
        let from = 1 + (index % 10) as u8;
        let data = slot.to_be_bytes_vec().into();
        txs.push(TxEnv { data, gas_limit: 100_000, ..tx(from, nonces[from as usize], homes[index % 5]) });
        nonces[from as usize] += 1;
    }
    for (index, home) in homes.iter().enumerate() {
        let from = 1 + (index % 10) as u8;
        txs.push(pay(from, nonces[from as usize], *home, index as u64 + 1));
        nonces[from as usize] += 1;
    }
    let proof = Case::new("Osaka").with(people()).with(contracts).block(txs).prove();
    let counted: U256 =
        homes[..5].iter().flat_map(|home| &proof.account(*home).expect("there").storage).map(|(_, n)| *n).sum();
    // Each word once more by each payment without input: payments count in slot 0.
    assert_eq!(counted, word(2 * alike().len() as u64 + 5));
    for (index, home) in homes.iter().enumerate() {
        assert_eq!(proof.balance(*home), word(index as u64 + 1));
    }
}

#[test]
fn salts_hints_and_threads_change_no_root_of_a_given_order() {
    let counter = code(0xee, Asm::new().count(0));
    let case = Case::new("Osaka")
        .with(people())
        .with([counter])
        .block((1..=10).map(|from| if from % 2 == 0 { tx(from, 0, at(0xee)) } else { pay(from, 0, at(from + 1), 3) }));
    let proof = case.prove();
    for salt in [0, 1, u64::MAX] {
        for (executor, threads) in [(Executor::Dag, 1), (Executor::Dag, 4), (Executor::BlockStm, 4)] {
            let builder = Engine::builder().with_force_parallel(true).with_chain(case.rules.clone()).with_salt(salt);
            let mut engine = builder.with_executor(executor).with_threads(threads).build().expect("an engine");
            engine.genesis(case.genesis.iter().cloned()).expect("a sound genesis");
            let executed = engine.execute_block(&case.blocks[0].payload(), Hints::Predict).expect("a valid block");
            assert_eq!(engine.merkleize(executed).expect("a root").state_root(), proof.last().root);
        }
    }
    assert_eq!(proof.slot(at(0xee), 0), word(5));
}
