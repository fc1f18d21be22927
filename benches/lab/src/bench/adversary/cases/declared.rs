//! Transactions that are long: access lists that nothing uses, and calldata.

use super::{
    case::{Case, Size},
    code::{at, call, contract, sender, senders},
};
use phalanx::revm::{
    bytecode::opcode::STOP,
    context::TxEnv,
    context_interface::transaction::AccessListItem,
    primitives::{B256, U256},
};

/// Gas of a transfer, and of each declared account and slot (EIP-2930).
const TRANSFER: u64 = 21_000;
const ACCOUNT: u64 = 2_400;
const SLOT: u64 = 1_900;

/// Three blocks of transfers with the same lists.
fn blocks(size: Size, gas: u64, list: impl Fn(u64) -> Vec<AccessListItem>) -> Case {
    let count = size.count(gas);
    let tx = |from, nonce| TxEnv {
        tx_type: 1,
        access_list: list(from).into(),
        value: U256::ONE,
        ..call(from, nonce, sender(999_999), gas)
    };
    let block = |nonce| (0..count).map(|from| tx(from, nonce)).collect();
    Case::new(senders(count), (0..3).map(block).collect())
}

fn item(number: u64, slots: u64) -> AccessListItem {
    AccessListItem { address: at(number), storage_keys: (0..slots).map(|slot| B256::from(U256::from(slot))).collect() }
}

/// The same 500 slots in each list.
pub(super) fn slots(size: Size) -> Case {
    blocks(size, TRANSFER + ACCOUNT + 500 * SLOT, |_| vec![item(1, 500)])
}

/// As many slots in one list as a transaction can pay for.
pub(super) fn once(size: Size) -> Case {
    let gas = size.share(2);
    let slots = gas.saturating_sub(TRANSFER + ACCOUNT) / SLOT;
    blocks(size, gas, |from| vec![item(from, slots)])
}

/// 100 accounts in each list.
pub(super) fn accounts(size: Size) -> Case {
    blocks(size, TRANSFER + 100 * ACCOUNT, |from| (0..100).map(|number| item(number + from, 0)).collect())
}

/// Calls with 100,000 bytes of input, which the code does not read.
pub(super) fn calldata(size: Size) -> Case {
    // Ten gas for a zero, as a floor (EIP-7623).
    let bytes = (size.0 / 20).min(100_000);
    let gas = TRANSFER + 10 * bytes + 5_000;
    let count = size.count(gas);
    let tx = |from, nonce| TxEnv { data: vec![0; bytes as usize].into(), ..call(from, nonce, at(0), gas) };
    let block = |nonce| (0..count).map(|from| tx(from, nonce)).collect();
    Case::new(senders(count).chain([contract(0, vec![STOP])]), (0..3).map(block).collect())
}
