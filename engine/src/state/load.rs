//! Loads values of keys: one, many together, or only what memory has.

use super::{
    Origin, Remote, RemoteAccount, RemoteValue, State, StateError, Value, account,
    codes::CodeId,
    encoding::{Encoded, MAX_KEY, StoredAccount, account_key, read_account, slot_key},
    no_account, readable,
    remote::{other_kind, remote_account},
    word,
};
use alloy_primitives::{Address, U256};
use phalanx_memory::prefetch;
use phalanx_paralyze::StateKey;

/// Number of keys that are looked up together when a block's values are loaded.
const LOAD_WAVE: usize = 64;

impl State {
    /// Inlined, so that its parts are not written to memory before they are in place.
    #[inline(always)]
    pub(super) fn value(&self, key: &StateKey, bytes: &[u8]) -> Result<Value, StateError> {
        Ok(match key {
            StateKey::Basic(address) => {
                let Some(account) = read_account(bytes) else { return Err(no_account(address)) };
                let StoredAccount { exists, nonce, balance, code_hash, incarnation } = account;
                let code = match code_hash {
                    Some(hash) => self.code_id(hash)?,
                    None => CodeId::NONE,
                };
                Value { number: balance, nonce, code, exists, incarnation }
            }
            StateKey::Slot(address, slot) => {
                let number = word(address, slot, bytes)?;
                Value { number, exists: true, incarnation: self.incarnation(address), ..Value::default() }
            }
            // Stands for the part of an account that its `Basic` cell holds; this cell is never read.
            StateKey::Code(_) => Value::default(),
        })
    }

    /// Value of a key, of a slot for this incarnation of its account, if memory has it with its code.
    pub(crate) fn at_hand(&self, key: &StateKey, incarnation: u32) -> Result<Option<Value>, StateError> {
        let (store, name) = (self.reader()?, self.name_in(key, incarnation));
        let Some(found) = store.get_at_hand(name.as_slice()) else { return Ok(None) };
        readable(&store, found.is_some())?;
        if let (None, Some(remote)) = (found, &self.remote) {
            drop(store);
            return self.at_hand_remote(remote, key, incarnation);
        }
        let code_hash = match (key, found) {
            (StateKey::Basic(address), Some(bytes)) => account(address, bytes)?.code_hash,
            _ => None,
        };
        // Code is read from the store like a value.
        if code_hash.is_some_and(|hash| self.codes.find(&hash).is_none()) {
            return Ok(None);
        }
        self.value_in(key, found, incarnation).map(Some)
    }

    /// Values of many keys, of slots for these incarnations of their accounts, in one batch.
    pub(crate) fn read_many(&self, keys: &[(StateKey, u32)]) -> Result<Vec<Value>, StateError> {
        if let Some(remote) = &self.remote {
            return Ok(self.load_over(remote, keys)?.into_iter().map(|(value, _)| value).collect());
        }
        let store = self.reader()?;
        let names: Vec<Encoded<MAX_KEY>> =
            keys.iter().map(|(key, incarnation)| self.name_in(key, *incarnation)).collect();
        let (mut left, mut values, mut all) = (keys.iter(), Vec::with_capacity(keys.len()), true);
        store.get_many(names.iter().map(Encoded::as_slice), |found| {
            let Some((key, incarnation)) = left.next() else { return };
            all &= found.is_some();
            values.push(self.value_in(key, found.map(|(bytes, _)| bytes), *incarnation));
        });
        // What could not be read only seems absent.
        readable(&store, all)?;
        values.into_iter().collect()
    }

    /// Decodes a value, of a slot for this incarnation of its account.
    pub(super) fn value_in(&self, key: &StateKey, found: Option<&[u8]>, incarnation: u32) -> Result<Value, StateError> {
        match (key, found) {
            (StateKey::Slot(address, slot), found) => {
                let number = found.map_or(Ok(U256::ZERO), |bytes| word(address, slot, bytes))?;
                Ok(Value::of_slot(number, incarnation))
            }
            (_, Some(bytes)) => self.value(key, bytes),
            (_, None) => Ok(Value::default()),
        }
    }

    /// Value of one key, and its origin.
    pub(crate) fn load(&self, key: &StateKey) -> Result<(Value, Origin), StateError> {
        if let Some(remote) = &self.remote {
            let found = self.load_over(remote, &[(*key, self.incarnation_in(key))])?.pop();
            return Ok(found.unwrap_or_default());
        }
        let (store, name) = (self.reader()?, self.name(key));
        let locator = store.locate(name.as_ref());
        let bytes = match (locator, &self.above) {
            (Some(at), _) => store.value(at),
            // Keys created since the committed block have no locator.
            (None, Some(_)) => store.get(name.as_ref()),
            (None, None) => None,
        };
        match bytes {
            Some(bytes) => {
                let value = self.value(key, bytes)?;
                Ok((value, Origin::new(key, &value, locator)))
            }
            None => readable(&store, false).map(|()| (Value::default(), Origin::default())),
        }
    }

    /// Loads the values of many keys with overlapping cache misses, or reads; calls `take` for each in order.
    pub(crate) fn load_many(&self, keys: &[StateKey], mut take: impl FnMut(Value, Origin)) -> Result<(), StateError> {
        if let Some(remote) = &self.remote {
            let keys: Vec<_> = keys.iter().map(|key| (*key, self.incarnation_in(key))).collect();
            self.load_over(remote, &keys)?.into_iter().for_each(|(value, origin)| take(value, origin));
            return Ok(());
        }
        if self.is_paged {
            // Waves are for memory. A disk is asked for everything at once.
            let names: Vec<Encoded<MAX_KEY>> = keys.iter().map(|key| self.name(key)).collect();
            return self.load_wave(names.iter().map(Encoded::as_slice), keys, &mut std::iter::empty(), &mut take);
        }
        let mut names = [Encoded::new(); LOAD_WAVE];
        let mut ahead = keys.iter().skip(LOAD_WAVE);
        for keys in keys.chunks(LOAD_WAVE) {
            for (name, key) in names.iter_mut().zip(keys) {
                // The address of an account is its key.
                if !matches!(key, StateKey::Basic(_)) {
                    *name = self.name(key);
                }
            }
            let names = names.iter().zip(keys).map(|(name, key)| match key {
                StateKey::Basic(address) => address.as_slice(),
                _ => name.as_slice(),
            });
            self.load_wave(names, keys, &mut ahead, &mut take)?;
        }
        Ok(())
    }

    /// Loads the values of keys with these names together, and prefetches as many of the keys `ahead`.
    #[inline(always)]
    fn load_wave<'n, 'k>(
        &self,
        names: impl ExactSizeIterator<Item = &'n [u8]> + Clone,
        keys: &[StateKey],
        ahead: &mut impl Iterator<Item = &'k StateKey>,
        take: &mut impl FnMut(Value, Origin),
    ) -> Result<(), StateError> {
        let (store, mut keys) = (self.reader()?, keys.iter());
        let (mut all, mut bad) = (true, None);
        store.get_many(names, |found| {
            let Some(key) = keys.next() else { return };
            ahead.next().into_iter().for_each(prefetch);
            match found.map(|(bytes, at)| (self.value(key, bytes), at)) {
                Some((Ok(value), at)) => return take(value, Origin::new(key, &value, at)),
                Some((Err(error), _)) => _ = bad.get_or_insert(error),
                None => all = false,
            }
            take(Value::default(), Origin::default());
        });
        bad.map_or(Ok(()), Err)?;
        readable(&store, all)
    }

    /// Key of the store for `key`.
    #[inline]
    pub(super) fn name(&self, key: &StateKey) -> Encoded<MAX_KEY> {
        self.name_in(key, self.incarnation_in(key))
    }

    /// Incarnation of the account of a slot.
    #[inline]
    fn incarnation_in(&self, key: &StateKey) -> u32 {
        if let StateKey::Slot(address, _) = key { self.incarnation(address) } else { 0 }
    }

    /// Key of the store for `key`, of a slot for this incarnation of its account.
    #[inline]
    pub(super) fn name_in(&self, key: &StateKey, incarnation: u32) -> Encoded<MAX_KEY> {
        match key {
            StateKey::Basic(address) => account_key(address),
            StateKey::Slot(address, slot) => slot_key(address, slot, incarnation),
            StateKey::Code(_) => Encoded::new(),
        }
    }

    /// Value of a key that the remote state has, decoded.
    fn of_remote(&self, key: &StateKey, found: RemoteValue) -> Result<Value, StateError> {
        match (key, found) {
            (StateKey::Basic(_), RemoteValue::Account(None)) => Ok(Value::default()),
            (StateKey::Basic(_), RemoteValue::Account(Some(account))) => {
                let code = account.code_hash.map(|hash| self.code_id(&hash)).transpose()?.unwrap_or_default();
                Ok(Value { number: account.balance, nonce: account.nonce, code, exists: true, incarnation: 0 })
            }
            (StateKey::Slot(..), RemoteValue::Word(word)) => Ok(Value::of_slot(word, 0)),
            _ => Err(other_kind().into()),
        }
    }

    /// Stored account, or the remote one.
    pub(super) fn account_over(&self, remote: &Remote, address: &Address) -> Result<Option<StoredAccount>, StateError> {
        let reader = self.reader()?;
        let stored = reader.get(address.as_slice()).map(|bytes| account(address, bytes)).transpose()?;
        readable(&reader, stored.is_some())?;
        drop(reader);
        match stored {
            Some(stored) => Ok(Some(stored).filter(|stored| stored.exists)),
            None => Ok(remote.ask(|state| remote_account(state, address))?.map(RemoteAccount::stored)),
        }
    }

    /// Values of many keys, of slots for these incarnations of their accounts: those that the store has, and the remote
    /// ones, in one call.
    pub(super) fn load_over(
        &self,
        remote: &Remote,
        keys: &[(StateKey, u32)],
    ) -> Result<Vec<(Value, Origin)>, StateError> {
        let names: Vec<Encoded<MAX_KEY>> =
            keys.iter().map(|(key, incarnation)| self.name_in(key, *incarnation)).collect();
        let (mut left, mut found) = (keys.iter(), Vec::with_capacity(keys.len()));
        let store = self.reader()?;
        store.get_many(names.iter().map(Encoded::as_slice), |bytes| {
            let Some((key, incarnation)) = left.next() else { return };
            found.push(bytes.map(|(bytes, at)| {
                let value = self.value_in(key, Some(bytes), *incarnation)?;
                Ok::<_, StateError>((value, Origin::new(key, &value, at)))
            }));
        });
        readable(&store, found.iter().all(Option::is_some))?;
        // Nothing is locked while another node is asked.
        drop(store);
        let is_remote = |(key, incarnation): &&(StateKey, u32)| *incarnation == 0 && !matches!(key, StateKey::Code(_));
        let missing = keys.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(key, _)| key);
        let missing: Vec<StateKey> = missing.filter(is_remote).map(|(key, _)| *key).collect();
        let mut read = match missing.is_empty() {
            true => Vec::new(),
            false => remote.ask(|remote| remote.read(&missing))?,
        }
        .into_iter();
        let of = |(key, found): (&(StateKey, u32), Option<Result<_, StateError>>)| match found {
            Some(found) => found,
            None if is_remote(&key) => {
                let value = read.next().ok_or_else(other_kind)?;
                Ok((self.of_remote(&key.0, value)?, Origin::default()))
            }
            None => Ok((self.value_in(&key.0, None, key.1)?, Origin::default())),
        };
        keys.iter().zip(found).map(of).collect()
    }

    /// Value of a key that the store lacks, if the remote state has it without a wait.
    pub(super) fn at_hand_remote(
        &self,
        remote: &Remote,
        key: &StateKey,
        incarnation: u32,
    ) -> Result<Option<Value>, StateError> {
        if incarnation != 0 || matches!(key, StateKey::Code(_)) {
            return self.value_in(key, None, incarnation).map(Some);
        }
        let found = remote.ask(|remote| remote.at_hand(key))?;
        found.map(|found| self.of_remote(key, found)).transpose()
    }
}
