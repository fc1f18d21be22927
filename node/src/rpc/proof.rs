//! `eth_getProof` (EIP-1186): proofs under Ethereum's root, of chains that report it.

use super::{
    api::Api,
    args::{self, Args},
    error::RpcError,
    registry::Registry,
};
use ::phalanx::{AccountProof, SlotProof};
use alloy_primitives::{B256, KECCAK256_EMPTY, U256};
use alloy_rpc_types_eth::{EIP1186AccountProofResponse, EIP1186StorageProof};
use serde_json::Value;

/// Maximum number of slots in one request, as in geth.
const MAX_SLOTS: usize = 1024;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("eth_getProof", 3, proof);
}

fn proof(api: &Api, args: &Args) -> Result<EIP1186AccountProofResponse, RpcError> {
    let address = args.required(0, args::address)?;
    let keys = args.required(1, |value| {
        let keys = value.as_array().ok_or("an array of slots is expected")?;
        keys.iter().map(|key| Ok((args::slot(key)?, is_whole(key)))).collect::<Result<Vec<_>, String>>()
    })?;
    if keys.len() > MAX_SLOTS {
        return Err(RpcError::invalid(format!("too many keys (max {MAX_SLOTS})")));
    }
    let slots: Vec<U256> = keys.iter().map(|(slot, _)| *slot).collect();
    let state = api.state(args.block(2)?)?;
    let proven = state.prove_ethereum(&address, &slots);
    let proven = proven.map_err(|error| RpcError::from(crate::chain::StateUnread::from(error)))?;
    let other = "this chain's blocks report the root of the store's twigs: call phalanx_getProof";
    let AccountProof { account, storage_root, nodes, slots } = proven.ok_or_else(|| RpcError::server(other))?;
    let of_slot = |((key, is_whole), SlotProof { value, nodes, .. }): ((U256, bool), SlotProof)| {
        let key = if is_whole { B256::from(key).into() } else { key.into() };
        EIP1186StorageProof { key, value, proof: nodes }
    };
    Ok(EIP1186AccountProofResponse {
        address,
        balance: account.map(|account| account.balance).unwrap_or_default(),
        code_hash: account.map_or(KECCAK256_EMPTY, |account| account.code_hash),
        nonce: account.map(|account| account.nonce).unwrap_or_default(),
        storage_hash: storage_root,
        account_proof: nodes,
        storage_proof: keys.into_iter().zip(slots).map(of_slot).collect(),
    })
}

/// True if a slot is written as 32 bytes; the answer names it likewise. Others are numbers.
fn is_whole(key: &Value) -> bool {
    key.as_str().is_some_and(|text| text.trim_start_matches("0x").len() == 64)
}
