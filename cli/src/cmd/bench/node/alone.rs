//! The engine's service on equal blocks, from bytes to the durable commit: no pool, no block store, no JSON-RPC.

use super::{chain::Chain, load::Load};
use anyhow::ensure;
use phalanx::{
    Engine,
    api::{BlockEnv, Payload, TxStatus},
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
    let mut builder = Engine::builder().with_store(store).with_access_lists(true);
    if let Some(threads) = threads {
        builder = builder.with_threads(threads);
    }
    let (mut chain, mut parent) = Chain::begin(&load.genesis, &spec, builder)?;
    let mut height = 0;
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
        let outcome = chain.add(env, Payload::new(txs.to_vec()))?;
        ensure!(
            outcome.txs.iter().all(|status| *status == TxStatus::Succeeded),
            "a transaction of block {height} has failed"
        );
        parent = header;
        parent.gas_used = outcome.gas_used;
    }
    Ok(Alone { took: begun.elapsed(), blocks: height })
}
