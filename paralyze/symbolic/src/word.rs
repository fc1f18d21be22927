//! Loads of words, limb by limb.
//!
//! A word that was just computed is in flight to the cache, in four stores of eight bytes. A load of sixteen bytes, two of
//! which compilers prefer for a word, finds no single store that has all its bytes, and waits some fifteen cycles. A load of
//! eight bytes is served by one store. A third of the time of a replayed swap was such waiting.

use alloy_primitives::U256;

/// Loads a word, limb by limb.
#[inline(always)]
pub(crate) fn load(word: &U256) -> U256 {
    U256::from_limbs(limbs(word))
}

/// Returns true if two words are equal.
#[inline(always)]
pub(crate) fn same(a: &U256, b: &U256) -> bool {
    let [a, b] = [limbs(a), limbs(b)];
    (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) == 0
}

/// Limbs of a word, each loaded on its own.
#[inline(always)]
#[expect(unsafe_code, reason = "the compiler is kept from joining the loads")]
pub(crate) fn limbs(word: &U256) -> [u64; 4] {
    // SAFETY: the pointers come from references.
    word.as_limbs().each_ref().map(|limb| unsafe { core::ptr::read_volatile(limb) })
}
