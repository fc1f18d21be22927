//! Blocks of a chain that the replicas of a paper's protocol order: what a replica needs of the node.

use crate::{
    chain::Chain,
    config::{NodeConfig, ReplicaConfig},
    decided::Decided,
    error::NodeError,
    requests::Requests,
    taken::Taken,
};
use crossbeam_channel::Sender;
use phalanx::{RootKind, alloy::primitives::Bytes, api::Offer, chain::ChainSpec, pool::PoolConfig};
use phalanx_net::{
    Authentication, Content, Durability, Embedder, Genesis, Machine, PoolChanges, Replica, ReplicaError, Snapshots,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Room that a batch needs beside a transaction, in bytes.
const SPARE: usize = 1 << 10;

/// Snapshots that others can take: as many as the replica offers.
const SNAPSHOTS: usize = 2;

/// The node as its replica sees it.
#[derive(Debug)]
struct Around {
    decided: Decided,
    requests: Requests,
    healthy: Arc<AtomicBool>,
    ended: Sender<NodeError>,
}

impl Embedder for Around {
    fn resumed(&mut self, height: u64) -> Result<(), String> {
        let chain = &self.decided.chain;
        if chain.height() > height {
            tracing::warn!(height, "the log of the replica ends below the newest block: its blocks come again");
            chain.rewound(height, Default::default()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn changes(&mut self, most: usize) -> PoolChanges {
        self.requests.changes(most)
    }

    fn committed(&mut self, height: u64) -> Result<(), String> {
        let block = self.decided.show(height).map_err(|error| error.to_string())?;
        block.iter().for_each(|block| self.requests.committed(block));
        Ok(())
    }

    fn ended(&mut self, why: &ReplicaError) {
        tracing::error!(%why, "there are no more blocks");
        self.healthy.store(false, Ordering::Relaxed);
        // An error means that an earlier reason waits.
        let _ = self.ended.try_send(match why {
            ReplicaError::Behind { .. } => NodeError::Behind(why.to_string()),
            &ReplicaError::Ended { epoch, height, network } => NodeError::Epoch { epoch, height, network },
            _ => NodeError::Ended(why.to_string()),
        });
    }
}

/// States of the node for other replicas.
#[derive(Debug)]
struct States {
    chain: Arc<Chain>,
    taken: Taken,
}

impl Snapshots for States {
    fn take(&self, height: u64) -> Result<Offer, String> {
        self.taken.take(&self.chain, height)
    }

    fn chunk(&self, height: u64, format: u32, number: u32) -> Option<Bytes> {
        self.taken.chunk(height, format, number)
    }
}

/// Checks that a network is one of nodes with this chain.
///
/// # Errors
/// The first setting that differs, or that is for measurements alone.
pub(crate) fn check(config: &NodeConfig, replica: &ReplicaConfig) -> Result<(), NodeError> {
    let wrong = |why: String| Err(NodeError::Setting(format!("the network of replicas: {why}")));
    let (genesis, network) = (&config.genesis, &replica.network);
    let chain = ChainSpec::from_genesis(genesis).map_err(|error| NodeError::Chain(error.to_string()))?;
    if !chain.has_fixed_base_fee() {
        let why = "a block is ordered before its parent is executed, so that its base fee cannot follow from the parent's gas: the \
                   genesis needs \"phalanxFixedBaseFee\": true in its config";
        return wrong(why.into());
    }
    let header = chain.genesis_header(genesis, Default::default());
    let pairs = [
        ("chain id", network.chain, chain.chain_id()),
        ("gas limit", network.gas_limit, header.gas_limit),
        ("base fee", network.base_fee, header.base_fee_per_gas.unwrap_or_default()),
    ];
    if let Some((what, here, there)) = pairs.into_iter().find(|(_, here, there)| here != there) {
        return wrong(format!("its {what} is {here}, and that of the genesis is {there}"));
    }
    if network.authentication == Authentication::None || network.durability == Durability::None {
        return wrong("replicas without authentication, or without a durable log, are for measurements alone".into());
    }
    if config.min_tip > 0 {
        return wrong("a minimum tip of one replica keeps it from ordering what the others admit: set none".into());
    }
    let least = PoolConfig::default().max_tx_bytes + SPARE;
    if network.batch_bytes < least {
        return wrong(format!(
            "batches of {} bytes have no room for every transaction: {least} do",
            network.batch_bytes
        ));
    }
    Ok(())
}

/// Starts the replica of a node. The node ends with it: `ended` gets the reason.
pub(crate) fn start(
    ReplicaConfig { network, keys, folder, beginning }: ReplicaConfig,
    decided: Decided,
    requests: Requests,
    (healthy, ended): (Arc<AtomicBool>, Sender<NodeError>),
) -> Result<Replica, NodeError> {
    let chain = &decided.chain;
    let timestamp_ms = chain.genesis.timestamp.saturating_mul(1000);
    let genesis = Genesis { digest: chain.store.identity().1, timestamp_ms };
    let (engine, doorbell, admitting) = (Arc::clone(&chain.service), requests.doorbell(), requests.clone());
    let admit = Arc::new(move |txs: &[Bytes]| admitting.admit(txs));
    let states = States { chain: Arc::clone(chain), taken: Taken::on_demand(SNAPSHOTS) };
    // Nothing that replicas agree on binds the store of a state with Ethereum's root.
    let has_snapshots = chain.spec.root() != RootKind::Ethereum;
    let snapshots = has_snapshots.then(|| Arc::new(states) as Arc<dyn Snapshots>);
    let metrics = Arc::clone(&decided.metrics);
    let embedder = Box::new(Around { decided, requests, healthy, ended });
    let content = Content::new(phalanx::is_transaction);
    let machine = Machine { engine, genesis, admit, content, step: None, embedder, doorbell, snapshots };
    let replica = Replica::start(&network, keys, &folder, machine, beginning)?;
    metrics.report_replica(Box::new(replica.reporter()));
    Ok(replica)
}
