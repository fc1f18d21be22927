//! `net_*`, `web3_*`, and the constants of `eth_*`.

use super::{api::Api, args, forks, registry::Registry};
use alloy_primitives::{Address, U64, keccak256};

pub(super) fn register(registry: &mut Registry) {
    registry.light("web3_clientVersion", 0, |api, _| Ok(api.version.clone()));
    registry.light("web3_sha3", 1, |_, args| Ok(keccak256(args.required(0, args::bytes)?)));
    registry.light("net_version", 0, |api, _| Ok(api.chain.spec.chain_id().to_string()));
    registry.light("net_listening", 0, |_, _| Ok(true));
    registry.light("net_peerCount", 0, |_, _| Ok(U64::ZERO));
    registry.light("eth_chainId", 0, |api, _| Ok(U64::from(api.chain.spec.chain_id())));
    registry.light("eth_blockNumber", 0, |api, _| Ok(U64::from(api.chain.height())));
    registry.light("eth_syncing", 0, |_, _| Ok(false));
    registry.light("eth_accounts", 0, |_, _| Ok(Vec::<Address>::new()));
    registry.light("eth_coinbase", 0, |api: &Api, _| Ok(api.chain.head().header.beneficiary));
    registry.light("eth_mining", 0, |_, _| Ok(false));
    registry.light("eth_hashrate", 0, |_, _| Ok(U64::ZERO));
    forks::register(registry);
    registry.light("eth_protocolVersion", 0, |_, _| Ok(U64::from(68)));
}
