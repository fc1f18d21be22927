//! The test harness. [`Case`] runs small hand-made blocks in every way against stock revm; [`prove`] plans and runs
//! chains of many transactions against sequential revm.

mod asm;
mod case;
mod chain;
mod disk;
mod foreign;
mod hints;
mod load;
mod oracle;
mod reference;
mod ways;
mod world;

pub(crate) use asm::{Asm, deploys};
pub(crate) use case::{Body, Case, Proof, base_fee, header};
pub(crate) use chain::{COINBASE, ETHER, Ran, builder, call, contract, env, eoa, prove, replay, run};
pub(crate) use disk::{SlowDisk, folder};
pub(crate) use foreign::{difference as bundle_difference, recorded, stateless};
pub(crate) use hints::Hint;
pub(crate) use load::genesis;
pub(crate) use oracle::Oracle;
pub(crate) use ways::{Way, some_ways, ways_on};
pub(crate) use world::{Asked, Fails, World, stock};
