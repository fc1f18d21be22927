//! Fuzz targets that run as tests: mutated proofs, log records and programs, from a seed or from the corpus.

mod common;
mod machine;
mod proofs;
mod rows;
