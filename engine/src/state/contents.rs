//! Rules of the state's keys and code, for the store to check.

use super::{code_rule::CODE_RULE, encoding::name_key};
use phalanx_merkle::Contents;

/// Length of an account's key: its address.
const ACCOUNT: usize = 20;

/// Rules of a state of the EVM: accounts have keys of 20 bytes, slots of 52, or of 56 if the account's storage was emptied
/// before. Names of blocks have keys of 5. Code is known by its Keccak-256, which its accounts name.
///
/// The engine opens its store with them; a tool that opens a store without an engine passes them to
/// [`StoreConfig::with_contents`](phalanx_merkle::StoreConfig::with_contents).
pub fn contents() -> Contents {
    Contents {
        is_key: |key| {
            matches!(key.len(), ACCOUNT | 52 | 56) || key.len() == name_key(0).len() && key.starts_with(b"name")
        },
        code: Some(CODE_RULE),
    }
}
