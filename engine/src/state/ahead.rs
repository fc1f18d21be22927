//! Announces keys of blocks that run later to a paged store, which reads their values meanwhile. A resident state has no such
//! part: it is decided once, when the state is opened.

use super::{
    State,
    encoding::{Encoded, MAX_KEY},
};
use alloy_primitives::Address;
use phalanx_merkle::{CacheUse, Memory, Prefetcher, ReadUse, Store};
use phalanx_paralyze::StateKey;
use revm::{context::TxEnv, primitives::TxKind};

/// Estimate of what a value takes in the store's cache, its bookkeeping included, in bytes.
const VALUE_BYTES: usize = 256;

/// Reader of values ahead of the blocks that need them. It changes no result.
#[derive(Debug)]
pub(super) struct Ahead {
    prefetcher: Prefetcher,
    /// Maximum number of keys of an announcement.
    most: usize,
}

impl Ahead {
    /// Begins to read ahead of at most `budget` bytes at a time; `None` if the state is resident, or nothing may be read ahead.
    fn new(store: &Store, memory: Memory, budget: usize) -> Option<Self> {
        // What is read ahead must not evict what the running block has read.
        let most = match memory {
            Memory::Resident => 0,
            Memory::Cached { bytes } => budget.min(bytes / 2) / VALUE_BYTES,
        };
        let prefetcher = (most > 0).then(|| store.prefetcher()).flatten()?;
        Some(Self { prefetcher, most })
    }
}

/// Hands the keys to `name` that a transaction names: sender, target, and its access list (EIP-2930).
pub(crate) fn named(tx: &TxEnv, mut name: impl FnMut(StateKey)) {
    name(StateKey::Basic(tx.caller));
    if let TxKind::Call(to) = tx.kind {
        name(StateKey::Basic(to));
    }
    for item in tx.access_list.iter() {
        let address: Address = item.address;
        name(StateKey::Basic(address));
        item.storage_keys.iter().for_each(|slot| name(StateKey::Slot(address, (*slot).into())));
    }
}

impl State {
    /// Reads values ahead from now on, of at most `budget` bytes at a time.
    pub(crate) fn read_ahead(&mut self, memory: Memory, budget: usize) {
        self.ahead = Ahead::new(&self.store, memory, budget);
    }

    /// Announces keys of a block that runs later, so that a store with values on disk reads them meanwhile. Returns at once.
    ///
    /// The values that are read ahead of one block take at most [`Tuning::read_ahead`](crate::Tuning::read_ahead) bytes: the keys
    /// behind them are read when the block begins. For a resident state it does nothing.
    pub fn announce<'k>(&self, keys: impl IntoIterator<Item = &'k StateKey>) {
        if let Some(Ahead { prefetcher, most }) = &self.ahead {
            // Code is part of its account, and has no value of its own.
            let keys = keys.into_iter().filter(|key| !matches!(key, StateKey::Code(_))).take(*most);
            let names: Vec<Encoded<MAX_KEY>> = keys.map(|key| self.name(key)).collect();
            // What the store has no room for is read when it is needed.
            prefetcher.announce(names.iter().map(Encoded::as_slice));
        }
    }

    /// True if announced values are read ahead.
    pub(crate) const fn reads_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Announces what transactions without predictions name: senders, targets, and their access lists (EIP-2930).
    pub(crate) fn announce_named<'t>(&self, txs: impl Iterator<Item = &'t TxEnv>) {
        let Some(Ahead { most, .. }) = &self.ahead else { return };
        let mut keys = Vec::new();
        for tx in txs {
            if keys.len() >= *most {
                break;
            }
            named(tx, |key| keys.push(key));
        }
        self.announce(&keys);
    }

    /// Figures of the store's reads and of its cache; `None` if the state is resident, or its backend reads by itself.
    pub fn reads(&self) -> Option<(ReadUse, CacheUse)> {
        self.store.reads().zip(self.store.cache())
    }
}
