//! Recovers the Ethereum addresses that signed digests, many signatures side by side: ECDSA on secp256k1. **Never for
//! signing**: nothing here takes constant time, because signatures, keys and digests are public.
//!
//! ```text
//! r, s, id ─► in range? ─► 1 / r for all ─► digits of u1, u2 ─► groups of lanes ─► u1 · G + u2 · R ─► Keccak-256 ─► addresses
//!                │                                                    │ exceptions
//!                └─► no key                                           └─► libsecp256k1
//! ```
//!
//! Eight lanes with AVX-512 IFMA, four with AVX2 and FMA; elsewhere, and for a lone signature, libsecp256k1. Instructions are
//! detected when the first batch comes. Every path has the same verdict on any 65 bytes: that of libsecp256k1, which the tests
//! compare with.
//!
//! ```
//! use alloy_primitives::{B256, address, b256, hex};
//! use phalanx_recovery::{recover, recover_batch};
//!
//! let digest = b256!("18c547e4f7b0f325ad1e56f57e26c745b09a3e503d86e00e5255ff7f715d3d1c");
//! let signature = hex!(
//!     "73b1693892219d736caba55bdb67216e485557ea6b6af75f37096c9aa6a5a75f"
//!     "eeb940b1d03b21e36b0e47e79769f095fe2ab855bd91e3a38756b7d75a9c4549" "01"
//! );
//! let signer = address!("a94f5374fce5edbc8e2a8697c15331677e6ebf0b");
//! assert_eq!(recover(&digest, &signature), Ok(signer));
//! let batch = [(digest, signature), (digest, [0; 65]), (B256::ZERO, [9; 65])];
//! let verdicts = recover_batch(&batch);
//! assert_eq!(verdicts[0], Ok(signer));
//! assert!(verdicts[1..].iter().all(|verdict| verdict.is_err()));
//! ```

mod batch;
mod instructions;
mod kernel;
mod table;
mod curve;
mod field;
mod generator;
mod group;
mod scalar;
mod lanes;
mod single;
#[cfg(test)]
mod tests;

pub use batch::{recover_batch, recover_batch_by};
pub use instructions::Instructions;
pub use single::{Error, Signature, recover};
