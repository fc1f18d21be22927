//! Proofs.

mod witness;
mod proofs;
mod wanted;
mod prover;
