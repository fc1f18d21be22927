//! `phalanx_*`: what Ethereum's methods cannot say, because the state is committed another way.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    error::RpcError,
    registry::Registry,
};
use crate::raw::{MOST_BLOCKS, RawBlock};
use ::phalanx::RootKind;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use serde::Serialize;
use serde_json::json;

/// Maximum number of slots in one request for proofs. A proof may take half a millisecond, for a part of the store that is rebuilt.
const MAX_SLOTS: usize = 256;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("phalanx_getProof", 3, proof);
    registry.heavy("phalanx_getRawBlocks", 2, raw_blocks);
    registry.light("phalanx_storeSizes", 0, |api, _| {
        let sizes = api.chain.store.sizes()?;
        Ok(json!({
            "segments": U64::from(sizes.segments), "index": U64::from(sizes.index), "blocks": U64::from(sizes.blocks),
            "transactions": U64::from(sizes.txs), "bytesPerTransaction": sizes.per_tx(),
        }))
    });
}

/// Blocks from a height on for nodes that follow this one, as many as there are, as asked for, and as fit into an answer.
fn raw_blocks(api: &Api, args: &Args) -> Result<Vec<RawBlock>, RpcError> {
    let from = args.required(0, args::quantity)?;
    let count = args.optional(1, args::quantity)?.unwrap_or(1).min(MOST_BLOCKS);
    let newest = api.chain.height();
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    // The block behind the newest is no error: it may come.
    for height in (from..from.saturating_add(count)).take_while(|height| *height <= newest) {
        let block = api.block(BlockRef::Height(height))?.ok_or_else(RpcError::pruned)?;
        bytes += 2 * block.entries.iter().map(|entry| entry.bytes.len()).sum::<usize>();
        bytes += 2 * block.head.skipped.iter().map(|skipped| skipped.bytes.len()).sum::<usize>();
        if bytes > api.limits.max_response as usize / 2 && !blocks.is_empty() {
            break;
        }
        blocks.push(RawBlock::of(&block));
    }
    Ok(blocks)
}

/// Proof of an account and of slots under a state root, for `phalanx::verify_account` and `verify_slot`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Proofs {
    block_number: U64,
    block_hash: B256,
    state_root: B256,
    address: Address,
    account_proof: Bytes,
    storage_proof: Vec<SlotProof>,
}

#[derive(Clone, Debug, Serialize)]
struct SlotProof {
    key: B256,
    value: B256,
    proof: Bytes,
}

fn proof(api: &Api, args: &Args) -> Result<Proofs, RpcError> {
    let address = args.required(0, args::address)?;
    let slots = args.optional(1, |value| {
        let slots = value.as_array().ok_or("an array of slots is expected")?;
        slots.iter().map(args::slot).collect::<Result<Vec<_>, String>>()
    })?;
    let slots = slots.unwrap_or_default();
    if slots.len() > MAX_SLOTS {
        return Err(RpcError::invalid(format!("too many slots (max {MAX_SLOTS})")));
    }
    let height = api.state_height(args.block(2)?)?;
    let state = api.chain.state(height)?;
    if state.root_kind() != RootKind::Twigs {
        return Err(RpcError::server("this chain's blocks report Ethereum's root: call eth_getProof"));
    }
    if api.chain.remote.is_some() {
        let why = "this chain stores what has changed since it went on from a remote one, and proves nothing else";
        return Err(RpcError::server(why));
    }
    let head = api.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
    let unread = |error: ::phalanx::SnapshotError| RpcError::from(crate::chain::StateUnread::from(error));
    let proven = state.prove_slots(&address, &slots).map_err(unread)?;
    let of_slot =
        |(slot, (value, proof)): (U256, (U256, Bytes))| SlotProof { key: slot.into(), value: value.into(), proof };
    Ok(Proofs {
        block_number: U64::from(height),
        block_hash: head.hash,
        state_root: state.root(),
        address,
        account_proof: state.prove_account(&address).map_err(unread)?,
        storage_proof: slots.into_iter().zip(proven).map(of_slot).collect(),
    })
}
