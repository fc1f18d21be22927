#![doc = include_str!("../README.md")]

mod set;

mod intern;

mod kind;

mod digest;

pub use digest::{Key, Salt};
pub use intern::{Interner, KeyId};
pub use kind::Access;
pub use set::{AccessSet, AccessSets};
