#![doc = include_str!("../README.md")]
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
