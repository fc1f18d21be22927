//! Hashes many short messages side by side in vector registers: SHA-256 for the state commitment, Keccak-256 for slots,
//! receipts and tries. No `std`.
//!
//! ```text
//! messages ──► one lane each ──► one vector per word of all lanes ──► digests
//!              padded blocks     16 or 2 lanes (SHA-256), 8 or 4 (Keccak-256)
//! ```
//!
//! Hashing one message at a time leaves most of a core idle, because each round waits for the one before. The instructions are
//! detected when the first message is hashed; without them messages are hashed one at a time. Every path gives the same
//! digests, and the tests compare each with another implementation.
//!
//! ```
//! use phalanx_hash_lanes::{sha256, sha256_many};
//!
//! let messages: Vec<[u8; 65]> = (0..40).map(|at| [at; 65]).collect();
//! let mut digests = vec![[0; 32]; 40];
//! sha256_many(messages.iter().map(|message| [&message[..]]).enumerate(), |at, digest| digests[at] = digest);
//! assert!(messages.iter().zip(digests).all(|(message, digest)| digest == sha256(&[message])));
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(feature = "keccak")]
mod keccak;
mod sha256;

#[cfg(feature = "keccak")]
pub use keccak::{Lanes, keccak256_in_lanes, keccak256_many};
pub use sha256::{sha256, sha256_many};

/// A digest of 32 bytes.
type Hash = [u8; 32];
