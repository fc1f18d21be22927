//! Hints from an EIP-7928 block access list.

use alloy_eips::eip7928::{AccountChanges, BlockAccessIndex};
use phalanx_access::{Access, AccessSets};
use phalanx_paralyze::StateKey;
use revm::{
    context::TxEnv,
    primitives::{Address, TxKind, U256, map::HashMap},
};

/// Minimum gas of the first read of a slot (EIP-2929, EIP-2930).
const SLOT_GAS: u64 = 1900;

/// Maximum number of reads that are assigned in all, per listed read and per transaction. Gas alone is no bound: the
/// transactions' gas limits may exceed the block's.
const READS_EACH: usize = 16;

/// Derives hints for each of `txs` from an EIP-7928 block access list.
///
/// The list names the writer of every change, but not the readers of what is only read. A transaction is therefore
/// assumed to read, besides its changes, the accounts that it names, and the reads of any account that it touches, as
/// far as it can pay for them. A missing read is an escape, and a surplus one costs order; as a hint the list is never
/// trusted.
///
/// The list may be malformed in any way: entries that fit no transaction are left out. O(n log n) in the list and the
/// number of transactions.
pub fn access_list_hints(list: &[AccountChanges], txs: &[TxEnv]) -> AccessSets<StateKey> {
    hints_beside(list, txs, None)
}

/// [`access_list_hints`] without the rewards of `payee`, which the executors pay by themselves: with them each transaction would
/// wait for the one before.
pub(crate) fn hints_beside(list: &[AccountChanges], txs: &[TxEnv], payee: Option<Address>) -> AccessSets<StateKey> {
    let mut sets: Vec<Vec<(StateKey, Access)>> = Vec::with_capacity(txs.len());
    for tx in txs {
        let mut set = vec![(StateKey::Basic(tx.caller), Access::Write)];
        if let TxKind::Call(to) = tx.kind {
            set.push((StateKey::Basic(to), if tx.value.is_zero() { Access::Read } else { Access::Write }));
        }
        sets.push(set);
    }
    let mut reads: HashMap<Address, &[U256]> = HashMap::default();
    for account in list {
        let address = account.address;
        // Index 0 is before the transactions; the index after the last transaction is behind them.
        let mut change = |at: BlockAccessIndex, key: StateKey| {
            let place = usize::try_from(at.get()).ok().and_then(|at| at.checked_sub(1));
            if let Some(set) = place.and_then(|place| sets.get_mut(place)) {
                set.extend([(key, Access::Write), (StateKey::Basic(address), Access::Read)]);
            }
        };
        let is_paid = payee == Some(address);
        for slot in &account.storage_changes {
            slot.changes.iter().for_each(|at| change(at.block_access_index, StateKey::Slot(address, slot.slot)));
        }
        let balances = account.balance_changes.iter().filter(|_| !is_paid);
        balances.for_each(|at| change(at.block_access_index, StateKey::Basic(address)));
        account.nonce_changes.iter().for_each(|at| change(at.block_access_index, StateKey::Basic(address)));
        for at in &account.code_changes {
            change(at.block_access_index, StateKey::Code(address));
            change(at.block_access_index, StateKey::Basic(address));
        }
        reads.insert(address, &account.storage_reads);
    }
    let listed: usize = list.iter().map(|account| account.storage_reads.len()).sum();
    let mut left = listed.saturating_add(txs.len()).saturating_mul(READS_EACH);
    let mut hints = AccessSets::new();
    for (mut set, tx) in sets.into_iter().zip(txs) {
        join_duplicates(&mut set);
        let mut affordable = usize::try_from(tx.gas_limit / SLOT_GAS).unwrap_or(usize::MAX);
        for place in 0..set.len() {
            let StateKey::Basic(address) = set[place].0 else { continue };
            let slots = reads.get(&address).copied().unwrap_or_default();
            let slots = &slots[..slots.len().min(affordable).min(left)];
            affordable -= slots.len();
            left -= slots.len();
            set.extend(slots.iter().map(|slot| (StateKey::Slot(address, *slot), Access::Read)));
        }
        join_duplicates(&mut set);
        hints.push(set);
    }
    hints
}

/// Sorts a set and leaves each key once.
fn join_duplicates(set: &mut Vec<(StateKey, Access)>) {
    set.sort_unstable_by_key(|(key, _)| *key);
    set.dedup_by(|(key, access), (kept, joined)| {
        let same = key == kept;
        if same {
            *joined = joined.join(*access);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_eips::eip7928::{BalanceChange, SlotChanges, StorageChange};

    #[test]
    fn changes_belong_to_their_transaction_and_reads_to_whoever_touches_the_account() {
        let (alice, pool) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let txs = [
            TxEnv { caller: alice, kind: TxKind::Call(pool), gas_limit: 2 * SLOT_GAS, ..TxEnv::default() },
            TxEnv { caller: alice, kind: TxKind::Create, gas_limit: 100_000, ..TxEnv::default() },
        ];
        let at = BlockAccessIndex::new;
        let list = [
            AccountChanges {
                balance_changes: [0, 1, 2, 3, u64::MAX].map(|i| BalanceChange::new(at(i), U256::ONE)).to_vec(),
                ..AccountChanges::new(alice)
            },
            AccountChanges {
                storage_changes: vec![SlotChanges::new(U256::from(7), vec![StorageChange::new(at(1), U256::ONE)])],
                storage_reads: [9, 10, 11].map(U256::from).to_vec(),
                ..AccountChanges::new(pool)
            },
        ];
        let hints = access_list_hints(&list, &txs);
        let slot = |slot: u64| StateKey::Slot(pool, U256::from(slot));
        assert_eq!(
            hints.get(0),
            [
                (StateKey::Basic(alice), Access::Write),
                (StateKey::Basic(pool), Access::Read),
                (slot(7), Access::Write),
                (slot(9), Access::Read),
                (slot(10), Access::Read),
            ]
        );
        assert_eq!(hints.get(1), [(StateKey::Basic(alice), Access::Write)]);
        assert!(access_list_hints(&list, &[]).is_empty());
    }

    #[test]
    fn reads_are_not_multiplied_by_whoever_could_pay_for_them() {
        let pool = Address::repeat_byte(2);
        let tx = TxEnv { kind: TxKind::Call(pool), gas_limit: u64::MAX, ..TxEnv::default() };
        let list = [AccountChanges { storage_reads: (0..1000).map(U256::from).collect(), ..AccountChanges::new(pool) }];
        let hints = access_list_hints(&list, &vec![tx; 2000]);
        assert!(hints.get(0).len() > 1000, "the first are told");
        assert!(hints.entries().len() <= READS_EACH * 3000 + 2 * 2000, "{}", hints.entries().len());
    }
}
