//! The engine's service on equal blocks, from bytes to the durable commit: no pool, no block store, no JSON-RPC.

use super::load::{Load, TRANSFER_GAS};
use anyhow::{anyhow, ensure};
use phalanx::{
    Engine, Service, ServiceConfig,
    api::{
        BlockEnv, Candidate, CommitMeta, EngineEvent, ExecId, ExecutionEngine as _, Failure, Payload, Priority, Ticket,
        TxPolicy,
    },
    chain::{Attributes, ChainSpec},
    merkle::{Backend, Durability, StoreConfig},
};
use phalanx_lab::machine::temporary::Temporary;
use std::time::{Duration, Instant};

/// Figures of the engine alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    pub(super) took: Duration,
    pub(super) blocks: u64,
}

/// Executes and commits blocks of so many transactions.
pub(super) fn run(load: &Load, per_block: u64, threads: Option<usize>) -> anyhow::Result<Alone> {
    let folder = Temporary::new()?;
    let spec = ChainSpec::from_genesis(&load.genesis)?;
    let store = StoreConfig::new(Backend::File(folder.path().join("state"))).with_durability(Durability::Block);
    let mut builder = Engine::builder().with_chain(spec.clone()).with_store(store).with_access_lists(true);
    if let Some(threads) = threads {
        builder = builder.with_threads(threads);
    }
    let mut engine = builder.build()?;
    let mut parent = engine.begin(&load.genesis)?;
    let service = Service::open(engine, ServiceConfig::default())?;
    let failed = |failure: Failure| anyhow!("{failure}");
    let (mut name, mut events, mut height) = (ExecId::GENESIS, Vec::new(), 0);
    let begun = Instant::now();
    for txs in load.txs.chunks(usize::try_from(per_block)?.max(1)) {
        height += 1;
        let attributes = Attributes { timestamp: parent.timestamp + 1, ..Attributes::default() };
        let header = spec.child_header(&parent, &attributes)?;
        let env = BlockEnv {
            height,
            timestamp_ms: header.timestamp * 1000,
            gas_limit: header.gas_limit,
            base_fee: header.base_fee_per_gas.unwrap_or_default(),
            ..BlockEnv::default()
        };
        let candidate = Candidate::new(spec.chain_id(), name, env, TxPolicy::Strict, Payload::new(txs.to_vec()).into());
        name = candidate.id();
        service.submit(Ticket(2 * height), candidate, Priority::Decided).map_err(failed)?;
        let meta = CommitMeta { cursor: height, ..CommitMeta::default() };
        service.settle();
        service.commit(Ticket(2 * height + 1), name, meta).map_err(failed)?;
        service.settle();
        while service.poll(64, &mut events) > 0 {}
        let gas = events.drain(..).find_map(|event| match event {
            EngineEvent::Rooted { outcome, .. } => Some(outcome.gas_used),
            _ => None,
        });
        ensure!(gas == Some(TRANSFER_GAS * txs.len() as u64), "block {height} used gas {gas:?}");
        ensure!(service.status().committed.height == height, "block {height} is not committed");
        parent = header;
        parent.gas_used = TRANSFER_GAS * txs.len() as u64;
    }
    Ok(Alone { took: begun.elapsed(), blocks: height })
}
