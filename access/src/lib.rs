//! The vocabulary of accesses: access kinds with one conflict rule, access sets, and dense key ids.
//!
//! Prediction, framing, scheduling and execution use these words. The conflict rule is [`Access::conflicts`]; encodings of it
//! elsewhere are tested against it.
//!
//! ```text
//! full key ──► AccessSet<K> ──► AccessSets<K> ──► Interner<K> ──► AccessSets<KeyId>
//!              one transaction   one batch, flat   one block       what a DAG is built from
//! ```
//!
//! ```
//! use phalanx_access::{Access, AccessSets};
//!
//! assert!(Access::Read.conflicts(Access::Write));
//! assert!(!Access::Credit.conflicts(Access::Credit));
//! assert_eq!(Access::Read.join(Access::Credit), Access::Write);
//!
//! let mut sets = AccessSets::new();
//! sets.push([("alice", Access::Write), ("bob", Access::Credit)]);
//! assert_eq!(sets.get(0)[1], ("bob", Access::Credit));
//! ```

mod set;

mod intern;

mod kind;

mod digest;

pub use digest::{Key, Salt};
pub use intern::{Interner, KeyId};
pub use kind::Access;
pub use set::{AccessSet, AccessSets};
