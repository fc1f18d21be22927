//! The service's sink: it puts every block into the store before the block becomes visible.

use super::recent::Recent;
use crate::store::{Block, BlockStore, Entry, Head, Skipped};
use phalanx::{
    BlockSink, SinkBlock, SinkRefused,
    alloy::primitives::Bytes,
    api::{CommittedTip, TxStatus},
};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Sink {
    pub(super) store: Arc<BlockStore>,
    pub(super) recent: Arc<Recent>,
}

impl BlockSink for Sink {
    fn resumed(&self, tip: &CommittedTip) {
        self.recent.cut_above(tip.height);
        if let Err(error) = self.store.cut_above(tip.height, &mut Vec::new()) {
            tracing::error!(%error, height = tip.height, "blocks that were never committed stay in the block store");
        }
    }

    fn put(&self, block: &SinkBlock<'_>) -> Result<(), SinkRefused> {
        let Some(stored) = stored(block) else {
            tracing::error!(
                height = block.committed.height,
                "the block has no header: the chain's blocks must be whole"
            );
            return Err(SinkRefused);
        };
        self.store.append(&stored).map_err(|error| {
            tracing::error!(%error, height = stored.height(), "the block store refuses a block");
            SinkRefused
        })?;
        self.recent.put(Arc::new(stored));
        Ok(())
    }
}

/// A block as it is stored. `None` if its parts do not belong together.
fn stored(block: &SinkBlock<'_>) -> Option<Block> {
    let header = block.header?.clone();
    let payload = block.candidate.payload();
    let statuses = &block.outcome.txs;
    let mut outcomes = block.info.outcomes().iter().zip(block.hashes).zip(block.senders);
    let (mut entries, mut skipped) = (Vec::with_capacity(block.hashes.len()), Vec::new());
    let (mut cumulative_gas, mut first_log) = (0, 0);
    for (place, (bytes, status)) in payload.txs().iter().zip(statuses.iter()).enumerate() {
        if *status == TxStatus::Skipped {
            skipped.push(Skipped { position: place as u64, bytes: bytes.clone() });
            continue;
        }
        // Transactions that were tried and skipped have an outcome without a result.
        let (result, gas_used, hash, sender) = outcomes.by_ref().find_map(|((outcome, hash), sender)| {
            let result = outcome.result()?;
            Some((result, outcome.gas_used(), hash, sender))
        })?;
        let logs = result.logs().to_vec();
        cumulative_gas += gas_used;
        let created = result.created_address().map_or_else(Bytes::new, |address| Bytes::copy_from_slice(&address[..]));
        let count = logs.len() as u64;
        entries.push(Entry {
            bytes: bytes.clone(),
            hash: *hash,
            sender: *sender,
            succeeded: *status == TxStatus::Succeeded,
            gas_used,
            cumulative_gas,
            first_log,
            created,
            logs,
        });
        first_log += count;
    }
    let head = Head {
        hash: block.hash,
        exec: block.committed.exec.0,
        header,
        timestamp_ms: block.candidate.env().timestamp_ms,
        attributes: payload.attributes().clone(),
        access_list: block.info.access_list().map_or_else(Bytes::new, |list| list.rlp().clone()),
        skipped,
    };
    Some(Block { head, entries })
}
