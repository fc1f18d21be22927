//! Small blocks assembled by hand, run on every executor in many ways, and judged by stock revm.

mod asm;
mod case;
mod hints;
mod oracle;
mod reference;
mod ways;

pub(crate) use asm::{Asm, deploys};
pub(crate) use case::{Body, Case, Proof, base_fee, header};
pub(crate) use hints::Hint;
pub(crate) use oracle::Oracle;
pub(crate) use ways::{Way, some_ways};
