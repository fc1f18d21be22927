//! Proofs.

mod proofs;
mod prover;
mod wanted;
mod witness;
