//! Keys of the state: full names, their comparison and their digests.

use alloy_primitives::{Address, U256};
use phalanx_access::{Key, Salt};

/// Full name of a piece of state on which transactions can conflict.
///
/// # Invariants of every access set
/// * A write of `Code(a)` comes with a write of `Basic(a)`: CREATE, SELFDESTRUCT and EIP-7702 change nonce or balance of
///   the account whose code they change.
/// * A transaction that depends on the code of `a` without accessing `Basic(a)` reads `Code(a)`.
///
/// So an access to `Basic(a)` includes the read of `Code(a)` that comes with it, and a native transfer is two keys and not
/// four.
#[expect(clippy::derived_hash_with_manual_eq, reason = "the same parts are compared, in another order")]
#[derive(Clone, Copy, Debug, Eq, PartialOrd, Ord, Hash)]
pub enum StateKey {
    /// Balance, nonce and emptiness of an account.
    Basic(Address),
    /// Code hash, delegation and storage incarnation of an account.
    Code(Address),
    /// Storage slot of an account.
    Slot(Address, U256),
}

/// Compares slots before addresses: most slots of a set belong to a few contracts and are hashes, so they differ sooner.
impl PartialEq for StateKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Slot(a, slot), Self::Slot(b, other)) => {
                slot.as_limbs()[0] == other.as_limbs()[0] && slot == other && a == b
            }
            (Self::Basic(a), Self::Basic(b)) | (Self::Code(a), Self::Code(b)) => a == b,
            _ => false,
        }
    }
}

impl StateKey {
    /// Account that the key belongs to.
    pub const fn address(&self) -> &Address {
        match self {
            Self::Basic(address) | Self::Code(address) | Self::Slot(address, _) => address,
        }
    }
}

/// Words of an address, with `kind` in the bits that 20 bytes leave free.
#[inline]
fn words(address: &Address, kind: u64) -> [u64; 3] {
    let (head, tail) = address.0.split_at(8);
    let (middle, tail) = tail.split_at(8);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let last = u32::from_le_bytes(tail.try_into().expect("four bytes"));
    [word(head), word(middle), u64::from(last) | kind << 32]
}

impl Key for StateKey {
    #[inline]
    fn digest(&self, salt: &Salt) -> u64 {
        match self {
            Self::Basic(address) => salt.digest3(words(address, 0)),
            Self::Code(address) => salt.digest3(words(address, 1)),
            Self::Slot(address, slot) => {
                let [a, b, c] = words(address, 2);
                let s = slot.as_limbs();
                salt.digest8([a, b, c, s[0], s[1], s[2], s[3], 0])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_kind_address_and_slot() {
        let salt = Salt::new(1);
        let a = Address::repeat_byte(1);
        let mut b = a;
        b.0[19] ^= 1;
        let keys = [
            StateKey::Basic(a),
            StateKey::Code(a),
            StateKey::Slot(a, U256::ZERO),
            StateKey::Slot(a, U256::MAX),
            StateKey::Basic(b),
            StateKey::Code(b),
            StateKey::Slot(b, U256::ZERO),
        ];
        let mut digests: Vec<_> = keys.iter().map(|k| k.digest(&salt)).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), keys.len());
    }

    #[test]
    fn equality_agrees_with_order() {
        let addresses = [Address::ZERO, Address::with_last_byte(1), Address::repeat_byte(1)];
        // Slots that differ in one limb alone, the lowest or another.
        let slots = [U256::ZERO, U256::ONE, U256::ONE << 64, U256::ONE << 255];
        let of = |address: Address| {
            let slots = slots.map(|slot| StateKey::Slot(address, slot));
            [StateKey::Basic(address), StateKey::Code(address)].into_iter().chain(slots)
        };
        let keys: Vec<_> = addresses.into_iter().flat_map(of).collect();
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                assert_eq!(a == b, i == j, "{a:?} {b:?}");
                assert_eq!(a == b, a.cmp(b).is_eq(), "{a:?} {b:?}");
            }
        }
    }
}
