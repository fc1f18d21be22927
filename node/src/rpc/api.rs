//! Parts that all methods share: the chain, limits, filters, and how a request names a block and a state.

use super::{args::BlockRef, error::RpcError, filters::Filters, keyring::Keyring};
use crate::{
    chain::Chain,
    config::{NodeConfig, RpcConfig},
    exit::Exit,
    intake::Intake,
    metrics::Metrics,
    next::Plan,
    store::{Block, Head},
};
use ::phalanx::{StateSnapshot, alloy::genesis::GenesisAccount, chain::Attributes};
use alloy_consensus::Header;
use alloy_primitives::{Address, B64, B256, U256};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::{Semaphore, watch};

/// Waits until the server stops.
pub(super) async fn stopped(stops: &mut watch::Receiver<bool>) {
    // An error means that the server has ended.
    let _ = stops.wait_for(|stops| *stops).await;
}

/// Context of every method.
#[derive(Debug)]
pub(crate) struct Api {
    pub(super) chain: Arc<Chain>,
    pub(super) limits: RpcConfig,
    pub(super) filters: Filters,
    pub(super) metrics: Arc<Metrics>,
    pub(super) intake: Arc<Intake>,
    pub(super) exit: Exit,
    /// Places of calls, traces and log queries.
    pub(super) calls: Arc<Semaphore>,
    /// Height and suggested tip of the last question for one.
    pub(super) tip: Mutex<Option<(u64, u128)>>,
    /// Name and version of the program.
    pub(super) version: String,
    /// Keys of the node's accounts.
    pub(super) keyring: Keyring,
    /// Accounts of the genesis.
    pub(super) alloc: Arc<BTreeMap<Address, GenesisAccount>>,
    /// Random name of this run of the node.
    pub(super) instance: [u8; 32],
    /// Total difficulty at which proof of stake begins, by the genesis.
    pub(super) terminal_difficulty: U256,
    /// First bytes of the commit that the program is built from.
    pub(super) commit: [u8; 4],
}

/// End of the time that a call has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    end: Instant,
    all: Duration,
}

impl Until {
    /// # Errors
    /// The time is over.
    pub(super) fn check(self) -> Result<(), RpcError> {
        if self.is_over() { Err(RpcError::limit(format!("the call takes longer than {:?}", self.all))) } else { Ok(()) }
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.end
    }
}

impl Api {
    /// End of the time that a call has which begins now.
    pub(super) fn until(&self) -> Until {
        let all = self.limits.max_run;
        Until { end: Instant::now() + all, all }
    }

    pub(crate) fn new(
        chain: Arc<Chain>,
        limits: RpcConfig,
        metrics: Arc<Metrics>,
        (intake, exit): (Arc<Intake>, Exit),
        config: &NodeConfig,
    ) -> Self {
        let (development, genesis) = (config.development.as_ref(), &config.genesis);
        let filters = Filters::new(limits.max_filters, limits.filter_timeout);
        let calls = Arc::new(Semaphore::new(limits.max_calls.max(1)));
        let os = std::env::consts::OS;
        // Tools of development ask for a name that they know before they use its methods.
        let family = if development.is_some() { "anvil/" } else { "" };
        let version = format!("{family}phalanx/v{}/{os}-{}/rust", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
        let keyring = development.map_or_else(Keyring::default, Keyring::new);
        // Methods that list the keys of a state begin with them.
        let lists = development.is_some() || limits.namespaces.iter().any(|name| name == "debug");
        let alloc = if lists { Arc::new(genesis.alloc.clone()) } else { Arc::default() };
        let mut instance = [0; 32];
        // Without randomness the name is zero, and nothing depends on it.
        let _ = getrandom::fill(&mut instance);
        let tip = Mutex::default();
        let terminal_difficulty = genesis.config.terminal_total_difficulty.unwrap_or_default();
        Self {
            chain,
            limits,
            filters,
            metrics,
            intake,
            exit,
            calls,
            tip,
            version,
            keyring,
            alloc,
            instance,
            terminal_difficulty,
            commit: config.engine_api().map_or([0; 4], |api| api.commit),
        }
    }

    /// Height of a named block that is committed; `None` for the pending one, and for one that is not there. No safe or finalised
    /// block is an error before the first.
    pub(super) fn height(&self, block: BlockRef) -> Result<Option<u64>, RpcError> {
        Ok(match block {
            BlockRef::Latest => Some(self.chain.height()),
            BlockRef::Safe => Some(self.chain.safe().ok_or_else(RpcError::unknown_block)?),
            BlockRef::Finalised => Some(self.chain.finalised().ok_or_else(RpcError::unknown_block)?),
            BlockRef::Earliest => Some(self.chain.first()?),
            BlockRef::Height(height) => Some(height).filter(|height| *height <= self.chain.height()),
            BlockRef::Hash(hash) => self.chain.height_of(&hash)?,
            BlockRef::Pending => None,
        })
    }

    /// A named committed block. A height that is pruned is an error.
    pub(super) fn block(&self, block: BlockRef) -> Result<Option<Arc<Block>>, RpcError> {
        let Some(height) = self.height(block)? else { return Ok(None) };
        let block = self.chain.block(height)?;
        if block.is_none() && height < self.chain.first()? { Err(RpcError::pruned()) } else { Ok(block) }
    }

    /// Head of a named committed block. A height that is pruned is an error.
    pub(super) fn head(&self, block: BlockRef) -> Result<Option<Arc<Head>>, RpcError> {
        let Some(height) = self.height(block)? else { return Ok(None) };
        let head = self.chain.head_at(height)?;
        // The block of a joined snapshot has a head for calls, and nothing to show.
        if height < self.chain.first()? { Err(RpcError::pruned()) } else { Ok(head) }
    }

    /// Height of the state that a request names: of the newest block for the pending one, whose transactions have not run.
    pub(super) fn state_height(&self, block: BlockRef) -> Result<u64, RpcError> {
        match block {
            BlockRef::Pending => Ok(self.chain.height()),
            BlockRef::Hash(_) => self.height(block)?.ok_or_else(|| RpcError::server("header for hash not found")),
            other => self.height(other)?.ok_or_else(|| RpcError::server("header not found")),
        }
    }

    /// State that a request names.
    pub(super) fn state(&self, block: BlockRef) -> Result<StateSnapshot, RpcError> {
        Ok(self.chain.state(self.state_height(block)?)?)
    }

    /// Header and state of a call in a named block: geth runs it with the header of the block, on the state after it.
    pub(super) fn setting(&self, block: BlockRef) -> Result<(Header, StateSnapshot), RpcError> {
        if block == BlockRef::Pending {
            let head = self.chain.head();
            let state = self.chain.state(head.header.number)?;
            return Ok((self.pending(&head)?, state));
        }
        let height = self.state_height(block)?;
        let state = self.chain.state(height)?;
        let head = self.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
        Ok((head.header.clone(), state))
    }

    /// Header of the next block, without transactions.
    pub(super) fn pending(&self, parent: &Head) -> Result<Header, RpcError> {
        let Plan { attributes, base_fee } = match self.exit.bell() {
            Some(bell) => bell.next().plan(parent),
            None => {
                let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
                let beneficiary = parent.header.beneficiary;
                let attributes = Attributes { timestamp, beneficiary, ..Attributes::default() };
                Plan { attributes, base_fee: None }
            }
        };
        let header = self.chain.child(parent, &attributes).map_err(RpcError::internal)?;
        Ok(Header { base_fee_per_gas: base_fee.or(header.base_fee_per_gas), ..header })
    }

    /// The next block as it is shown: without hash, nonce and transactions.
    pub(super) fn pending_block(&self) -> Result<Block, RpcError> {
        let header = Header { nonce: B64::ZERO, ..self.pending(&self.chain.head())? };
        let head = Head {
            hash: B256::ZERO,
            exec: B256::ZERO,
            timestamp_ms: header.timestamp.saturating_mul(1000),
            header,
            attributes: Default::default(),
            access_list: Default::default(),
            skipped: Vec::new(),
        };
        Ok(Block { head, entries: Vec::new() })
    }
}
