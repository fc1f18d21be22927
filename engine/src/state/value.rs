//! The value of one key: an account without its address, or a slot's word.

use super::codes::CodeId;
use alloy_primitives::U256;

/// A copy of one key's value: an account without its address, or a slot's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value {
    /// Balance of an account, word of a slot.
    pub(crate) number: U256,
    /// Nonce of an account.
    pub(crate) nonce: u64,
    /// Code of an account.
    pub(crate) code: CodeId,
    /// True if the account exists. Slots always exist.
    pub(crate) exists: bool,
    /// Number of times that the account's storage was emptied; of a slot, the account's number when the slot was
    /// written. Cells do not keep it: it does not change in a block that runs on them.
    pub(crate) incarnation: u32,
}

impl Value {
    /// A slot of this incarnation of its account.
    pub(crate) fn of_slot(number: U256, incarnation: u32) -> Self {
        Self { number, exists: true, incarnation, ..Self::default() }
    }

    /// True if this is an account that is empty (EIP-161), or none.
    pub(crate) fn is_empty(&self) -> bool {
        self.nonce == 0 && self.code.is_none() && self.number.is_zero()
    }

    /// True if this is an account that exists and is empty.
    pub(crate) fn is_empty_existing(&self) -> bool {
        self.exists && self.is_empty()
    }
}
