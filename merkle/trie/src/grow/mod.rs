//! The shape of a subtrie after sorted changes: new nodes beside the old ones, and items to hash.

mod branch;
mod items;
mod grower;
mod split;

pub(crate) use grower::{Grower, Names, Step, Verb};
pub(crate) use items::{Item, NONE, Up};
