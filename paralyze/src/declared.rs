//! L1: the access list that the sender declared (EIP-2930).

use crate::{batch::Batch, key::StateKey};
use alloy_primitives::{Address, U256};
use phalanx_access::Access;
use revm::context::TxEnv;

/// Maximum number of keys of a list that is used as a prediction. A transaction with a longer list is simulated; it pays for
/// the list.
const MAX_KEYS: usize = 1024;

/// Returns true if the list is short enough, and paid for (EIP-2930: 2400 gas per address, 1900 per slot, besides 21000).
pub(crate) fn applies(tx: &TxEnv) -> bool {
    let (mut keys, mut gas) = (0, 21_000);
    for item in tx.access_list.iter() {
        keys += 1 + item.storage_keys.len();
        gas += 2400 + 1900 * item.storage_keys.len() as u64;
    }
    (1..=MAX_KEYS).contains(&keys) && gas <= tx.gas_limit
}

/// Adds sender, callee and all keys of the access list.
///
/// The list does not tell reads from writes, and it may be incomplete. Slots count as written, because a transaction that pays
/// to name a slot usually writes it. Accounts count as read, because a listed account is usually called, and calls without
/// value change no balance.
pub(crate) fn add(batch: &mut Batch, tx: &TxEnv, to: Address) {
    batch.add(StateKey::Basic(tx.caller), Access::Write);
    batch.add(StateKey::Basic(to), if tx.value.is_zero() { Access::Read } else { Access::Write });
    for item in tx.access_list.iter() {
        batch.add(StateKey::Basic(item.address), Access::Read);
        for slot in &item.storage_keys {
            batch.add(StateKey::Slot(item.address, U256::from_be_bytes(slot.0)), Access::Write);
        }
    }
}
