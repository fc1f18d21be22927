//! Genesis: the first state, at once or in parts.

use super::Engine;
use crate::{
    model::Error,
    state::{AccountDigests, Changes, GenesisAccount},
};
use alloy_primitives::{B256, keccak256};

/// A genesis that is committed in parts, because it is larger than memory. Each part is a height of the store, from 0 on.
///
/// Parts in the order of the keys' hashes take the least time and space: entries then have no predecessor in an earlier part that
/// is written again. A genesis that is not [finished](Self::finish) is no chain: an engine refuses to open the store.
///
/// For measurements and chains of plain blocks: the root, the heights and the digest differ from those of the same accounts at once,
/// so [`Engine::begin`] and services do not take such a store for theirs.
#[derive(Debug)]
#[must_use = "a genesis that is not finished is no chain"]
pub struct GenesisInParts<'e> {
    engine: &'e mut Engine,
    /// Digest of the parts so far, one after the other.
    digest: Option<B256>,
    /// Digest of the whole chain, in place of that of the accounts.
    pub(super) named: Option<B256>,
    /// True if accounts without code and nonce hold storage.
    bare_storage: bool,
}

impl Engine {
    /// Commits the genesis, as height 0, and returns its root. The store is bound to the chain id and to the genesis
    /// from then on.
    ///
    /// # Errors
    /// The store holds a chain already, the genesis is not that of
    /// [`EngineBuilder::with_genesis`](super::EngineBuilder::with_genesis), code is malformed, or writing fails.
    pub fn genesis(&mut self, accounts: impl IntoIterator<Item = GenesisAccount>) -> Result<B256, Error> {
        self.genesis_in_parts()?.finish(accounts)
    }

    /// Begins a genesis in parts.
    ///
    /// # Errors
    /// The store holds a chain already.
    pub fn genesis_in_parts(&mut self) -> Result<GenesisInParts<'_>, Error> {
        if self.state.height().is_some() {
            return Err(Error::Genesis { what: "the store holds a chain already; open another one" });
        }
        Ok(GenesisInParts { engine: self, digest: None, named: None, bare_storage: false })
    }
}

impl GenesisInParts<'_> {
    /// Commits a part. An account may be in several parts, each with other slots and all else alike.
    ///
    /// # Errors
    /// Code is malformed, or writing fails; the store is no chain then.
    pub fn commit(&mut self, accounts: impl IntoIterator<Item = GenesisAccount>) -> Result<(), Error> {
        let changes = self.changes(accounts)?;
        self.write(changes)
    }

    /// Commits the last part, and returns the root of the genesis. The store is bound to the chain id and to the genesis from
    /// then on.
    ///
    /// # Errors
    /// The errors of [`Self::commit`]; or the genesis is not that of
    /// [`EngineBuilder::with_genesis`](super::EngineBuilder::with_genesis).
    pub fn finish(mut self, accounts: impl IntoIterator<Item = GenesisAccount>) -> Result<B256, Error> {
        let mut changes = self.changes(accounts)?;
        let chain = self.engine.rules.chain.chain_id();
        let digest = self.named.or(self.digest).unwrap_or_default();
        if let Some(expected) = self.engine.genesis.filter(|expected| *expected != digest) {
            let name = |genesis: B256| format!("chain {chain} with genesis {genesis}");
            return Err(Error::OtherChain { found: name(digest), expected: name(expected) });
        }
        self.engine.state.put_identity(&mut changes, (chain, digest));
        changes.accounts.bare_storage |= self.bare_storage;
        self.engine.state.put_bare_storage(&mut changes);
        self.write(changes)?;
        Ok(self.engine.state.root())
    }

    fn changes(&mut self, accounts: impl IntoIterator<Item = GenesisAccount>) -> Result<Changes, Error> {
        let (mut changes, mut digests) = (Changes::default(), AccountDigests::default());
        for account in accounts {
            digests.add(&account);
            self.engine.state.put_genesis(&mut changes, &account)?;
        }
        let part = digests.finish();
        self.digest = Some(self.digest.map_or(part, |before| keccak256([before.0, part.0].as_flattened())));
        self.bare_storage |= changes.accounts.bare_storage;
        Ok(changes)
    }

    fn write(&mut self, changes: Changes) -> Result<(), Error> {
        let Engine { state, workers, .. } = &mut *self.engine;
        workers.install(|| {
            let prepared = state.prepare_delta(changes.delta)?;
            Ok::<_, Error>(state.apply(prepared)?.write()?)
        })?;
        state.adopt(&changes.accounts);
        Ok(())
    }
}
