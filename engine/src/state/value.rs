//! The value of one key: an account without its address, or a slot's word.

use super::codes::CodeId;
use alloy_primitives::U256;

/// A copy of one key's value: an account without its address, or a slot's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value {
    /// Balance of an account, word of a slot.
    pub(crate) number: U256,
    /// Of an account.
    pub(crate) nonce: u64,
    /// Of an account.
    pub(crate) code: CodeId,
    /// Whether the account exists. Slots always do.
    pub(crate) exists: bool,
    /// How often the account's storage was emptied; of a slot, the account's when it was written. Cells do not keep it: in
    /// a block that runs on them it does not change.
    pub(crate) incarnation: u32,
}

impl Value {
    /// Whether this is an account that exists and is empty (EIP-161).
    pub(crate) fn is_empty_existing(&self) -> bool {
        self.exists && self.nonce == 0 && self.code.is_none() && self.number.is_zero()
    }
}
