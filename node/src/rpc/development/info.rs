//! Accounts that the node acts for, and what tools ask about the node itself.

use super::common::{add, boolean, next};
use crate::rpc::{
    api::Api,
    args::{self},
    error::RpcError,
    registry::Registry,
};
use alloy_primitives::{B256, U64, U128};
use serde_json::{Value, json};

pub(super) fn register(registry: &mut Registry) {
    add(registry, &["anvil_impersonateAccount", "hardhat_impersonateAccount"], 1, |api, args| {
        api.keyring.act_for(args.required(0, args::address)?);
        Ok(true)
    });
    add(registry, &["anvil_stopImpersonatingAccount", "hardhat_stopImpersonatingAccount"], 1, |api, args| {
        Ok(api.keyring.leave(&args.required(0, args::address)?))
    });
    add(registry, &["anvil_autoImpersonateAccount"], 1, |api, args| {
        api.keyring.act_for_all(args.required(0, boolean)?);
        Ok(true)
    });
    // Tools say how much the node prints; it prints by --log alone.
    add(registry, &["anvil_setLoggingEnabled", "hardhat_setLoggingEnabled"], 1, |_, args| {
        args.required(0, boolean)?;
        Ok(true)
    });
    add(registry, &["anvil_nodeInfo"], 0, |api, _| node(api));
    add(registry, &["hardhat_metadata", "anvil_metadata"], 0, |api, _| metadata(api));
}

fn node(api: &Api) -> Result<Value, RpcError> {
    let head = api.chain.head();
    let pending = api.pending(&head)?;
    let base = pending.base_fee_per_gas.unwrap_or_default();
    Ok(json!({
        "currentBlockNumber": U64::from(head.header.number),
        "currentBlockTimestamp": head.header.timestamp,
        "currentBlockHash": head.hash,
        "hardFork": api.chain.spec.spec(&pending).to_string(),
        "transactionOrder": "fees",
        "environment": {
            "baseFee": U128::from(base),
            "chainId": api.chain.spec.chain_id(),
            "gasLimit": U64::from(next(api)?.said().gas_limit.unwrap_or(pending.gas_limit)),
            "gasPrice": U128::from(base),
        },
        "forkConfig": {
            "forkUrl": api.chain.remote.as_ref().map(|remote| remote.server()),
            "forkBlockNumber": api.chain.remote.as_ref().map(|remote| remote.block().number),
            "forkRetryBackoff": null,
        },
    }))
}

fn metadata(api: &Api) -> Result<Value, RpcError> {
    let head = api.chain.head();
    let mut metadata = json!({
        "clientVersion": api.version,
        "chainId": api.chain.spec.chain_id(),
        "instanceId": B256::from(api.instance),
        "latestBlockNumber": head.header.number,
        "latestBlockHash": head.hash,
    });
    if let Some(remote) = &api.chain.remote {
        metadata["forkedNetwork"] = json!({ "chainId": remote.chain_id(), "forkBlockNumber": remote.block().number, "forkBlockHash": remote.block().hash() });
    }
    Ok(metadata)
}
