//! Opening of a chain: engine, block store and service, checked against each other.

use super::{
    AnchorFiles,
    recent::Recent,
    sink::Sink,
    view::{Chain, disk_room},
};
use crate::{
    config::{Durability, NodeConfig, StorePlace},
    error::NodeError,
    store::{Block, BlockStore, Cut, Head, Identity, Options, StoreError},
    upgrades::KeptUpgrades,
};
use phalanx::{
    ChainRules, Engine, Observer, Service, ServiceConfig,
    alloy::{
        consensus::{Header, Sealable as _},
        primitives::{Bytes, Sealed},
    },
    api::{ExecId, ExecutionEngine as _, Limits, TxPolicy},
    chain::ChainSpec,
    chain_digest,
    merkle::{self, Backend, StoreConfig},
    pool::{self, PoolConfig},
};
use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt as _, path::Path, sync::Arc};

/// A chain that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) chain: Chain,
    /// Ends of files that belonged to no committed block.
    pub(crate) cuts: Vec<Cut>,
}

/// Maximum number of heights above the newest block of a chain that a consensus client drives. The store of the state has room for 64
/// blocks on top of each other, and a further one ends it. What a client sends beyond is executed once it is chosen.
const UNCHOSEN: u32 = 48;

/// Commits between two prunings of the state's log, which then has what `--history` and the snapshots for others need.
const PRUNING: u64 = 256;

/// Log of the state between two checkpoints, in bytes: a start reads no more of it, and pruning leaves no more for it.
const CHECKPOINT: u64 = 64 << 20;

impl Chain {
    /// Opens the chain of the settings, or begins it.
    ///
    /// # Errors
    /// [`NodeError`].
    pub(crate) fn open(config: &NodeConfig, observer: Arc<dyn Observer>) -> Result<Opened, NodeError> {
        let spec = config.upgrades.over(&config.genesis)?;
        let upgrades = KeptUpgrades::read(config.store.folder())?;
        let mut engine = engine(config, &spec, observer)?;
        let genesis = match &config.remote {
            None => engine.begin(&config.genesis)?.seal_slow(),
            Some(remote) => {
                engine.begin_above(&config.genesis, remote.block().clone())?;
                remote.block().clone()
            }
        };
        let committed = engine.state().height().unwrap_or_default();
        let genesis_digest = chain_digest(&config.genesis).map_err(|error| NodeError::Chain(error.to_string()))?;
        let identity = Identity { chain: spec.chain_id(), genesis: genesis_digest };
        let options = Options {
            segment_bytes: config.segment_bytes.max(1),
            durable: config.durability == Durability::Block,
            keep: config.keep_blocks,
        };
        let folder = config.store.folder().join("blocks");
        // A chain at its genesis may have been interrupted before its first block was stored.
        let known = (committed > genesis.number).then_some(committed);
        let anchor = joined(config, identity)?;
        let opened = match BlockStore::open(&folder, identity, options, known) {
            // The state is that of the snapshot: no block is stored before the first one behind it.
            Err(StoreError::Behind { .. }) if anchor.as_ref().is_some_and(|block| block.height() == committed) => None,
            opened => Some(opened?),
        };
        let (store, mut cuts) = match (opened, &anchor) {
            (None, Some(block)) => (BlockStore::begin(&folder, identity, options, block)?, Vec::new()),
            (Some(opened), _) => opened,
            (None, None) => unreachable!("it is opened without an anchor"),
        };
        if store.last().is_none() {
            store.append(&first(&genesis))?;
        } else if committed == genesis.number {
            store.cut_above(committed, &mut cuts)?;
        }
        let store = Arc::new(store);
        let (rules, _) = engine.rules_of(&genesis);
        let recent = Arc::new(Recent::default());
        let service = service(config, engine, Sink { store: Arc::clone(&store), recent: Arc::clone(&recent) })?;
        let tip = service.status().committed;
        let missing =
            || NodeError::Differ { height: tip.height, state: tip.exec.0.to_string(), block: "nothing".into() };
        let head = store.head(tip.height)?.ok_or_else(missing)?;
        // The first block above another chain has the root of that chain's state, of which this one stores a part.
        let has_root = config.remote.is_none() || tip.height > genesis.number;
        if head.exec != tip.exec.0 || has_root && head.header.state_root != tip.state_root {
            return Err(NodeError::Differ {
                height: tip.height,
                state: format!("{} with root {}", tip.exec.0, tip.state_root),
                block: format!("{} with root {}", head.exec, head.header.state_root),
            });
        }
        upgrades.replace(&config.upgrades, &config.genesis, (tip.height, head.header.timestamp))?;
        let anchor = anchor.map(|block| block.height());
        let place = (config.store.folder(), config.history as u64);
        let origin = (spec, genesis.into_inner(), config.remote.clone());
        Ok(Opened { chain: Self::new(service, (store, recent), origin, rules, (head, anchor), place), cuts })
    }
}

/// Block of the snapshot that the chain was joined with.
fn joined(config: &NodeConfig, identity: Identity) -> Result<Option<Block>, NodeError> {
    let Some((root, metadata)) = AnchorFiles::new(config.store.folder()).read()? else { return Ok(None) };
    let checked = metadata.check((identity.chain, identity.genesis), root);
    let (_, anchored) = checked.ok_or_else(|| NodeError::Setting("the anchor is of another chain".into()))?;
    Ok(Some(metadata.block(&anchored)))
}

/// Makes the node's folder, if it is not there, for its owner alone.
pub(crate) fn make_folder(folder: &Path) -> Result<(), NodeError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| NodeError::Setting(format!("{}: {error}", folder.display())))
}

/// Store of the state that the settings name.
pub(crate) fn engine_store(config: &NodeConfig) -> StoreConfig {
    let backend = match &config.store {
        StorePlace::Folder(path) => Backend::File(path.join("state")),
        #[cfg(feature = "rocksdb")]
        StorePlace::Rocks(path) => Backend::Rocks(path.join("state")),
    };
    let durability = match config.durability {
        Durability::Block => merkle::Durability::Block,
        Durability::Async => merkle::Durability::Async,
    };
    StoreConfig::new(backend).with_durability(durability).with_history(config.history).with_checkpoint_bytes(CHECKPOINT)
}

fn engine(config: &NodeConfig, spec: &ChainSpec, observer: Arc<dyn Observer>) -> Result<Engine, NodeError> {
    make_folder(config.store.folder())?;
    let store = engine_store(config);
    let mut builder = Engine::builder()
        .with_chain(spec.clone())
        .with_store(store)
        .with_access_lists(true)
        .with_observer(observer)
        .with_pruning(PRUNING);
    if spec.parameters().development {
        // Its operator acts for any account, contracts too.
        builder = builder.with_rules(ChainRules::new().with_contracts_as_senders());
    }
    if let Some(remote) = &config.remote {
        builder = builder.with_remote(Arc::new(remote.clone()));
    }
    if let Some(threads) = config.threads {
        builder = builder.with_threads(threads);
    }
    Ok(builder.build()?)
}

fn service(config: &NodeConfig, engine: Engine, sink: Sink) -> Result<Service, NodeError> {
    let usual = PoolConfig::default();
    let pool = PoolConfig {
        // Replicas lose patience with a leader by their oldest request.
        policy: if config.replica().is_some() { pool::Policy::Arrival } else { usual.policy },
        max_tx_gas: config.gas_limit.unwrap_or(config.genesis.gas_limit),
        min_tip: config.min_tip,
        ..usual
    };
    let folder = config.store.folder().to_owned();
    let room = move || disk_room(&folder);
    // A proposal of another validator may hold what cannot run: it is ordered first.
    let policy = if config.is_ordered() { TxPolicy::SkipInvalid } else { TxPolicy::Strict };
    let mut settings =
        ServiceConfig::default().with_policy(policy).with_pool(pool).with_sink(Arc::new(sink)).with_disk_room(room);
    if config.engine_api().is_some() {
        settings = settings.with_limits(Limits { depth: UNCHOSEN, ..Limits::default() });
    }
    settings.recovered_bytes = config.recovered_bytes;
    Ok(Service::open(engine, settings)?)
}

/// The genesis as a block. The name of its execution is zero: nothing has run.
fn first(header: &Sealed<Header>) -> Block {
    let timestamp_ms = header.timestamp.saturating_mul(1000);
    let head = Head {
        hash: header.hash(),
        exec: ExecId::GENESIS.0,
        header: header.inner().clone(),
        timestamp_ms,
        attributes: Bytes::new(),
        access_list: Bytes::new(),
        skipped: Vec::new(),
    };
    Block { head, entries: Vec::new() }
}
