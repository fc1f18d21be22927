//! Witness of a block: nodes and codes with which it is executed without its state.

use super::{
    Commitment,
    prove::{gone, unproven},
};
use crate::state::{SnapshotError, StateSnapshot};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, keccak256};
use phalanx_trie::{Account, Changes, Fate, Values, Wipe};

/// Parts of a state that a block reads and changes, each bound by the root before the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateWitness {
    /// Nodes of the tries of accounts and slots, in RLP: those on the way to what the block touches, and those that its removals
    /// move.
    pub nodes: Vec<Bytes>,
    /// Codes of all touched accounts, each once.
    pub codes: Vec<Bytes>,
}

impl StateSnapshot {
    /// Makes the witness of a block on this state from its access list (EIP-7928), if the chain reports Ethereum's root; `None` if it
    /// reports the root of its twigs.
    ///
    /// The list must hold all that the block changes, as those of blocks from Cancun on do. Waits for a block that is being
    /// merkleized. O(touched accounts and slots), some ten microseconds each.
    ///
    /// # Errors
    /// [`SnapshotError`]; `NotWritten` on a thread of a rayon pool while a block is being merkleized.
    pub fn witness(&self, list: &[AccountChanges]) -> Result<Option<StateWitness>, SnapshotError> {
        let Commitment::Ethereum(versions) = self.views.commitment() else { return Ok(None) };
        let (mut reads, mut changes, mut codes) = (Vec::with_capacity(list.len()), Changes::new(), Vec::new());
        for account in list {
            let before = Values::account(self, &account.address)?;
            let read = account.storage_reads.iter().copied();
            let slots = read.chain(account.storage_changes.iter().map(|slot| slot.slot)).map(B256::from);
            reads.push((account.address, slots.collect()));
            codes.extend(before.map(|before| before.code_hash).filter(|hash| *hash != KECCAK256_EMPTY));
            change(account, before, &mut changes);
        }
        codes.sort_unstable();
        codes.dedup();
        let code = |hash: B256| {
            let code = self.code(&hash)?;
            code.map(|code| code.original_bytes()).ok_or_else(|| SnapshotError::Corrupt(format!("code {hash}")))
        };
        let codes = codes.into_iter().map(code).collect::<Result<_, _>>()?;
        let version = versions.version(self.view.block()).ok_or_else(|| gone(self))?;
        let nodes = versions.read(|trie| trie.witness(version, &reads, &changes, self));
        let nodes = nodes.ok_or(SnapshotError::NotWritten)?.map_err(|error| unproven(self, error))?;
        Ok(Some(StateWitness { nodes, codes }))
    }
}

/// Adds what a block makes of an account.
fn change(account: &AccountChanges, before: Option<Account>, changes: &mut Changes) {
    let nothing = Account { nonce: 0, balance: Default::default(), code_hash: KECCAK256_EMPTY };
    let mut after = before.unwrap_or(nothing);
    let address: Address = account.address;
    if let Some(change) = account.nonce_changes.last() {
        after.nonce = change.new_nonce;
    }
    if let Some(change) = account.balance_changes.last() {
        after.balance = change.post_balance;
    }
    if let Some(change) = account.code_changes.last() {
        after.code_hash = keccak256(&change.new_code);
    }
    let last = account.storage_changes.iter().filter_map(|slot| Some((slot.slot, slot.changes.last()?.new_value)));
    let mut slots = last.peekable();
    // An empty account does not exist (EIP-161).
    let fate = if after == nothing { Fate::Removed } else { Fate::Set(after) };
    if before.unwrap_or(nothing) == after && slots.peek().is_none() {
        return;
    }
    changes.account(keccak256(address), address, fate, Wipe::Nothing);
    for (slot, value) in slots {
        let slot = B256::from(slot);
        changes.slot(keccak256(slot), slot, value);
    }
}
