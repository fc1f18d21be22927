//! `debug_executionWitness`: what executing a block again takes without the state, on chains that report Ethereum's root.

use super::{
    api::Api,
    args::{self, BlockRef},
    error::RpcError,
    registry::Registry,
    replay::access_list,
};
use crate::chain::StateUnread;
use ::phalanx::eip7928::AccountChanges;
use alloy_primitives::Bytes;
use serde::Serialize;

/// Ancestors whose hashes BLOCKHASH gives, the parent included.
const ANCESTORS: u64 = 256;

/// Witness as other clients serve it, each part in RLP or as it is hashed.
#[derive(Debug, Serialize)]
struct Witness {
    /// Nodes of the tries before the block.
    state: Vec<Bytes>,
    /// Codes before the block.
    codes: Vec<Bytes>,
    /// Addresses and slots, whose hashes are the tries' keys.
    keys: Vec<Bytes>,
    /// Headers of the ancestors that BLOCKHASH may ask for, oldest first; the last one has the state's root.
    headers: Vec<Bytes>,
}

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("debug_executionWitness", 1, |api, args| witness(api, args.required(0, args::block)?));
    registry.heavy("debug_executionWitnessByBlockHash", 1, |api, args| {
        witness(api, BlockRef::Hash(args.required(0, args::hash)?))
    });
}

fn witness(api: &Api, block: BlockRef) -> Result<Witness, RpcError> {
    let head = api.head(block)?.ok_or_else(|| RpcError::server("block not found"))?;
    let list = access_list(&api.chain, &head)?;
    let height = head.header.number;
    let before = height.checked_sub(1).ok_or_else(|| RpcError::server("genesis has no witness"))?;
    let parts = api.chain.state(before)?.witness(&list).map_err(|error| RpcError::from(StateUnread::from(error)))?;
    let other = "this chain's blocks report the root of the store's twigs, under which no witness of Ethereum's holds";
    let parts = parts.ok_or_else(|| RpcError::server(other))?;
    let mut headers = Vec::new();
    for height in (height.saturating_sub(ANCESTORS)..height).rev() {
        let Some(head) = api.chain.head_at(height)? else { break };
        headers.push(alloy_rlp::encode(&head.header).into());
    }
    // Without the parent's, no reader knows the root that the nodes lead to.
    if headers.is_empty() {
        return Err(RpcError::pruned());
    }
    headers.reverse();
    Ok(Witness { state: parts.nodes, codes: parts.codes, keys: list.iter().flat_map(keys).collect(), headers })
}

fn keys(account: &AccountChanges) -> impl Iterator<Item = Bytes> {
    let slots = account.storage_reads.iter().chain(account.storage_changes.iter().map(|slot| &slot.slot));
    let slots = slots.map(|slot| Bytes::from(slot.to_be_bytes::<32>()));
    core::iter::once(Bytes::copy_from_slice(account.address.as_slice())).chain(slots)
}
