//! The state after a block of another node, as the engine reads it.

use super::{
    answers::{self, Read},
    found::{Remote, Shared},
};
use alloy_eips::{eip2935, eip4788};
use alloy_primitives::{Address, B256, Bytes, U256};
use phalanx::{RemoteAccount, RemoteError as RemoteFault, RemoteState, RemoteValue, paralyze::StateKey};
use std::collections::HashMap;

/// Number of ancestors whose hashes BLOCKHASH gives.
const ANCESTORS: u64 = 256;

/// Number of slots that are read together of a contract of the protocol that keeps a value per block, or per second.
const TOGETHER: u64 = 64;

/// Slots that later blocks use, if a key is such a contract's: one request then serves many blocks.
fn ahead(key: &StateKey) -> impl Iterator<Item = StateKey> {
    let found = match key {
        StateKey::Slot(address, slot) => Some((*address, *slot)),
        _ => None,
    };
    let of_block = [eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS];
    let found = found.filter(|(address, _)| of_block.contains(address)).into_iter();
    found.flat_map(|(address, slot)| (1..TOGETHER).map(move |next| StateKey::Slot(address, slot + U256::from(next))))
}

impl Remote {
    /// Notes an error, so that the node can name what the remote node has said.
    fn fault(&self, why: impl ToString) -> RemoteFault {
        let why = why.to_string();
        tracing::warn!(why, "the remote state is not read");
        let failed = &mut *self.shared.failed.lock();
        *failed = (failed.0 + 1, Some(why.clone()));
        RemoteFault(why)
    }

    /// Value of a key that the cache has, or that follows from what it has.
    fn known(&self, key: &StateKey) -> Result<Option<RemoteValue>, RemoteFault> {
        let cache = &self.shared.cache;
        let account = |address: &Address| cache.account(address).map_err(|why| self.fault(why));
        match key {
            StateKey::Basic(address) => Ok(account(address)?.map(RemoteValue::Account)),
            StateKey::Slot(address, slot) => {
                let word = cache.word(address, slot).map_err(|why| self.fault(why))?;
                // An account that was no contract has no storage: what is deployed there since has its own.
                let is_bare = |account: Option<RemoteAccount>| {
                    account.is_none_or(|account| account.nonce == 0 && account.code_hash.is_none())
                };
                let word = match word {
                    Some(word) => Some(word),
                    None => account(address)?.filter(|account| is_bare(*account)).map(|_| U256::ZERO),
                };
                Ok(word.map(RemoteValue::Word))
            }
            StateKey::Code(_) => Ok(Some(RemoteValue::Word(U256::ZERO))),
        }
    }

    /// Reads keys at the remote node, and keeps them.
    fn fetch(&self, keys: &[StateKey]) -> Result<HashMap<StateKey, RemoteValue>, RemoteFault> {
        let shared = &self.shared;
        let mut keys = keys.to_vec();
        if shared.client.takes_batches() {
            let later: Vec<StateKey> = keys.iter().flat_map(ahead).collect();
            keys.extend(later);
            keys.sort_unstable();
            keys.dedup();
        }
        let read = answers::read(&shared.client, &shared.at, &keys).map_err(|why| self.fault(why))?;
        let (mut accounts, mut words, mut found) = (Vec::new(), Vec::new(), HashMap::new());
        for (key, read) in keys.iter().zip(read) {
            match (key, read) {
                (StateKey::Basic(address), Read::Account(account)) => {
                    found.insert(*key, RemoteValue::Account(account.digest()));
                    accounts.push((*address, account));
                }
                (StateKey::Slot(address, slot), Read::Word(word)) => {
                    found.insert(*key, RemoteValue::Word(word));
                    words.push(((*address, *slot), word));
                }
                // Each key is read as what it is.
                _ => {}
            }
        }
        shared.cache.keep(&accounts, &words).map_err(|why| self.fault(why))?;
        Ok(found)
    }
}

impl RemoteState for Remote {
    fn height(&self) -> u64 {
        self.shared.header.number
    }

    fn read(&self, keys: &[StateKey]) -> Result<Vec<RemoteValue>, RemoteFault> {
        let known: Vec<Option<RemoteValue>> = keys.iter().map(|key| self.known(key)).collect::<Result<_, _>>()?;
        let mut missing: Vec<StateKey> =
            keys.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(key, _)| *key).collect();
        missing.sort_unstable();
        missing.dedup();
        let found = if missing.is_empty() { HashMap::new() } else { self.fetch(&missing)? };
        let absent = || self.fault("the remote node's answers lack a value");
        keys.iter()
            .zip(known)
            .map(|(key, known)| known.or_else(|| found.get(key).copied()).ok_or_else(absent))
            .collect()
    }

    fn at_hand(&self, key: &StateKey) -> Result<Option<RemoteValue>, RemoteFault> {
        self.known(key)
    }

    fn code(&self, hash: &B256) -> Result<Option<Bytes>, RemoteFault> {
        self.shared.cache.code(hash).map_err(|why| self.fault(why))
    }

    /// Each header of a chain binds its parent's hash: ancestors are what the block itself leads to, not what the remote node has at
    /// their heights by now.
    fn block_hash(&self, number: u64) -> Result<B256, RemoteFault> {
        let Shared { client, cache, header, .. } = &*self.shared;
        if number >= header.number {
            let none = || self.fault(format_args!("no block {number} is below the chain"));
            return Some(header.hash()).filter(|_| number == header.number).ok_or_else(none);
        }
        if header.number - number > ANCESTORS {
            return Err(self.fault(format_args!("block {number} is too far below the chain for its hash")));
        }
        // The lowest block from there on whose hash is known.
        let mut known = number;
        let mut hash = loop {
            if known + 1 == header.number {
                break header.parent_hash;
            }
            if let Some(hash) = cache.hash(known).map_err(|why| self.fault(why))? {
                break hash;
            }
            known += 1;
        };
        if known == number {
            return Ok(hash);
        }
        let steps = || (number + 1..=known).rev();
        let found = answers::headers(client, steps()).map_err(|why| self.fault(why))?;
        // Headers of a chain with fields of its own are not whole here: their hashes are taken as they are.
        let is_whole = header.hash_slow() == header.hash();
        let mut learned = Vec::with_capacity(found.len());
        for (height, found) in steps().zip(found) {
            let none = || self.fault(format_args!("the remote node {} has no block {height}", client.server()));
            let (ancestor, named) = found.ok_or_else(none)?;
            let real = if is_whole { ancestor.hash_slow() } else { named };
            if real != hash {
                let (server, above) = (client.server(), header.number);
                let why = format!(
                    "the remote node {server} answers with another block {height} than the one that block {above} descends from"
                );
                return Err(self.fault(why));
            }
            hash = ancestor.parent_hash;
            learned.push((height - 1, hash));
        }
        cache.keep_hashes(&learned).map_err(|why| self.fault(why))?;
        Ok(hash)
    }
}
