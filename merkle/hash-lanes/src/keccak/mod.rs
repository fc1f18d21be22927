//! Keccak-256 of many short inputs: eight (AVX-512), four (AVX2) or two (Armv8.2) states side by side in vector registers.
//!
//! A block hashes four to eight independent inputs per transaction: slots, log topics, receipts, trie nodes. Side by side an
//! input costs a third to a fifth of one hashed alone.

mod messages;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod permutation;
#[cfg(target_arch = "aarch64")]
mod sha3;
mod state;

pub use messages::{Lanes, keccak256_in_lanes, keccak256_many};
