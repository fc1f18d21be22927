//! Rewards of the beneficiary are visible to reads in every batch, and overflowing sums take a block back.

use super::{NEVER, ask, check, engine, open, pay, whole};
use crate::kit::{Asm, COINBASE, Case, ETHER, call, contract, eoa};
use phalanx::{
    Budget, Builder, CandidateTx, GenesisAccount, Target,
    revm::{
        bytecode::opcode::*,
        context::TxEnv,
        primitives::{Address, U256},
    },
};

/// `sstore(calldataload(0), balance(coinbase))`.
fn looker() -> Vec<u8> {
    Asm::new().op(COINBASE_OP).op(BALANCE).input().op(SSTORE).op(STOP).build()
}

const COINBASE_OP: u8 = phalanx::revm::bytecode::opcode::COINBASE;

/// Builds from groups, each in its own batches, and proves the block. Returns true if the block was taken back and run
/// serially.
fn build(case: &Case, threads: usize, groups: &[Vec<TxEnv>]) -> (bool, check::Made) {
    let mut engine = engine(case, threads);
    let mut builder = Builder::new(&engine);
    let mut job = open(&mut builder, &mut engine, case, Budget::default()).expect("a block");
    let mut rank = 0;
    for group in groups {
        let group = group.iter().map(|tx| (CandidateTx::new(tx.clone(), rank), rank += 1).0);
        job.extend(group.collect::<Vec<_>>(), NEVER).expect("execution");
        // An inspection in between must not disturb.
        assert!(job.best().failure.is_none());
    }
    let built = job.finish();
    check::complete(&built, rank as usize);
    let fallback = built.executed.block().stats().run.fallback;
    let Target::Whole(template) = whole(case, 10) else { unreachable!("a whole block") };
    (fallback, check::commit(&mut engine, &template, built))
}

fn transfers(nonce: u64) -> Vec<TxEnv> {
    (1..=20u8).map(|from| pay(from, nonce, from % 20 + 1)).collect()
}

#[test]
fn a_read_in_a_later_batch_sees_the_rewards_of_all_earlier_batches() {
    let case = Case::new("Osaka").with((1..=40).map(eoa)).with([contract(0xee, &looker())]);
    let looks: Vec<TxEnv> = (21..=25u8).map(|from| ask(from, 0, 0xee, u64::from(from))).collect();
    let mut mixed = transfers(2);
    mixed.extend((26..=30u8).map(|from| call(from, 0, COINBASE, 7)));
    mixed.extend((31..=35u8).map(|from| ask(from, 0, 0xee, u64::from(from))));
    let groups = [transfers(0), transfers(1), looks, mixed, transfers(3)];
    for threads in [1, 2, 4, 8] {
        let (fallback, made) = build(&case, threads, &groups);
        assert!(!fallback);
        check::replays(&case, &[made]);
    }
}

#[test]
fn the_beneficiary_may_be_new_empty_or_a_sender() {
    for fork in ["Frontier", "Homestead", "Byzantium", "London", "Osaka"] {
        for coinbase in [None, Some(U256::ZERO), Some(U256::from(ETHER))] {
            let account = coinbase.map(|balance| GenesisAccount { address: COINBASE, balance, ..Default::default() });
            let case = Case::new(fork).with((1..=20).map(eoa)).with(account);
            let plain = |tx: TxEnv| TxEnv { tx_type: 0, gas_priority_fee: None, gas_price: 7, ..tx };
            let group = |nonce| transfers(nonce).into_iter().map(plain).collect::<Vec<_>>();
            // Without a priority fee, where there is a base fee: the reward is zero.
            let mut groups = vec![group(0), group(1)];
            if coinbase.is_some_and(|balance| !balance.is_zero()) {
                groups.push(vec![TxEnv { caller: COINBASE, ..plain(pay(1, 0, 5)) }]);
                groups.push(group(2));
            }
            let (_, made) = build(&case, 2, &groups);
            check::replays(&case, &[made]);
        }
    }
}

#[test]
fn an_overflow_in_a_later_batch_takes_the_block_back() {
    let full = |address, room: u64| GenesisAccount {
        address,
        balance: U256::MAX - U256::from(room),
        ..GenesisAccount::default()
    };
    let rich = Address::repeat_byte(0x99);
    let case = Case::new("Osaka").with((1..=40).map(eoa)).with([full(rich, 25)]);
    let gifts = |senders: core::ops::RangeInclusive<u8>| {
        senders.map(|from| TxEnv { gas_limit: 50_000, ..call(from, 0, rich, 2) }).collect::<Vec<_>>()
    };
    for threads in [1, 4] {
        let (fallback, made) = build(&case, threads, &[gifts(1..=10), gifts(21..=30), gifts(31..=40)]);
        assert!(fallback, "five of the second ten overflow");
        assert_eq!(made.outcomes.iter().filter(|outcome| outcome.is_success()).count(), 12);
        check::replays(&case, &[made]);
    }
    // The rewards of the first batch fit; those of the second overflow.
    let case = Case::new("Osaka").with((1..=40).map(eoa)).with([full(COINBASE, 21_000 * 3 * 25)]);
    let (fallback, made) = build(&case, 4, &[transfers(0), transfers(1), transfers(2)]);
    assert!(fallback);
    check::replays(&case, &[made]);
}
