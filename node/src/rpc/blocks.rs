//! Blocks, transactions and receipts.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    convert,
    error::RpcError,
    registry::Registry,
};
use crate::store::{Entry, Head};
use alloy_primitives::{Bytes, U64};
use alloy_rpc_types_eth::{Transaction, TransactionReceipt};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Maximum number of bytes of transactions and logs of an answer that is written where the request was read.
pub(super) const QUICK_BYTES: usize = 32 << 10;

/// Bytes that a transaction or a log counts beside its own.
const EACH: usize = 128;

/// Bytes that a call counts beside those: its header, and the search in memory.
pub(super) const CALL: usize = 1 << 10;

pub(super) fn register(registry: &mut Registry) {
    registry.light_or_quick("eth_getBlockByNumber", 2, by_number, |api, args| {
        block(api, args.required(0, args::number)?, args)
    });
    registry.light_or_quick("eth_getBlockByHash", 2, by_hash, |api, args| {
        block(api, BlockRef::Hash(args.required(0, args::hash)?), args)
    });
    registry.light("eth_getHeaderByNumber", 1, |api, args| header(api, args.required(0, args::number)?));
    registry.light("erigon_getHeaderByNumber", 1, |api, args| header(api, args.required(0, args::number)?));
    registry.light("eth_getHeaderByHash", 1, |api, args| header(api, BlockRef::Hash(args.required(0, args::hash)?)));
    registry.light_or_quick("eth_getBlockReceipts", 1, by_either, |api, args| {
        block_receipts(api, args.required(0, args::block)?)
    });
    registry.light_or_quick("eth_getBlockTransactionCountByNumber", 1, by_number, |api, args| {
        count(api, args.required(0, args::number)?)
    });
    registry.light_or_quick("eth_getBlockTransactionCountByHash", 1, by_hash, |api, args| {
        count(api, BlockRef::Hash(args.required(0, args::hash)?))
    });
    registry.light("eth_getUncleCountByBlockNumber", 1, |api, args| {
        Ok(api.head(args.required(0, args::number)?)?.map(|_| U64::ZERO))
    });
    registry.light("eth_getUncleCountByBlockHash", 1, |api, args| {
        Ok(api.head(BlockRef::Hash(args.required(0, args::hash)?))?.map(|_| U64::ZERO))
    });
    registry.light("eth_getUncleByBlockNumberAndIndex", 2, |_, _| Ok(Value::Null));
    registry.light("eth_getUncleByBlockHashAndIndex", 2, |_, _| Ok(Value::Null));
    registry.light_or_quick("eth_getTransactionByHash", 1, by_transaction, transaction);
    registry.light_or_quick("eth_getRawTransactionByHash", 1, by_transaction, raw_transaction);
    registry.light("eth_getTransactionByBlockNumberAndIndex", 2, |api, args| {
        at_index(api, args.required(0, args::number)?, args)
    });
    registry.light("eth_getRawTransactionByBlockNumberAndIndex", 2, |api, args| {
        Ok(entry_at(api, args.required(0, args::number)?, args)?.map(|(_, _, entry)| entry.bytes))
    });
    registry.light("eth_getRawTransactionByBlockHashAndIndex", 2, |api, args| {
        Ok(entry_at(api, BlockRef::Hash(args.required(0, args::hash)?), args)?.map(|(_, _, entry)| entry.bytes))
    });
    registry.light("eth_getTransactionByBlockHashAndIndex", 2, |api, args| {
        at_index(api, BlockRef::Hash(args.required(0, args::hash)?), args)
    });
    registry.light_or_quick("eth_getTransactionReceipt", 1, by_transaction, receipt);
}

/// Bytes that the answer about these transactions counts, if it is written where the request was read: it takes less than a tenth of a
/// millisecond.
pub(super) fn bytes_if_few(entries: &[Entry]) -> Option<usize> {
    let mut left = QUICK_BYTES - CALL;
    let mut fits = |bytes: usize| {
        let rest = left.checked_sub(bytes.saturating_add(EACH));
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    let all = |entry: &Entry| fits(entry.bytes.len()) && entry.logs.iter().all(|log| fits(log.data.data.len()));
    entries.iter().all(all).then_some(QUICK_BYTES - left)
}

fn bytes(api: &Api, block: BlockRef) -> Option<usize> {
    let height = match block {
        BlockRef::Latest => Some(api.chain.height()),
        BlockRef::Safe => api.chain.safe(),
        BlockRef::Finalised => api.chain.finalised(),
        BlockRef::Height(height) => Some(height),
        BlockRef::Hash(hash) => {
            return api.chain.recent_named(&hash).and_then(|block| bytes_if_few(&block.entries));
        }
        BlockRef::Earliest | BlockRef::Pending => None,
    };
    height.and_then(|height| api.chain.recent(height)).and_then(|block| bytes_if_few(&block.entries))
}

fn by_number(api: &Api, args: &Args) -> Option<usize> {
    args.required(0, args::number).ok().and_then(|block| bytes(api, block))
}

fn by_hash(api: &Api, args: &Args) -> Option<usize> {
    args.required(0, args::hash).ok().and_then(|hash| bytes(api, BlockRef::Hash(hash)))
}

fn by_either(api: &Api, args: &Args) -> Option<usize> {
    args.required(0, args::block).ok().and_then(|block| bytes(api, block))
}

fn by_transaction(api: &Api, args: &Args) -> Option<usize> {
    let placed = args.required(0, args::hash).ok().and_then(|hash| api.chain.recent_transaction(&hash))?;
    bytes_if_few(core::slice::from_ref(placed.entry()?))
}

/// A block; one that is not there is null.
fn block(api: &Api, block: BlockRef, args: &Args) -> Result<Value, RpcError> {
    let full = args.optional(1, args::json::<bool>)?.unwrap_or_default();
    if block == BlockRef::Pending {
        return unfinished(&convert::block(&api.pending_block()?, full)?);
    }
    match api.block(block)? {
        Some(block) => encode(&convert::block(&block, full)?),
        None => Ok(Value::Null),
    }
}

/// The header of a block; that of one that is not there is null.
fn header(api: &Api, block: BlockRef) -> Result<Value, RpcError> {
    if block == BlockRef::Pending {
        return unfinished(&convert::header(&api.pending_block()?.head));
    }
    match api.head(block)? {
        Some(head) => encode(&convert::header(&head)),
        None => Ok(Value::Null),
    }
}

fn encode(block: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(block).map_err(|error| RpcError::internal(error.to_string()))
}

/// A block without what only a finished one has.
fn unfinished(block: &impl Serialize) -> Result<Value, RpcError> {
    let mut value = encode(block)?;
    for field in ["hash", "nonce", "miner"] {
        value[field] = Value::Null;
    }
    Ok(value)
}

fn count(api: &Api, block: BlockRef) -> Result<Option<U64>, RpcError> {
    if block == BlockRef::Pending {
        return Ok(Some(U64::ZERO));
    }
    Ok(api.block(block)?.map(|block| U64::from(block.entries.len())))
}

fn block_receipts(api: &Api, block: BlockRef) -> Result<Option<Vec<TransactionReceipt>>, RpcError> {
    let Some(block) = api.block(block)? else { return Ok(None) };
    let receipts =
        (0..).zip(&block.entries).map(|(index, entry)| convert::receipt(&api.chain.spec, &block.head, index, entry));
    receipts.collect::<Result<_, _>>().map(Some)
}

/// A transaction of a block, or one that waits in the pool.
fn transaction(api: &Api, args: &Args) -> Result<Option<Transaction>, RpcError> {
    let hash = args.required(0, args::hash)?;
    if let Some((height, index, entry)) = api.chain.transaction(&hash)? {
        let head = api.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
        return convert::transaction(&head, index.into(), &entry).map(Some);
    }
    let pooled = api.chain.service.with_pool(|pool| pool.get(&hash).cloned());
    pooled.map(|pooled| super::pool::transaction(&pooled)).transpose()
}

fn raw_transaction(api: &Api, args: &Args) -> Result<Option<Bytes>, RpcError> {
    let hash = args.required(0, args::hash)?;
    if let Some((_, _, entry)) = api.chain.transaction(&hash)? {
        return Ok(Some(entry.bytes));
    }
    Ok(api.chain.service.with_pool(|pool| pool.get(&hash).map(|pooled| pooled.bytes().clone())))
}

fn at_index(api: &Api, block: BlockRef, args: &Args) -> Result<Option<Transaction>, RpcError> {
    let found = entry_at(api, block, args)?;
    found.map(|(head, index, entry)| convert::transaction(&head, index, &entry)).transpose()
}

fn entry_at(api: &Api, block: BlockRef, args: &Args) -> Result<Option<(Arc<Head>, u64, Entry)>, RpcError> {
    let index = args.required(1, args::quantity)?;
    let (Some(head), Ok(place)) = (api.head(block)?, u32::try_from(index)) else { return Ok(None) };
    let entry = api.chain.store.entry(head.header.number, place)?;
    Ok(entry.map(|entry| (head, index, entry)))
}

fn receipt(api: &Api, args: &Args) -> Result<Option<TransactionReceipt>, RpcError> {
    let Some((height, index, entry)) = api.chain.transaction(&args.required(0, args::hash)?)? else { return Ok(None) };
    let head = api.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
    convert::receipt(&api.chain.spec, &head, index.into(), &entry).map(Some)
}
