//! Rules of what an application stores, for the store to check.

use phalanx_merkle_proof::Hash;

use super::code_rule::CodeRule;

/// Rules of what an application stores: which keys there can be, and which values name code.
///
/// The default allows every key, and does not know code from its hash. The rules affect no root and no stored byte.
#[derive(Clone, Copy, Debug)]
pub struct Contents {
    /// Returns true if the application can have this key.
    pub is_key: fn(&[u8]) -> bool,
    /// Rules of code; `None` if the store cannot check it.
    pub code: Option<CodeRule>,
}

impl Contents {
    /// Hash of the code that a key with this value needs, if it needs any.
    pub(crate) fn code_of(&self, key: &[u8], value: &[u8]) -> Option<Hash> {
        self.code.and_then(|rules| (rules.named)(key, value))
    }

    /// Returns true if these bytes are the code with this hash, as far as there are rules.
    pub(crate) fn is_code(&self, hash: &Hash, code: &[u8]) -> bool {
        self.code.is_none_or(|rules| (rules.hash)(code) == *hash)
    }
}

impl Default for Contents {
    fn default() -> Self {
        Self { is_key: |_| true, code: None }
    }
}
