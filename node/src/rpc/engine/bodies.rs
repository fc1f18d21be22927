//! Bodies of payloads that are on the chain, for clients that keep none.

use super::{Api, Args, Fault, RpcError, encoding};
use crate::{rpc::registry::Registry, store::Block};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Bytes};
use phalanx::BlockAttributes;
use serde::Serialize;

/// Maximum number of bodies of a request. The specification demands 32 at least.
const MOST: u64 = 128;

/// Body of a payload: `ExecutionPayloadBodyV1` and `V2`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    transactions: Vec<Bytes>,
    /// From Shanghai on.
    withdrawals: Option<Vec<Withdrawal>>,
    /// From Amsterdam on; left out in the first version.
    #[serde(skip_serializing_if = "Option::is_none")]
    block_access_list: Option<Option<Bytes>>,
}

/// Version of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bodies {
    First,
    WithLists,
}

pub(super) fn register(registry: &mut Registry) {
    registry.light("engine_getPayloadBodiesByHashV1", 1, |api, args| by_hash(api, args, Bodies::First));
    registry.light("engine_getPayloadBodiesByHashV2", 1, |api, args| by_hash(api, args, Bodies::WithLists));
    registry.light("engine_getPayloadBodiesByRangeV1", 2, |api, args| by_range(api, args, Bodies::First));
    registry.light("engine_getPayloadBodiesByRangeV2", 2, |api, args| by_range(api, args, Bodies::WithLists));
}

fn body(block: &Block, version: Bodies) -> Body {
    let header = &block.head.header;
    let withdrawals = || BlockAttributes::decode(&block.head.attributes).unwrap_or_default().withdrawals;
    let list = || header.block_access_list_hash.map(|_| block.head.access_list.clone());
    Body {
        transactions: block.entries.iter().map(|entry| entry.bytes.clone()).collect(),
        withdrawals: header.withdrawals_root.map(|_| withdrawals()),
        block_access_list: (version == Bodies::WithLists).then(list),
    }
}

fn by_hash(api: &Api, args: &Args, version: Bodies) -> Result<Vec<Option<Body>>, RpcError> {
    let hashes = args.required(0, encoding::hashes)?;
    if hashes.len() as u64 > MOST {
        return Err(Fault::TooLarge.into());
    }
    let find = |hash: &B256| match api.chain.height_of(hash)? {
        Some(height) => {
            let block = api.chain.block(height)?.filter(|block| block.head.hash == *hash);
            Ok(block.map(|block| body(&block, version)))
        }
        None => Ok(None),
    };
    hashes.iter().map(find).collect()
}

fn by_range(api: &Api, args: &Args, version: Bodies) -> Result<Vec<Option<Body>>, RpcError> {
    let (start, count) = (args.required(0, encoding::quantity)?, args.required(1, encoding::quantity)?);
    if start == 0 || count == 0 {
        return Err(Fault::Params("start and count are at least 1".into()).into());
    }
    if count > MOST {
        return Err(Fault::TooLarge.into());
    }
    let newest = api.chain.height();
    let heights = (start..start.saturating_add(count)).take_while(|height| *height <= newest);
    heights.map(|height| Ok(api.chain.block(height)?.map(|block| body(&block, version)))).collect()
}
