//! Values that a step left of an account, where they differ from those that it found.

use crate::listed::Place;
use alloy_primitives::{B256, KECCAK256_EMPTY, U256};
use revm_state::{Account, AccountInfo};

/// An account that a step touched.
///
/// A value that is written and written back is no change. The beneficiary is an account like others: revm has paid it.
pub(crate) struct Left<'s> {
    account: &'s Account,
    before: AccountInfo,
    /// Nothing is left of an account that the step destroyed. A balance that comes to it later goes with it, and where the
    /// rules leave the balance (EIP-8246) revm unmarks the account.
    gone: bool,
}

impl<'s> Left<'s> {
    /// Returns `None` for an account that was only looked at.
    pub(crate) fn of(account: &'s Account) -> Option<Self> {
        let gone = account.is_selfdestructed();
        account.is_touched().then(|| Self { account, before: account.original_info(), gone })
    }

    /// True if the step destroys an account that it did not create.
    pub(crate) const fn is_lost(&self) -> bool {
        self.gone && !self.account.is_created()
    }

    /// The new balance, if it is new.
    pub(crate) fn balance(&self) -> Option<U256> {
        let after = if self.gone { U256::ZERO } else { self.account.info.balance };
        (after != self.before.balance).then_some(after)
    }

    /// The new nonce, if it is new.
    pub(crate) fn nonce(&self) -> Option<u64> {
        let after = if self.gone { 0 } else { self.account.info.nonce };
        (after != self.before.nonce).then_some(after)
    }

    /// Hash of the new code, if it is new.
    pub(crate) fn code(&self) -> Option<B256> {
        let after = if self.gone { KECCAK256_EMPTY } else { self.account.info.code_hash };
        // Some databases have zero for no code.
        let plain = |hash: B256| if hash.is_zero() { KECCAK256_EMPTY } else { hash };
        (plain(after) != plain(self.before.code_hash)).then_some(plain(after))
    }

    /// The new value of a slot, if it is new.
    pub(crate) fn slot(&self, slot: &U256) -> Option<U256> {
        let value = self.account.storage.get(slot)?;
        let after = if self.gone { U256::ZERO } else { value.present_value };
        (after != value.original_value).then_some(after)
    }

    /// Places that are new, in no particular order.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let slots = self.account.storage.keys().filter(|slot| self.slot(slot).is_some());
        let balance = self.balance().map(|_| Place::Balance);
        let nonce = self.nonce().map(|_| Place::Nonce);
        let code = self.code().map(|_| Place::Code);
        [balance, nonce, code].into_iter().flatten().chain(slots.map(|slot| Place::Slot(*slot)))
    }
}
