//! Vocabulary: what changes, where values come from, what can fail.

mod changes;
mod error;
mod key;
mod values;
mod work;

pub use changes::{AccountChange, Changes, Fate, SlotChange, Wipe};
pub use error::Error;
pub use values::{Account, Values};
pub use work::Work;

pub(crate) use key::{DEPTH, common, nibble, prefix, runs};
