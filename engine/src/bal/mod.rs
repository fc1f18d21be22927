//! Block access lists (EIP-7928): accesses of every step of a block, and the values that it left.
//!
//! ```text
//! produce   executor ─► Footprint per step ─► Builder ─► BlockAccessList: RLP, hash
//! consume   RLP ─► List ─► Values ─► every transaction at once, on what the list says of the ones before it ─► Check
//! ```
//!
//! A transaction's values come from the list and the state before the block alone, so its result does not depend on
//! threads. The lowest transaction that departs from the list was shown true values, because all lower ones follow the
//! list. Correctness rests on that, and on `check` letting no difference pass.

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod values;
pub(crate) mod list;
pub(crate) mod record;
mod directory;
pub(crate) mod effects;
pub(crate) mod exceptions;
mod hints;

pub(crate) use check::Check;
pub use hints::access_list_hints;
pub(crate) use hints::hints_beside;
pub(crate) use list::List;
pub(crate) use record::{Footprint, Record};
pub(crate) use values::Values;
