//! Verifies proofs of the state commitment, without I/O and without `std`; proofs of single keys without a heap, too.
//!
//! This crate is the only definition of the commitment's hashing rules: the store computes its roots with these functions,
//! so that prover and verifier cannot disagree.
//!
//! ```text
//! root ── H(4, params, next_sn, floor, active, top)
//!                                             │            one binary tree over all twigs, padded with EMPTY
//!                                    ┌────────┴────────┐
//!                                  twig               twig ── H(3, left, bits), EMPTY below the floor
//!                                                              │      └── H(2, 2048 active bits)
//!                                                           11 levels of H(1, level, l, r)
//!                                                              │
//!                                                            leaf ── H(0, entry), at position sn
//!
//! entry ── flags, key, value, next key's hash, previous position of the key, height
//! ```
//!
//! A leaf commits to an entry: a key got a value, or another next key, at a height. The bit at its position says whether
//! that still holds. Entries are linked in key order, so an entry proves absence, too: no key lies between its own hash and
//! its next key's.
//!
//! ```
//! use phalanx_merkle_proof::{
//!     Bytes, EMPTY, Entry, Hash, Params, ProofError, RING_END, Sentinels, Shape, Source, prove, verify_exclusion,
//!     verify_inclusion,
//! };
//!
//! // A state of one sentinel and one key, built by hand: two leaves, one twig, no upper levels.
//! let params = Params { sentinels: Sentinels::new(0).expect("one sentinel"), ..Params::default() };
//! let hash = params.hash;
//! let name = params.sentinels.name(0);
//! let first = Entry { next: hash.key(b"alice"), ..params.sentinels.entry(0, &name) };
//! let second = Entry { sentinel: false, key: b"alice", value: b"7", next: RING_END, previous: None, height: 0 };
//!
//! struct Tree<'a>(Params, [Entry<'a>; 2]);
//! impl Source for Tree<'_> {
//!     fn node(&mut self, level: u8, index: u64) -> Hash {
//!         if level == 0 {
//!             return self.0.hash.leaf(&self.1[index as usize]);
//!         }
//!         let left = self.node(level - 1, 2 * index);
//!         let right = if level == 1 { self.node(0, 2 * index + 1) } else { EMPTY };
//!         self.0.hash.node(level, &left, &right)
//!     }
//!     fn bitmap(&mut self, _: u64) -> [u8; 256] {
//!         let mut bitmap = [0; 256];
//!         bitmap[0] = 0b11;
//!         bitmap
//!     }
//!     fn entry(&mut self, sn: u64, out: &mut Bytes) {
//!         out.extend_from_slice(&self.1[sn as usize].height.to_be_bytes());
//!         self.1[sn as usize].encode(out);
//!     }
//! }
//! let mut tree = Tree(params, [first, second]);
//! let shape = Shape { next_sn: 2, floor: 0, active: 2 };
//! let twig = hash.twig(&tree.node(11, 0), &hash.bits(&tree.bitmap(0)));
//! let root = params.root(&shape, &twig);
//!
//! let proof = prove(&shape, &[1], &mut tree);
//! assert_eq!(verify_inclusion(&params, &root, &proof)?.value, b"7");
//! let covering = u64::from(hash.key(b"bob") > hash.key(b"alice"));
//! let absence = prove(&shape, &[covering], &mut tree);
//! assert_eq!(verify_exclusion(&params, &root, b"bob", &absence), Ok(()));
//! assert_eq!(verify_exclusion(&params, &root, b"alice", &proof), Err(ProofError::Other));
//! # Ok::<(), ProofError>(())
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod transition;
mod witness;
mod step;
mod claims;
#[cfg(feature = "bls")]
mod acknowledgement;
mod outcome;
mod proof;
mod rules;
mod shape;
mod hash;

#[cfg(feature = "bls")]
pub use acknowledgement::{Acknowledged, Trust, acknowledge, verify_acknowledgement};
pub use claims::{verify_exclusion, verify_inclusion, verify_keys, verify_range, verify_version};
pub use hash::{EMPTY, Hash, HashFn};
pub use outcome::{BlockResult, Fate, ProvenFate, prove_fate, transactions_root, verify_fate};
pub use proof::{Bytes, ProofError, Proven, Source, prove, verify_positions};
pub use rules::{Compaction, Entry, FORMAT, MAX_KEY_LEN, MAX_VALUE_LEN, Params, RING_END, Sentinels};
pub use shape::{BITMAP_BYTES, LEFT_LEVELS, Shape, TWIG_LEAVES, TWIG_LEVEL, upper_levels};
pub use step::Change;
pub use transition::{Outline, verify_transition};
