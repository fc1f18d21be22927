//! From the changes of a block to the root after it.
//!
//! ```text
//! slots ──► storages, whole or in pieces ──► their roots ──► accounts ──► pieces ──► top ──► root
//!           tasks on all threads                             tasks        tasks
//! ```

mod accounts;
mod storages;
mod spread;
mod fold;
mod values;
mod tasks;

pub(crate) use fold::first_byte;
pub(crate) use values::{account, slot, storage_root};

use alloy_primitives::{B256, b256};
use phalanx_hash_lanes::Lanes;

use crate::{
    nodes::{Journal, SHARDS, Shard, Spare, Top},
    types::{Changes, Error, Values, Work},
};

/// Root of a trie without leaves: Keccak-256 of an empty string in RLP.
pub(crate) const EMPTY_ROOT: B256 = b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");

/// An update in progress. What it made and replaced is in the journal, also after an error.
pub(crate) struct Update<'a, V> {
    pub(crate) shards: &'a mut [Shard; SHARDS],
    /// Accounts before the block.
    pub(crate) before: &'a Accounts,
    pub(crate) changes: &'a Changes,
    /// Values before the block.
    pub(crate) values: &'a V,
    pub(crate) lanes: Lanes,
    /// Slots above which a storage is spread over all shards.
    pub(crate) spread: u64,
    pub(crate) journal: Journal,
    pub(crate) spare: &'a mut Spare,
    pub(crate) work: Work,
}

/// The accounts of a version.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    pub(crate) top: Box<Top>,
    pub(crate) root: B256,
}

impl<V: Values> Update<'_, V> {
    /// Applies the changes.
    ///
    /// # Errors
    /// If the store fails or lacks what the trie has, or the changes contradict each other or the state.
    pub(crate) fn run(&mut self) -> Result<Accounts, Error<V::Error>> {
        let storages = self.storages()?;
        self.accounts(&storages)
    }
}
