//! The blocks of a node, executed once more on sequential revm: every result, the receipts' root and the state's must be equal.

use super::{chain::Chain, client::Client, load::Load};
use alloy_primitives::{Address, B256, Bytes, U64};
use anyhow::{Context as _, ensure};
use phalanx::{
    Engine, Executor,
    api::{BlockEnv, Payload, TxStatus},
    chain::ChainSpec,
    merkle::{Backend, Durability, StoreConfig},
};
use serde::Deserialize;
use serde_json::json;
use std::net::SocketAddr;

/// Number of blocks that are read at once.
const BLOCKS: u64 = 16;

/// A block with its result, as `phalanx_getRawBlocks` gives it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBlock {
    number: U64,
    timestamp_ms: U64,
    prev_randao: B256,
    beneficiary: Address,
    gas_limit: U64,
    base_fee_per_gas: U64,
    attributes: Bytes,
    transactions: Vec<Bytes>,
    state_root: B256,
    receipts_root: B256,
    gas_used: U64,
}

/// Compares the blocks up to a height. All transactions of the load must be there, and have succeeded.
pub(super) fn check(address: SocketAddr, height: u64, load: &Load) -> anyhow::Result<()> {
    let spec = ChainSpec::from_genesis(&load.genesis)?;
    let store = StoreConfig::new(Backend::Mem).with_durability(Durability::None);
    // The node makes access lists, which have no part in a root before Amsterdam.
    let builder = Engine::builder().with_store(store).with_executor(Executor::Sequential);
    let (mut chain, _) = Chain::begin(&load.genesis, &spec, builder)?;
    let (mut client, mut count, mut from) = (Client::connect(address)?, 0, 1);
    while from <= height {
        let blocks = client.ask("phalanx_getRawBlocks", &json!([format!("{from:#x}"), format!("{BLOCKS:#x}")]))?;
        let blocks: Vec<RawBlock> = serde_json::from_value(blocks)?;
        ensure!(!blocks.is_empty(), "block {from} of {height} is not there");
        for block in blocks.into_iter().take_while(|block| block.number.to::<u64>() <= height) {
            let env = BlockEnv {
                height: block.number.to(),
                timestamp_ms: block.timestamp_ms.to(),
                prevrandao: block.prev_randao,
                beneficiary: block.beneficiary,
                gas_limit: block.gas_limit.to(),
                base_fee: block.base_fee_per_gas.to(),
            };
            let outcome = chain.add(env, Payload::with_attributes(block.transactions, block.attributes));
            let outcome = outcome.with_context(|| format!("block {from} on sequential revm"))?;
            let ours = (block.state_root, block.receipts_root, block.gas_used.to::<u64>());
            let truth = (outcome.state_root, outcome.receipts_root, outcome.gas_used);
            ensure!(
                ours == truth,
                "block {from} has state root, receipts root and gas {ours:?}, and {truth:?} on sequential revm"
            );
            let succeeded = outcome.txs.iter().filter(|status| **status == TxStatus::Succeeded).count();
            ensure!(succeeded == outcome.txs.len(), "a transaction of block {from} has failed");
            (count, from) = (count + succeeded, from + 1);
        }
    }
    ensure!(count == load.txs.len(), "{count} receipts of {} transactions", load.txs.len());
    Ok(())
}
