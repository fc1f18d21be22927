//! A node of one chain: the engine's service with a store of blocks, JSON-RPC for wallets, and block production.
//!
//! ```text
//!  wallet ─► JSON-RPC ─► pool of the service ─► producer: build, submit, commit ─► sink: block store, durable
//!     ▲         │                                                                         │ then
//!     └─────────┴── blocks, receipts, logs ◄── block store      state, calls ◄── service ◄┘ visible
//! ```
//!
//! [`Node::start`] opens everything and returns a running node; [`Node::stop`] ends it, and the next start continues. Reads
//! are answered from snapshots and from the block store, so they never wait for a block that executes. This crate alone has
//! async: the JSON-RPC server. Everything below it is threads and calls.
//!
//! Rooms, from the top of the house to its bottom; a room imports only rooms below it:
//!
//! - `node`: start, stop, and what fails meanwhile.
//! - `joining`: a node whose replica takes a snapshot from other replicas.
//! - `opening`: a chain, and the servers on it.
//! - `source`: the source of blocks of a running node: a producer, another node, a consensus client, CometBFT or a replica.
//! - `join`: a node without a chain, which takes a snapshot that CometBFT offers.
//! - `rpc`: the methods, their arguments and errors, and the server.
//! - `ingress`: transactions in frames, for clients that send many.
//! - `edge`: sockets of clients, and what a connection can cost.
//! - `intake`: the queue of the transactions that clients send.
//! - `exit`: way of an admitted transaction out of the pool: to the producer, a consensus client, CometBFT or the replica.
//! - `validator`: blocks of a chain that CometBFT orders.
//! - `engine_api`: blocks of a chain whose head a consensus client chooses.
//! - `replica`: blocks of a chain that the replicas of a paper's protocol order.
//! - `requests`: transactions of the pool that a replica has ordered.
//! - `decided`: blocks that a consensus has decided, for readers.
//! - `relay`: transactions for the pools of other validators.
//! - `taken`: snapshots for other nodes, and `snapshot_taker`: the one that this node takes from others.
//! - `report`: reports of halts, which may forbid a start.
//! - `producer`: blocks of a chain with one producer.
//! - `follower`: blocks of another node, executed again.
//! - `steps`: a block through the service.
//! - `orders`: orders of the operator of a chain for development, to its producer.
//! - `next`: the next block of a producer, as far as its operator has said something about it.
//! - `rounds`: rounds of a producer that makes a block for every transaction, and those that wait for one.
//! - `environment`: rules of a block's environment that the block and its parent show.
//! - `upstream`: JSON-RPC of the node that this one follows, and `gate`, whether a call of it is worth the wait.
//! - `raw`: blocks and transactions as other nodes send them.
//! - `chain`: one view of committed blocks and their states, and the sink that feeds the store.
//! - `metrics`: counters, in the text format of Prometheus.
//! - `config`, `genesis`, `keys`, `error`: settings of a node, and its errors.
//! - `remote`: the chain of another node, from which a chain for development goes on.
//! - `http`: requests to other processes.
//! - `store`: blocks, receipts, and the index over them.

mod node;
mod joining;
mod opening;
mod source;
mod join;
mod rpc;
pub mod ingress;
mod intake;
mod exit;
mod validator;
mod engine_api;
mod replica;
mod relay;
mod requests;
mod decided;
mod snapshot_taker;
mod taken;
mod report;
mod producer;
mod orders;
mod next;
mod rounds;
mod follower;
mod steps;
mod environment;
mod upstream;
mod gate;
mod raw;
mod chain;
mod metrics;
mod edge;
mod counters;
mod process;
mod genesis;
mod config;
mod remote;
pub mod http;
mod upgrades;
mod durable;
mod keys;
mod error;
pub mod store;

pub use config::{
    BlockSource, CometConfig, DEV_CHAIN, DEV_NAMESPACES, Development, Durability, EngineApiConfig, IngressAddress,
    NAMESPACES, NodeConfig, Production, ReplicaConfig, RpcConfig, StorePlace,
};
pub use error::NodeError;
pub use genesis::{DEV_BALANCE, dev_genesis, into_development, set_root};
pub use keys::{DEV_MNEMONIC, DevAccount, MOST_ACCOUNTS, dev_accounts};
pub use node::Node;
pub use phalanx_abci as abci;
pub use phalanx_net as net;
pub use remote::{Remote, RemoteConfig};
pub use upgrades::Upgrades;
