//! Nodes, clients, wallets, and a sequential reference of the chain.

mod blobs;
mod client;
mod proxy;
mod reference;
mod wallet;

pub(crate) use blobs::{Blobs, with_blobs};
pub(crate) use client::{Client, PATIENCE, Socket};
pub(crate) use proxy::{Fate, Proxy};
pub(crate) use reference::Reference;
pub(crate) use wallet::{CHAIN, Call, address, authorize, deploy, heavy, hungry, named, signed};

use alloy_primitives::{Address, U256};
use phalanx::alloy::genesis::{Genesis, GenesisAccount};
use phalanx_node::{
    DEV_BALANCE, DEV_MNEMONIC, DEV_NAMESPACES, Development, Node, NodeConfig, Production, RpcConfig, StorePlace,
    dev_accounts, dev_genesis, into_development,
};
use std::{net::SocketAddr, path::Path};

/// Number of funded accounts.
pub(crate) const FUNDED: u64 = 16;

/// Genesis with every hard fork from the first block, and funded accounts.
pub(crate) fn genesis() -> Genesis {
    let mut genesis = dev_genesis(CHAIN, &[], U256::ZERO);
    let funded = (0..FUNDED).map(|account| {
        let balance = U256::from(10).pow(U256::from(24));
        (address(account), GenesisAccount::default().with_balance(balance))
    });
    genesis.alloc.extend(funded);
    genesis
}

/// Settings of a node in a folder.
pub(crate) fn config(folder: &Path, production: Production) -> NodeConfig {
    let mut config = NodeConfig::new(genesis(), StorePlace::Folder(folder.to_owned()));
    config.production = production;
    config.threads = Some(2);
    config.beneficiary = Address::repeat_byte(0xfe);
    config.rpc = RpcConfig { address: SocketAddr::from(([127, 0, 0, 1], 0)), ..RpcConfig::default() };
    config.rpc.namespaces.push("debug".into());
    config
}

/// Settings of a node for development in a folder, with three accounts that it signs for.
pub(crate) fn development(folder: &Path) -> NodeConfig {
    let accounts = dev_accounts(DEV_MNEMONIC, 3).expect("a mnemonic");
    let mut config = config(folder, Production::Instant);
    config.genesis.alloc.extend(dev_genesis(CHAIN, &accounts, DEV_BALANCE).alloc);
    into_development(&mut config.genesis, 1_700_000_000);
    config.rpc.namespaces.extend(DEV_NAMESPACES.map(str::to_owned));
    config.development = Some(Development { accounts });
    config.history = 4_096;
    config
}

/// A node that makes a block for every transaction, and its client.
pub(crate) fn instant(folder: &Path) -> (Node, Client) {
    let node = Node::start(&config(folder, Production::Instant)).expect("a node");
    let client = Client::new(node.address());
    (node, client)
}
