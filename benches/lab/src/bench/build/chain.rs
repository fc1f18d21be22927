//! The chain that blocks are built and validated for: the workload's accounts under the rules of a hard fork.

use crate::{
    config::{BuildConfig, Store},
    machine::{
        clock::StageClock,
        pin::{self, Pinned},
    },
    run::{
        genesis,
        place::{self, Place},
    },
    ui::Ui,
};
use alloy_consensus::Header;
use anyhow::Context as _;
use phalanx::{
    Engine, Executor, GenesisAccount, Template,
    chain::ChainSpec,
    merkle::Memory,
    revm::primitives::{B256, Bytes, hardfork::SpecId},
};
use phalanx_workloads::Workload;
use std::sync::Arc;

/// Code of the request contracts, which never have a request: STOP.
const SILENT: Bytes = Bytes::from_static(&[0]);

/// A chain without blocks.
pub(super) struct Chain<'a> {
    config: &'a BuildConfig,
    pub(super) workload: &'a dyn Workload,
    pub(super) rules: ChainSpec,
    pub(super) spec: SpecId,
}

impl<'a> Chain<'a> {
    pub(super) fn new(config: &'a BuildConfig, workload: &'a dyn Workload) -> anyhow::Result<Self> {
        let rules = ChainSpec::named(config.run.evm_spec.into())?.with_chain_id(workload.load().chain_id);
        let rules = rules.with_root(config.run.root);
        Ok(Self { config, workload, rules, spec: config.run.evm_spec })
    }

    /// Part of the state in memory.
    pub(super) const fn memory(&self) -> Memory {
        self.config.run.memory
    }

    /// Confines the process to the cores of a run on `threads` threads.
    pub(super) fn confine(&self, threads: usize) -> anyhow::Result<Pinned> {
        pin::confine(self.config.run.pin, threads)
    }

    /// Makes the state that the runs share, if there is one.
    pub(super) fn make(&self, threads: usize, ui: &Ui) -> anyhow::Result<()> {
        place::make(&self.config.run, self.workload, self.silent(), threads, ui)
    }

    /// The request contracts.
    fn silent(&self) -> Vec<GenesisAccount> {
        let calls = self.rules.request_calls(self.spec);
        let silent = |address| GenesisAccount { address, nonce: 1, code: Some(SILENT), ..GenesisAccount::default() };
        calls.iter().map(|(_, address)| silent(*address)).collect()
    }

    /// Opens an engine on the chain's genesis state; `clock` watches its threads. The place of its state outlives it.
    pub(super) fn engine(
        &self,
        (executor, threads, lists): (Executor, usize, bool),
        store: &Store,
        clock: &Arc<StageClock>,
        pinned: &Pinned,
        ui: &Ui,
    ) -> anyhow::Result<(Place, Engine)> {
        let place = Place::of(&self.config.run, store)?;
        let observer: Arc<dyn phalanx::Observer> = Arc::clone(clock) as _;
        let builder = Engine::builder()
            .with_chain(self.rules.clone())
            .with_store(self.config.run.store_config(&place.store)?)
            .with_executor(executor)
            .with_threads(threads)
            .with_access_lists(lists)
            .with_observer(observer);
        let mut engine = pinned.place(builder).build().context("opening the store")?;
        if !place.is_made {
            genesis::load_with(&mut engine, self.workload, self.silent(), &self.config.run, ui)?;
        }
        clock.watch_threads([&**engine.workers()]);
        clock.reset();
        Ok((place, engine))
    }

    /// An empty block `number`, with the environment of its transactions.
    pub(super) fn template(&self, number: u64) -> Template {
        let env = self.workload.block_env(number);
        let header = Header {
            number,
            timestamp: env.timestamp.saturating_to(),
            beneficiary: env.beneficiary,
            gas_limit: self.config.run.block_gas,
            base_fee_per_gas: Some(env.basefee),
            mix_hash: env.prevrandao.unwrap_or_default(),
            excess_blob_gas: Some(0),
            blob_gas_used: Some(0),
            parent_beacon_block_root: Some(B256::ZERO),
            ..Header::default()
        };
        Template { header, ..Template::default() }
    }
}
