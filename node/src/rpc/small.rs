//! `net_*`, `web3_*`, and the constants of `eth_*`.

use super::{api::Api, args, error::RpcError, registry::Registry};
use crate::chain::forks;
use ::phalanx::RootKind;
use alloy_primitives::{U64, keccak256};
use serde_json::{Value, json};

pub(super) fn register(registry: &mut Registry) {
    registry.instant("web3_clientVersion", 0, |api, _| Ok(api.version.clone()));
    registry.light("web3_sha3", 1, |_, args| Ok(keccak256(args.required(0, args::bytes)?)));
    registry.instant("net_version", 0, |api, _| Ok(api.chain.spec.chain_id().to_string()));
    registry.instant("net_listening", 0, |_, _| Ok(true));
    registry.instant("net_peerCount", 0, |_, _| Ok(U64::ZERO));
    registry.instant("eth_chainId", 0, |api, _| Ok(U64::from(api.chain.spec.chain_id())));
    registry.instant("eth_blockNumber", 0, |api, _| Ok(U64::from(api.chain.height())));
    registry.instant("eth_syncing", 0, |_, _| Ok(false));
    registry.instant("eth_coinbase", 0, |api: &Api, _| Ok(api.chain.head().header.beneficiary));
    // As tools read it: a transaction needs no `evm_mine`.
    registry.instant("eth_mining", 0, |api, _| Ok(api.exit.rounds().is_some()));
    registry.instant("eth_hashrate", 0, |_, _| Ok(U64::ZERO));
    registry.light("eth_config", 0, |api, _| {
        let unknown = || RpcError::server("the chain has no blobs yet: eth_config describes forks from Cancun on");
        forks(&api.chain).ok_or_else(unknown)
    });
    registry.light("eth_capabilities", 0, |api, _| capabilities(api));
    registry.instant("eth_protocolVersion", 0, |_, _| Ok(U64::from(68)));
}

/// The lowest heights that the node answers for, by which routers of requests choose a node.
fn capabilities(api: &Api) -> Result<Value, RpcError> {
    let head = api.chain.head();
    let (first_block, first_state) = (api.chain.first()?, api.chain.first_state()?);
    let proves = api.chain.state(head.header.number)?.root_kind() == RootKind::Ethereum;
    let since = |height: u64| json!({ "disabled": false, "oldestBlock": U64::from(height) });
    let blocks = since(first_block);
    Ok(json!({
        "head": { "number": U64::from(head.header.number), "hash": head.hash },
        "state": since(first_state),
        "stateproofs": if proves { since(first_state) } else { json!({ "disabled": true }) },
        "tx": blocks,
        "logs": blocks,
        "receipts": blocks,
        "blocks": blocks,
    }))
}
