//! Work that nothing pays for: transactions that turn out to be invalid, or that find no room.

use super::{
    case::{Case, Given, Size},
    code::{Code, account, at, call, contract, sender, senders},
    codes,
};
use phalanx::{
    GenesisAccount,
    revm::{
        bytecode::opcode::{CALL, GAS, PUSH1, SELFBALANCE},
        context::TxEnv,
        primitives::U256,
    },
};

/// Gas that a call of burning code needs beside what it burns.
const BESIDE: u64 = 80_000;

/// Account that takes what others give away.
const TAKER: u64 = 999_999;

/// Code that burns most of a gas limit, and then writes one of five slots.
fn heavy(number: u64, gas_limit: u64) -> GenesisAccount {
    let burnt = gas_limit.saturating_sub(BESIDE);
    contract(number, Code::distinct(number).burn(burnt).store(number % 5, 1).end())
}

/// Pairs: a delegated account gives all away by calling itself, and then calls with all the gas that it could pay before.
pub(super) fn swept(size: Size) -> Case {
    const SWEEPER: u64 = 900_000;
    let gas = size.share(2);
    let sweep = Code::default()
        .ops(&[PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, SELFBALANCE])
        .word(sender(TAKER).into_word().into());
    let mut genesis = vec![contract(SWEEPER, sweep.ops(&[GAS, CALL]).end()), account(TAKER, 1)];
    let mut txs = Vec::new();
    for number in 0..60 {
        let delegation = [&[0xef, 1, 0], at(SWEEPER).as_slice()].concat();
        let balance = u128::from(gas) + 100_000;
        genesis.push(GenesisAccount { code: Some(delegation.into()), ..account(number, balance) });
        genesis.push(heavy(number, gas));
        txs.push(call(number, 0, sender(number), 60_000));
        txs.push(call(number, 1, at(number), gas));
    }
    Case::new(genesis, vec![txs])
}

fn pairs(size: Size, codes: u64) -> Case {
    let gas = size.share(9);
    let balance = u128::from(gas) * 3;
    let (mut genesis, mut txs): (Vec<_>, _) = ((0..codes).map(|number| heavy(number, gas)).collect(), Vec::new());
    for number in 0..200 {
        genesis.push(account(number, balance));
        // What is left does not pay for the second one.
        let value = U256::from(balance - 21_000 - 50_000);
        txs.push(TxEnv { value, ..call(number, 0, sender(TAKER), 21_000) });
        txs.push(call(number, 1, at(number % codes), gas));
    }
    Case::new(genesis, vec![txs])
}

/// Pairs: the sender sends its balance away, and then makes a heavy call.
pub(super) fn drained(size: Size) -> Case {
    pairs(size, 200)
}

/// The same with one contract.
pub(super) fn drained_one_code(size: Size) -> Case {
    pairs(size, 1)
}

/// Many times what fits into a block.
pub(super) fn offered(size: Size) -> Case {
    const COUNT: u64 = 300;
    let gas = size.share(9);
    let txs = (0..COUNT).map(|from| call(from, 0, at(from), gas)).collect();
    let genesis = senders(COUNT).chain((0..COUNT).map(|number| heavy(number, gas)));
    Case::new(genesis, vec![txs]).given(Given::First(size.count(gas) as usize))
}

/// Calls of fifty heavy contracts.
fn of_fifty(size: Size, nonce: u64, senders: impl Iterator<Item = GenesisAccount>) -> Case {
    let gas = size.share(36);
    let senders: Vec<_> = senders.collect();
    let txs = (0..senders.len() as u64).map(|from| call(from, nonce, at(from % 50), gas)).collect();
    Case::new(senders.into_iter().chain((0..50).map(|number| heavy(number, gas))), vec![txs])
}

/// Nonces that are too high.
pub(super) fn gapped(size: Size) -> Case {
    of_fifty(size, 5, senders(size.count(12_000)))
}

/// Senders that cannot pay.
pub(super) fn unfunded(size: Size) -> Case {
    of_fifty(size, 0, (0..size.count(12_000)).map(|number| account(number, 5)))
}

/// Makes the last transaction of each block invalid.
fn spoiled(case: Case) -> Case {
    let mut case = case.given(Given::Invalid);
    for txs in &mut case.blocks {
        let last = txs.last_mut().expect("a block has transactions");
        last.nonce += 7;
    }
    case
}

/// A full block of heavy calls, invalid at its end.
pub(super) fn invalid_last(size: Size) -> Case {
    let gas = size.share(36);
    let txs = |_| (0..36).map(|from| call(from, 0, at(from), gas)).collect();
    let genesis = senders(36).chain((0..36).map(|number| heavy(number, gas)));
    spoiled(Case::new(genesis, (0..3).map(txs).collect()))
}

/// A full block of creations, invalid at its end.
pub(super) fn invalid_creations(size: Size) -> Case {
    let mut case = codes::creations(size);
    // Nothing of the first block is committed, so that the second one would begin with wrong nonces.
    case.blocks.truncate(1);
    spoiled(case)
}
