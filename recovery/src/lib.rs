#![doc = include_str!("../README.md")]

#[cfg(feature = "alloy")]
pub mod alloy;
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
