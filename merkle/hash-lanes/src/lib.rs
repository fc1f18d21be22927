#![doc = include_str!("../README.md")]
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
