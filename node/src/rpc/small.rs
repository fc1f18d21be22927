//! `net_*`, `web3_*`, and the constants of `eth_*`.

use super::{api::Api, args, error::RpcError, registry::Registry};
use crate::chain::forks;
use alloy_primitives::{U64, keccak256};

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
    registry.instant("eth_protocolVersion", 0, |_, _| Ok(U64::from(68)));
}
