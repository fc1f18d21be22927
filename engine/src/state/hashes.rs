//! Results of BLOCKHASH within a block.

use super::{Ancestors, remote::Remote};
use alloy_primitives::B256;
use parking_lot::Mutex;
use std::{collections::BTreeSet, sync::Arc};

/// Known hashes of ancestors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes {
    known: Arc<Ancestors>,
    /// Numbers whose hash was asked for and is not known, where more can be learned.
    missed: Option<Arc<Mutex<BTreeSet<u64>>>>,
    /// Source of the hashes below the chain.
    remote: Option<Remote>,
}

impl Hashes {
    /// Creates a set that is complete, with what is below the chain: any other number hashes to zero.
    pub(crate) const fn complete(known: Arc<Ancestors>, remote: Option<Remote>) -> Self {
        Self { known, missed: None, remote }
    }

    /// Creates a set that notes each number it does not know.
    pub(crate) fn partial(known: Ancestors) -> Self {
        Self { known: Arc::new(known), missed: Some(Arc::default()), remote: None }
    }

    /// Hash of a block; zero if it is not known.
    pub(crate) fn get(&self, number: u64) -> B256 {
        if let Some(hash) = self.known.get(&number) {
            return *hash;
        }
        if let Some(missed) = &self.missed {
            missed.lock().insert(number);
        }
        self.remote.as_ref().map_or(B256::ZERO, |remote| remote.hash(number))
    }

    /// Known hashes.
    pub(crate) fn known(&self) -> &Ancestors {
        &self.known
    }

    /// Takes the numbers that were missed.
    pub(crate) fn take_missed(&self) -> BTreeSet<u64> {
        self.missed.as_ref().map(|missed| core::mem::take(&mut *missed.lock())).unwrap_or_default()
    }
}
