//! Blocks with data from a liar beside them: sets, exceptions, access lists.

use super::{
    case::{Case, Given, Lie, Size},
    code::{Code, at, call, contract, sender, senders},
};
use phalanx::revm::{
    bytecode::opcode::{CALLER, SSTORE},
    context::TxEnv,
    primitives::U256,
};

/// Blocks of calls that burn gas and write a slot of the sender, under a lie.
fn blocks(size: Size, lie: Lie) -> Case {
    let (gas, codes) = (size.share(36), 8);
    let count = size.count(gas);
    let code = |number| {
        let code = Code::distinct(number).burn(gas.saturating_sub(80_000)).push(1).ops(&[CALLER, SSTORE]);
        contract(number, code.end())
    };
    let block = |nonce| (0..count).map(|from| call(from, nonce, at(from % codes), gas)).collect();
    Case::new(senders(count).chain((0..codes).map(code)), (0..3).map(block).collect()).given(Given::Hinted(lie))
}

/// Sets that leave out everything and chain all transactions.
pub(super) fn sets(size: Size) -> Case {
    blocks(size, Lie::Sets)
}

/// Exceptions with flipped bits.
pub(super) fn exceptions(size: Size) -> Case {
    blocks(size, Lie::Exceptions)
}

/// An access list whose last change is wrong.
pub(super) fn last_change(size: Size) -> Case {
    let mut case = blocks(size, Lie::LastChange);
    // Nothing is committed: a second block would repeat the first.
    case.blocks.truncate(1);
    case
}

/// A block of one transfer whose access list names as many codes as its gas could pay for.
pub(super) fn codes(_: Size) -> Case {
    let tx = TxEnv { value: U256::ONE, ..call(0, 0, sender(1), 21_000) };
    Case::new(senders(2), vec![vec![tx]]).given(Given::Hinted(Lie::Codes))
}
