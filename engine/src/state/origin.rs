//! The stored value of a key before the block.

use crate::state::Value;
use phalanx_merkle::Locator;
use phalanx_paralyze::StateKey;

/// Place in the store of the value of a key before the block, and a fingerprint of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// `None` if the key is not in the store, or has no locator.
    pub(crate) at: Option<Locator>,
    /// Fingerprint of the value.
    print: u32,
}

impl Origin {
    pub(crate) fn new(key: &StateKey, value: &Value, at: Option<Locator>) -> Self {
        Self { at, print: print(key, value) }
    }

    /// True if `value` is surely stored as other bytes than the value before the block. If false, the bytes may still
    /// differ.
    #[inline]
    pub(crate) fn differs(&self, key: &StateKey, value: &Value) -> bool {
        print(key, value) != self.print
    }
}

/// Fingerprint of the stored bytes of a value, without the incarnation: values with different fingerprints have
/// different bytes.
#[inline]
fn print(key: &StateKey, value: &Value) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let Value { number, nonce, code, exists, .. } = *value;
    let [a, b, c, d] = *number.as_limbs();
    let number = a ^ b.rotate_left(16) ^ c.rotate_left(32) ^ d.rotate_left(48);
    let all = match key {
        StateKey::Slot(..) => number,
        // Only the incarnation of an absent account is stored.
        _ if !exists => 0,
        _ => number ^ nonce.rotate_left(24) ^ u64::from(code.0).rotate_left(40) ^ ODD,
    };
    (all.wrapping_mul(ODD) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::CodeId;
    use crate::state::encoding::{StoredAccount, encode_account, encode_slot};
    use alloy_primitives::{Address, B256, U256};
    use rand::{Rng as _, SeedableRng as _};

    /// Stored bytes of a value, `None` if none are stored.
    fn stored(key: &StateKey, value: &Value) -> Option<Vec<u8>> {
        let Value { number, nonce, code, exists, incarnation } = *value;
        match key {
            StateKey::Slot(..) => (!number.is_zero()).then(|| encode_slot(&number).as_slice().to_vec()),
            _ if !exists && incarnation == 0 => None,
            _ => {
                let code_hash = (!code.is_none()).then(|| B256::from(U256::from(code.0)));
                let account = StoredAccount { exists, nonce, balance: number, code_hash, incarnation };
                Some(encode_account(&account).as_slice().to_vec())
            }
        }
    }

    #[test]
    fn what_differs_is_stored_as_other_bytes() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        let (mut told, mut kept) = (0, 0);
        for _ in 0..100_000 {
            let key = match rng.random() {
                true => StateKey::Basic(Address::ZERO),
                false => StateKey::Slot(Address::ZERO, U256::ZERO),
            };
            let mut value = || Value {
                number: U256::from(rng.random_range(0..3u64)) << (rng.random_range(0..3) * 64),
                nonce: rng.random_range(0..3),
                code: if rng.random() { CodeId::NONE } else { CodeId(rng.random_range(0..2)) },
                exists: rng.random(),
                incarnation: rng.random_range(0..2),
            };
            let (before, after) = (value(), value());
            let (was, is) = (stored(&key, &before), stored(&key, &after));
            if Origin::new(&key, &before, None).differs(&key, &after) {
                assert_ne!(was, is, "{before:?} {after:?}");
                told += 1;
            }
            kept += usize::from(was == is);
        }
        assert!(told > 50_000 && kept > 1000, "{told} {kept}");
    }
}
