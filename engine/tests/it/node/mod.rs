//! The engine as a node's foundation: one chain from its genesis on, with its own rules, headers, views and events.

mod fates;
mod headers;
mod kills;
mod lists;
mod rules;
pub(crate) mod service;
mod sinks;
mod trial;
mod views;
pub(crate) mod wallet;

use crate::kit::contract;
use alloy_consensus::Header;
use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_genesis::Genesis;
use phalanx::{
    GenesisAccount,
    chain::ChainSpec,
    revm::{
        context::TxEnv,
        primitives::{Address, B256, Bytes, TxKind, hardfork::SpecId},
    },
};

/// Chain id of these tests.
pub(crate) const CHAIN: u64 = 4242;

/// Contracts of the protocol that a chain from Prague on needs.
pub(crate) fn system_contracts() -> Vec<GenesisAccount> {
    let contracts: [(Address, &Bytes); 4] = [
        (eip4788::BEACON_ROOTS_ADDRESS, &eip4788::BEACON_ROOTS_CODE),
        (eip2935::HISTORY_STORAGE_ADDRESS, &eip2935::HISTORY_STORAGE_CODE),
        (eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, &eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE),
        (eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, &eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE),
    ];
    contracts.map(|(address, code)| GenesisAccount { address, ..contract(1, code) }).to_vec()
}

/// A `genesis.json` of a chain that is on proof of stake from its first block, with forks at the given times.
pub(crate) fn genesis(times: &[(&str, u64)], funded: &[Address]) -> Genesis {
    let mut config = serde_json::json!({
        "chainId": CHAIN, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
        "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0,
        "londonBlock": 0, "terminalTotalDifficulty": 0, "terminalTotalDifficultyPassed": true,
    });
    for (fork, time) in times {
        config[format!("{fork}Time")] = (*time).into();
    }
    let mut alloc = serde_json::Map::new();
    for account in system_contracts() {
        let fields = serde_json::json!({"balance": "0x0", "nonce": "0x1", "code": account.code});
        alloc.insert(format!("{:#x}", account.address), fields);
    }
    if times.iter().any(|(fork, _)| *fork == "amsterdam") {
        for (_, address) in ChainSpec::mainnet().request_calls(SpecId::AMSTERDAM) {
            // Those of Prague are there.
            alloc.entry(format!("{address:#x}")).or_insert(serde_json::json!({"balance": "0x0", "code": "0x00"}));
        }
    }
    for address in funded {
        alloc.insert(format!("{address:#x}"), serde_json::json!({"balance": "0xd3c21bcecceda1000000"}));
    }
    let genesis = serde_json::json!({
        "config": config, "nonce": "0x0", "timestamp": "0x10", "extraData": "0x", "gasLimit": "0x1c9c380",
        "difficulty": "0x0", "mixHash": B256::ZERO, "baseFeePerGas": "0x3b9aca00",
        "coinbase": "0x0000000000000000000000000000000000000000", "alloc": alloc,
    });
    serde_json::from_value(genesis).expect("a genesis")
}

/// A transaction of the chain to `to`.
pub(crate) fn send(from: u8, nonce: u64, to: TxKind, data: Bytes) -> TxEnv {
    TxEnv {
        tx_type: 2,
        caller: Address::repeat_byte(from),
        gas_limit: 1_000_000,
        gas_price: 2_000_000_000,
        gas_priority_fee: Some(3),
        kind: to,
        data,
        nonce,
        chain_id: Some(CHAIN),
        ..Default::default()
    }
}

/// Attributes of a child twelve seconds after its parent.
pub(crate) fn after(parent: &Header) -> phalanx::chain::Attributes {
    phalanx::chain::Attributes {
        timestamp: parent.timestamp + 12,
        beneficiary: crate::kit::COINBASE,
        ..Default::default()
    }
}
