//! Changes of a block on a foreign state, in revm's terms: what `State` with a bundle has after sequential execution.

use super::{Foreign, info};
use crate::state::{StateError, Value};
use alloy_primitives::{Address, U256, map::AddressMap};
use phalanx_paralyze::StateKey;
use revm::{
    database::{
        AccountStatus, BundleState, TransitionAccount, TransitionState,
        states::{StorageSlot, bundle_state::BundleRetention},
    },
    primitives::StorageKeyMap,
    state::AccountInfo,
};

/// Last values of an account.
#[derive(Default)]
struct Last {
    account: Option<Value>,
    /// Words, each with the incarnation that it belongs to.
    slots: StorageKeyMap<(U256, u32)>,
}

impl Foreign<'_> {
    /// Bundle of a block that wrote these values, in their order, with what reverts it.
    ///
    /// # Errors
    /// The database has no answer.
    pub(crate) fn bundle(&self, values: &[(StateKey, Value)]) -> Result<BundleState, StateError> {
        let mut changed: AddressMap<Last> = AddressMap::default();
        for (key, value) in values {
            match key {
                StateKey::Basic(address) => changed.entry(*address).or_default().account = Some(*value),
                StateKey::Slot(address, slot) => {
                    let slots = &mut changed.entry(*address).or_default().slots;
                    slots.insert(*slot, (value.number, value.incarnation));
                }
                StateKey::Code(_) => {}
            }
        }
        let mut transitions = TransitionState::default();
        for (address, last) in changed {
            if let Some(transition) = self.transition(&address, last)? {
                transitions.transitions.insert(address, transition);
            }
        }
        let mut bundle = BundleState::default();
        bundle.apply_transitions_and_create_reverts(transitions, BundleRetention::Reverts);
        Ok(bundle)
    }

    fn transition(&self, address: &Address, last: Last) -> Result<Option<TransitionAccount>, StateError> {
        let before = self.account(address)?;
        let after = last.account.unwrap_or(before);
        let [previous_info, info] = [&before, &after].map(|value| info(self.codes(), value));
        let previous_status = match &previous_info {
            None => AccountStatus::LoadedNotExisting,
            Some(info) if info.is_empty() => AccountStatus::LoadedEmptyEIP161,
            Some(_) => AccountStatus::Loaded,
        };
        let is_emptied = after.incarnation != 0;
        let Some(status) = status(previous_info.as_ref(), info.as_ref(), after.incarnation) else { return Ok(None) };
        let mut storage = StorageKeyMap::default();
        if info.is_some() {
            for (slot, (word, incarnation)) in last.slots {
                if incarnation != after.incarnation {
                    continue;
                }
                let is_known = is_emptied || previous_info.is_none();
                let original = if is_known { U256::ZERO } else { self.slot(address, &slot)? };
                if original != word {
                    storage.insert(slot, StorageSlot::new_changed(original, word));
                }
            }
        }
        let storage_was_destroyed = status.was_destroyed();
        Ok(Some(TransitionAccount { info, status, previous_info, previous_status, storage, storage_was_destroyed }))
    }
}

/// Status of an account after a block; `None` if it has none, because it exists neither before nor after.
fn status(before: Option<&AccountInfo>, after: Option<&AccountInfo>, emptied: u32) -> Option<AccountStatus> {
    let is_bare = |info: &AccountInfo| info.has_no_code_and_nonce();
    Some(match (before, after) {
        (None, None) => return None,
        (Some(_), None) if emptied > 1 => AccountStatus::DestroyedAgain,
        (Some(_), None) => AccountStatus::Destroyed,
        // A contract that was created over a balance, which empties its storage as well, but once.
        (before, Some(after)) if emptied < 2 && before.is_none_or(is_bare) && !is_bare(after) => {
            AccountStatus::InMemoryChange
        }
        (_, Some(_)) if emptied > 0 => AccountStatus::DestroyedChanged,
        (Some(before), Some(_)) if !is_bare(before) => AccountStatus::Changed,
        (_, Some(_)) => AccountStatus::InMemoryChange,
    })
}
