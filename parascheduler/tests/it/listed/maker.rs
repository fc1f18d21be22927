//! A maker of lists, by comparing the state before and after each step of a loop over the block. It shares nothing with the
//! crate's own comparison.

use super::{Rules, State};
use phalanx_parascheduler::eip7928::{
    AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, SlotChanges, StorageChange,
};
use revm::{
    DatabaseCommit as _, DatabaseRef as _, ExecuteEvm as _,
    context::{TxEnv, result::ExecutionResult},
    primitives::{Address, Bytes, U256},
    state::{AccountInfo, EvmState},
};
use std::collections::{BTreeMap, BTreeSet};

/// Changes of an account, by step.
#[derive(Default)]
struct Track {
    balances: Vec<BalanceChange>,
    nonces: Vec<NonceChange>,
    codes: Vec<CodeChange>,
    slots: BTreeMap<U256, Vec<StorageChange>>,
    accessed: BTreeSet<U256>,
}

/// A list that grows by steps.
#[derive(Default)]
pub(super) struct Maker(BTreeMap<Address, Track>);

impl Maker {
    /// Commits a step to the state, and notes what differs.
    pub(super) fn step(&mut self, index: BlockAccessIndex, database: &mut State, state: &EvmState) {
        let names = state.iter().map(|(address, account)| (*address, account.storage.keys().copied().collect()));
        let names: Vec<(Address, Vec<U256>)> = names.collect();
        let before = shot(database, &names);
        database.commit(state.clone());
        let after = shot(database, &names);
        for (((address, slots), (old, olds)), (new, news)) in names.into_iter().zip(before).zip(after) {
            let track = self.0.entry(address).or_default();
            if old.balance != new.balance {
                track.balances.push(BalanceChange::new(index, new.balance));
            }
            if old.nonce != new.nonce {
                track.nonces.push(NonceChange::new(index, new.nonce));
            }
            if old.code_hash != new.code_hash {
                track.codes.push(CodeChange::new(index, code(database, &new)));
            }
            for ((slot, old), new) in slots.into_iter().zip(olds).zip(news) {
                track.accessed.insert(slot);
                if old != new {
                    track.slots.entry(slot).or_default().push(StorageChange::new(index, new));
                }
            }
        }
    }

    pub(super) fn finish(self) -> Vec<AccountChanges> {
        let account = |(address, track): (Address, Track)| AccountChanges {
            address,
            storage_reads: track.accessed.into_iter().filter(|slot| !track.slots.contains_key(slot)).collect(),
            storage_changes: track.slots.into_iter().map(|(slot, changes)| SlotChanges::new(slot, changes)).collect(),
            balance_changes: track.balances,
            nonce_changes: track.nonces,
            code_changes: track.codes,
        };
        self.0.into_iter().map(account).collect()
    }
}

/// Values of accounts and slots.
fn shot(database: &State, names: &[(Address, Vec<U256>)]) -> Vec<(AccountInfo, Vec<U256>)> {
    let of = |(address, slots): &(Address, Vec<U256>)| {
        let info = database.basic_ref(*address).unwrap().unwrap_or_default();
        (info, slots.iter().map(|slot| database.storage_ref(*address, *slot).unwrap()).collect())
    };
    names.iter().map(of).collect()
}

fn code(database: &State, info: &AccountInfo) -> Bytes {
    database.code_by_hash_ref(info.code_hash).unwrap().original_bytes()
}

/// A block that ran in a loop: its outputs, the state behind it, and its list.
pub(super) struct Looped {
    pub(super) outputs: Vec<ExecutionResult>,
    pub(super) state: State,
    pub(super) list: Vec<AccountChanges>,
}

/// Runs a block one transaction after the other. Nonces are set right, and transactions that are invalid left out of `txs`.
pub(super) fn looped(rules: &Rules, base: &State, txs: &mut Vec<TxEnv>) -> Looped {
    let (mut state, mut outputs, mut maker) = (base.clone(), Vec::new(), Maker::default());
    txs.retain_mut(|tx| {
        tx.nonce = state.basic_ref(tx.caller).unwrap().unwrap_or_default().nonce;
        let Ok(done) = rules.evm(&state).transact(tx.clone()) else { return false };
        maker.step(BlockAccessIndex::from_tx_index(outputs.len() as u64), &mut state, &done.state);
        outputs.push(done.result);
        true
    });
    Looped { outputs, state, list: maker.finish() }
}
