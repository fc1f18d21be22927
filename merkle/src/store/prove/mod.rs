//! Proofs and witnesses: finds the entries that a claim needs, and collects the digests on their paths.

mod witness;
mod proofs;
mod wanted;
mod prover;
mod twigs;

pub use twigs::ProvenTwigs;
