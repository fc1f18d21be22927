//! The state that a block is executed on: the engine's own, or a foreign database. Executors read through it alone.

use super::{AccountRules, Changes, Codes, Foreign, Hashes, Origin, State, StateError, Tip, Value};
use alloy_primitives::{Address, B256, U256};
use phalanx_paralyze::{Snapshot, StateKey};
use revm::{
    DatabaseRef,
    primitives::{StorageKey, StorageValue, hardfork::SpecId},
    state::{AccountInfo, Bytecode},
};
use std::sync::Arc;

/// State under a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StateRef<'s> {
    /// The engine's own, on its store.
    Own(&'s State),
    /// A database of the caller.
    Foreign(&'s Foreign<'s>),
}

impl<'s> StateRef<'s> {
    /// The engine's own state, if it is that.
    pub(crate) const fn own(self) -> Option<&'s State> {
        match self {
            Self::Own(state) => Some(state),
            Self::Foreign(_) => None,
        }
    }

    pub(crate) const fn codes(self) -> &'s Arc<Codes> {
        match self {
            Self::Own(state) => &state.codes,
            Self::Foreign(foreign) => foreign.codes(),
        }
    }

    /// Results of BLOCKHASH in the next block.
    pub(crate) fn hashes(self) -> Hashes {
        match self {
            Self::Own(state) => Hashes::complete(Arc::clone(&state.ancestors), state.remote.clone()),
            Self::Foreign(foreign) => foreign.hashes(),
        }
    }

    /// Name of the state.
    pub(crate) const fn tip(self) -> &'s Arc<Tip> {
        match self {
            Self::Own(state) => &state.tip,
            Self::Foreign(foreign) => foreign.tip(),
        }
    }

    /// Rules by which transactions change accounts. Of a foreign state it is not known that no account without code
    /// and nonce holds storage.
    pub(crate) const fn rules(self, spec: SpecId) -> AccountRules {
        AccountRules::new(
            spec,
            match self {
                Self::Own(state) => state.bare_storage,
                Self::Foreign(_) => true,
            },
        )
    }

    /// Number of times that the storage of `address` was emptied.
    #[inline]
    pub(crate) fn incarnation(self, address: &Address) -> u32 {
        match self {
            Self::Own(state) => state.incarnation(address),
            Self::Foreign(_) => 0,
        }
    }

    /// Slot of the given incarnation of an account.
    pub(crate) fn slot(self, address: &Address, slot: &U256, incarnation: u32) -> Result<U256, StateError> {
        match self {
            Self::Own(state) => state.slot(address, slot, incarnation),
            // Later incarnations begin in the block.
            Self::Foreign(_) if incarnation != 0 => Ok(U256::ZERO),
            Self::Foreign(foreign) => foreign.slot(address, slot),
        }
    }

    /// Announces a key that is needed soon.
    pub(crate) fn announce(self, key: &StateKey) {
        if let Self::Own(state) = self {
            state.announce([key]);
        }
    }

    /// Value of one key, and its origin.
    pub(crate) fn load(self, key: &StateKey) -> Result<(Value, Origin), StateError> {
        match self {
            Self::Own(state) => state.load(key),
            Self::Foreign(foreign) => Ok((foreign.value(key)?, Origin::default())),
        }
    }

    /// True if values may have to be read from a disk, or from another node.
    pub(crate) const fn is_on_disk(self) -> bool {
        match self {
            Self::Own(state) => state.is_paged || state.remote.is_some(),
            Self::Foreign(_) => false,
        }
    }

    /// Called first on a thread that reads the state beside others.
    pub(crate) fn thread_begins(self) {
        if let Self::Own(state) = self {
            state.store.thread_begins();
        }
    }

    /// Value of a key, of a slot for this incarnation of its account, if that takes no read of a disk.
    pub(crate) fn at_hand(self, key: &StateKey, incarnation: u32) -> Result<Option<Value>, StateError> {
        match (self, key) {
            (Self::Own(state), _) => state.at_hand(key, incarnation),
            (Self::Foreign(_), StateKey::Slot(address, slot)) => {
                Ok(Some(Value::of_slot(self.slot(address, slot, incarnation)?, incarnation)))
            }
            (Self::Foreign(foreign), _) => foreign.value(key).map(Some),
        }
    }

    /// Values of many keys, of slots for these incarnations of their accounts. What a disk has is read in one batch.
    pub(crate) fn read_many(self, keys: &[(StateKey, u32)]) -> Result<Vec<Value>, StateError> {
        match self {
            Self::Own(state) => state.read_many(keys),
            Self::Foreign(_) => {
                let read = |(key, incarnation): &(StateKey, u32)| self.at_hand(key, *incarnation);
                keys.iter().map(|key| Ok(read(key)?.unwrap_or_default())).collect()
            }
        }
    }

    /// Loads like [`Self::load_many`], on the calling thread.
    pub(crate) fn load_all(self, keys: &[StateKey], mut take: impl FnMut(Value, Origin)) -> Result<(), StateError> {
        match self {
            Self::Own(state) => state.load_many(keys, take),
            Self::Foreign(foreign) => {
                keys.iter().try_for_each(|key| foreign.value(key).map(|value| take(value, Origin::default())))
            }
        }
    }

    /// Loads the values of many keys; calls `take` for each in order.
    pub(crate) fn load_many(self, keys: &[StateKey], take: impl FnMut(Value, Origin)) -> Result<(), StateError> {
        match self {
            Self::Own(state) => state.load_many(keys, take),
            Self::Foreign(foreign) => foreign.load_many(keys, take),
        }
    }

    /// Writes the final value of `key` into `changes`.
    #[inline]
    pub(crate) fn put(self, changes: &mut Changes, key: &StateKey, value: &Value, origin: &Origin) {
        match self {
            Self::Own(state) => state.put(&mut changes.delta, key, value, origin),
            Self::Foreign(_) => changes.values.push((*key, *value)),
        }
    }

    /// Records an account whose code or incarnation differs from `before`.
    pub(crate) fn note(self, changes: &mut Changes, address: Address, before: &Value, after: &Value) {
        match self {
            Self::Own(state) => state.note(changes, address, before, after),
            // The value says it all.
            Self::Foreign(_) => {}
        }
    }
}

impl DatabaseRef for StateRef<'_> {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        match self {
            Self::Own(state) => state.basic_ref(address),
            Self::Foreign(foreign) => foreign.info(&address),
        }
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, StateError> {
        match self {
            Self::Own(state) => state.code_by_hash_ref(code_hash),
            Self::Foreign(foreign) => foreign.code(&code_hash),
        }
    }

    fn storage_ref(&self, address: Address, slot: StorageKey) -> Result<StorageValue, StateError> {
        match self {
            Self::Own(state) => state.storage_ref(address, slot),
            Self::Foreign(foreign) => foreign.slot(&address, &slot),
        }
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        match self {
            Self::Own(state) => state.block_hash_ref(number),
            Self::Foreign(foreign) => foreign.block_hash(number),
        }
    }
}

impl Snapshot for StateRef<'_> {
    fn code_hash(&self, address: &Address) -> Option<B256> {
        match self {
            Self::Own(state) => state.code_hash(address),
            Self::Foreign(foreign) => foreign.code_hash(address),
        }
    }
}
