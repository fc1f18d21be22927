//! The rule by which values name contract code.

use phalanx_merkle_proof::Hash;

/// Rule by which values name contract code. The store itself knows neither accounts nor the hash function of code.
#[derive(Clone, Copy, Debug)]
pub struct CodeRule {
    /// Hash of the code that a key's value names; `None` if it names none.
    pub named: fn(&[u8], &[u8]) -> Option<Hash>,
    /// Hash of code.
    pub hash: fn(&[u8]) -> Hash,
}
