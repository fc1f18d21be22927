//! L3: templates. What a function of a contract touches, as formulas over its inputs, learned from dry runs.
//!
//! ```text
//! dry run of one call, every value followed                            later calls, nothing executed
//! trace.rs, phalanx-symbolic (formulas) ─► tree.rs (paths merged) ─► table.rs ─► eval/   ─► (StateKey, Access)*
//!                                          per (code hash, selector)  bounded
//! ```
//!
//! A dry run keeps, beside each value of stack and memory, the formula that it is: of caller, calldata, value, own
//! storage, results of calls. What depends on none of these is the same in every execution of that path. A frame leaves
//! the slots and accounts that it touched, the calls that it made and the conditions that it went by, all as formulas.
//! Calls name their callee by formula and nothing more: which code that is and what it does is looked up when a
//! prediction is made. So a token behind a proxy, or a router over pools of one code, needs no rule of its own, and what
//! one contract's call taught of another serves every caller of it.
//!
//! Paths through one function are merged into a tree. A condition on the inputs alone is always asked, and one that compares
//! them with what is stored at a fixed place; any other on the state only where both ways have been seen. A call that leaves
//! the known tree has no prediction and is simulated, which is how the tree grows.

mod eval;
mod table;
mod trace;
mod tree;

pub(crate) use eval::{Evaluator, Request};
pub(crate) use table::Table;
pub use table::TemplateLimits;
pub(crate) use trace::{Trace, Tracing};
pub(crate) use tree::Template;

use crate::{key::StateKey, preimage::Preimage};
use alloy_primitives::B256;
use core::ops::Range;
use phalanx_access::Access;

/// Name of a template: a code, and the first four bytes of calldata, if there are as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Function {
    pub(crate) code: B256,
    pub(crate) selector: Option<[u8; 4]>,
}

/// The first four bytes of calldata, which tell the functions of a contract apart.
pub(crate) const fn selector(input: &[u8]) -> Option<[u8; 4]> {
    match input.first_chunk() {
        Some(selector) => Some(*selector),
        None => None,
    }
}

/// Sets that templates gave, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Predicted {
    pub(crate) sets: Vec<(StateKey, Access)>,
    /// Entries of `sets`, ascending, that are slots, and what they are hashes of.
    pub(crate) hashed: Vec<(usize, Preimage)>,
    /// Preimages of second halves, by places in `hashed`, ascending: mappings of mappings have them.
    pub(crate) inners: Vec<(usize, Preimage)>,
    /// By the number of the request.
    pub(crate) spans: Vec<Option<Span>>,
}

/// Where a transaction's part of the predicted is. Its set may name a key more than once.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) set: Range<usize>,
    pub(crate) hashed: Range<usize>,
}

#[cfg(test)]
mod tests;
