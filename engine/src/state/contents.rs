//! Rules of the state's keys and code, for the store to check.

use super::{BARE_STORAGE, ETHEREUM_ROOT, IDENTITY, LAST, code_rule::CODE_RULE, encoding::name_key};
use phalanx_merkle::Contents;

/// Length of an account's key: its address.
const ACCOUNT: usize = 20;

/// Rules of a state of the EVM: accounts have keys of 20 bytes, slots of 52, or of 56 if the account's storage was emptied
/// before. The chain's identity, the hashes of its blocks, the last one and marks of the genesis have keys of their
/// own. Code is known by its Keccak-256, which its accounts name.
///
/// The engine opens its store with them; a tool that opens a store without an engine passes them to
/// [`StoreConfig::with_contents`](phalanx_merkle::StoreConfig::with_contents).
pub fn contents() -> Contents {
    Contents { is_key, code: Some(CODE_RULE) }
}

fn is_key(key: &[u8]) -> bool {
    match key.len() {
        ACCOUNT | 52 | 56 => true,
        len => {
            [IDENTITY, BARE_STORAGE, ETHEREUM_ROOT, LAST].contains(&key)
                || len == name_key(0).len() && key.starts_with(b"name")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_state_and_no_others_pass() {
        let rest: [&[u8]; 7] = [IDENTITY, BARE_STORAGE, ETHEREUM_ROOT, LAST, &name_key(7), &[1; 52], &[1; 56]];
        assert!(rest.into_iter().chain([&[1; 20][..]]).all(contents().is_key));
        let others: [&[u8]; 7] = [b"", b"chaim", b"name", &[1; 19], &[1; 21], &[1; 32], &[1; 55]];
        assert!(!others.into_iter().any(contents().is_key));
    }
}
