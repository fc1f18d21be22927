//! Verifies proofs of the state commitment: no heap, no I/O, no `std`.
//!
//! This crate is also the only definition of the commitment's hashing rules; the store computes its roots with the
//! functions below, so that prover and verifier cannot disagree.
//!
//! ```text
//! root ── H(4, params, next_sn, active_count, upper)
//!                                             │            one binary tree over all twigs, padded with EMPTY
//!                                    ┌────────┴────────┐
//!                                  twig               twig ── H(3, left, bits)
//!                                                              │      └── H(2, 2048 active bits)
//!                                                           11 levels of H(1, level, l, r)
//!                                                              │
//!                                                            leaf ── H(0, entry, height), at position sn
//! ```
//!
//! A leaf says that a key got a value at a height; the bit at its position says whether that is still the key's value.
//!
//! ```
//! use phalanx_merkle_proof::{EMPTY, Entry, HashFn, Params, Proof, ProofError, verify_inclusion};
//!
//! // A state of one entry, built by hand: one leaf, one twig, no upper levels.
//! let params = Params { hash: HashFn::Sha256 };
//! let entry = Entry { key: b"alice", value: b"7", height: 0 };
//! let mut bitmap = [0; 256];
//! bitmap[0] = 1;
//! let proof = Proof { entry, sn: 0, next_sn: 1, active_count: 1, bitmap: &bitmap, siblings: &[] };
//!
//! let mut left = params.hash.leaf(&entry);
//! for level in 1..=11 {
//!     left = params.hash.node(level, &left, &EMPTY);
//! }
//! let twig = params.hash.twig(&left, &params.hash.bits(&bitmap));
//! let root = params.root(1, 1, &twig);
//!
//! let mut bytes = Vec::new();
//! proof.encode(&mut bytes);
//! assert_eq!(verify_inclusion(&params, &root, &bytes)?.value, b"7");
//! bytes[0] ^= 1;
//! assert!(verify_inclusion(&params, &root, &bytes).is_err());
//! # Ok::<(), ProofError>(())
//! ```
#![no_std]

#[cfg(test)]
extern crate std;

mod hash;
mod inclusion;
mod rules;
mod sha256;
mod shape;

pub use hash::{EMPTY, Hash, HashFn};
pub use inclusion::{Proof, ProofError, verify_inclusion};
pub use rules::{Entry, FORMAT, MAX_KEY_LEN, MAX_VALUE_LEN, Params};
pub use shape::{BITMAP_BYTES, LEFT_LEVELS, TWIG_LEAVES, TWIG_LEVEL, siblings, upper_levels};
