//! Begins a chain from `genesis.json`, or checks that the store holds it.

use super::Engine;
use crate::{
    chain::{ChainSpec, ChainSpecError},
    model::Error,
    state::{GenesisAccount, genesis_digest},
};
use alloy_consensus::{Header, Sealable as _};
use alloy_genesis::Genesis;
use alloy_primitives::{B256, Keccak256, Sealed};

/// Digest of everything in geth's or reth's `genesis.json` that decides what a chain is: chain id, every fork with its parameters, header
/// and accounts. Stores and nodes are compared by it. Forks that a running chain takes later are laid over the file, which stays as it is.
///
/// # Errors
/// [`ChainSpecError`] if the engine cannot follow the chain.
pub fn chain_digest(genesis: &Genesis) -> Result<B256, ChainSpecError> {
    let chain = ChainSpec::from_genesis(genesis)?;
    let accounts: Vec<GenesisAccount> = GenesisAccount::of(genesis).collect();
    let mut hasher = Keccak256::new();
    hasher.update(b"phalanx genesis 2");
    hasher.update(chain.digest());
    // The state's root is that of the accounts, which are here themselves.
    hasher.update(chain.genesis_header(genesis, B256::ZERO).hash_slow());
    hasher.update(genesis_digest(&accounts));
    Ok(hasher.finalize())
}

impl Engine {
    /// Commits the genesis of geth's or reth's `genesis.json` if the store is empty; else checks that the store was begun
    /// with it. Returns its header. The chain must be that of the file: see
    /// [`ChainSpec::from_genesis`](crate::chain::ChainSpec::from_genesis) and [`super::EngineBuilder::with_chain`].
    ///
    /// O(accounts), also for a store that holds the chain: the root of the genesis is computed again.
    ///
    /// # Errors
    /// [`Error::OtherChain`] if the store, or the engine, is for another chain; the errors of [`Self::genesis`].
    pub fn begin(&mut self, genesis: &Genesis) -> Result<Header, Error> {
        let (chain, accounts) = (self.rules.chain.chain_id(), || GenesisAccount::of(genesis));
        let name = |chain: u64, digest: B256| format!("chain {chain} with genesis {digest}");
        let accounts_of: Vec<GenesisAccount> = accounts().collect();
        let digest = chain_digest(genesis).map_err(|error| Error::Configuration { what: error.to_string() })?;
        let wanted = (genesis.config.chain_id, digest);
        let held = match self.state.height() {
            Some(_) => self.state.identity()?.unwrap_or((chain, B256::ZERO)),
            None => (chain, wanted.1),
        };
        if held != wanted {
            return Err(Error::OtherChain { found: name(held.0, held.1), expected: name(wanted.0, wanted.1) });
        }
        let remote = self.state.remote_height();
        if remote.is_some_and(|height| genesis.number != Some(height)) {
            return Err(Error::Genesis { what: "the genesis is not at the height of the remote state" });
        }
        let root = match self.state.height() {
            // Above a remote state the root is that of the store, which holds the first block or not any more.
            Some(_) if remote.is_some() => self.state.root(),
            Some(_) => {
                let params = *self.state.store.params();
                let store = phalanx_merkle::StoreConfig::new(phalanx_merkle::Backend::Mem).with_params(params);
                let builder = Self::builder().with_chain(self.rules.chain.clone()).with_store(store);
                builder.build()?.genesis_named(accounts_of, digest)?
            }
            None => self.genesis_named(accounts_of, digest)?,
        };
        let header = self.rules.chain.genesis_header(genesis, root);
        self.begun = Some(Box::new(header.clone().seal_slow()));
        Ok(header)
    }

    /// Commits the genesis of a chain above a remote state, or checks that the store holds it, like [`Self::begin`]. The chain's first
    /// block has the header and the hash of the block that the remote state is after.
    ///
    /// # Errors
    /// The errors of [`Self::begin`]; the genesis is not at the height of the remote state.
    pub fn begin_above(&mut self, genesis: &Genesis, block: Sealed<Header>) -> Result<(), Error> {
        if self.state.remote_height() != Some(block.number) {
            return Err(Error::Genesis { what: "the block is not that of the remote state" });
        }
        self.begin(genesis)?;
        self.begun = Some(Box::new(block));
        Ok(())
    }

    fn genesis_named(&mut self, accounts: Vec<GenesisAccount>, digest: B256) -> Result<B256, Error> {
        let mut parts = self.genesis_in_parts()?;
        parts.named = Some(digest);
        parts.finish(accounts)
    }

    /// The chain of the engine's blocks, with the limits of its configuration.
    pub const fn chain(&self) -> &crate::chain::ChainSpec {
        &self.rules.chain
    }
}
