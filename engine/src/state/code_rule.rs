//! The rule by which accounts name their code, for checks of a whole store.

use super::encoding::decode_account;
use alloy_primitives::keccak256;
use phalanx_merkle::CodeRule;

/// Length of an account's key, in bytes.
const ACCOUNT_KEY: usize = 20;

/// Rule by which accounts name their code: for [`Background::check_code`](phalanx_merkle::Background::check_code).
pub const CODE_RULE: CodeRule = CodeRule { named, hash };

fn named(key: &[u8], value: &[u8]) -> Option<[u8; 32]> {
    if key.len() != ACCOUNT_KEY {
        return None;
    }
    decode_account(value)?.code_hash.map(|hash| hash.0)
}

fn hash(code: &[u8]) -> [u8; 32] {
    keccak256(code).0
}
