//! The test harness. [`Case`] runs small hand-made blocks in every way against stock revm; [`prove`] plans and runs
//! chains of many transactions against sequential revm.

mod asm;
mod case;
mod chain;
mod hints;
mod oracle;
mod reference;
mod ways;

pub(crate) use asm::{Asm, deploys};
pub(crate) use case::{Body, Case, Proof, base_fee, header};
pub(crate) use chain::{COINBASE, ETHER, Ran, builder, call, contract, env, eoa, prove, replay, run};
pub(crate) use hints::Hint;
pub(crate) use oracle::Oracle;
pub(crate) use ways::{Way, some_ways};
