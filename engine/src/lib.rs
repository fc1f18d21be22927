//! The engine that chain teams link: executes EVM transactions in parallel and commits their state, one root per block.
//!
//! ```text
//!                 plan                      execute                       merkleize        commit
//! transactions ─► analyse, frame, cut ─► Block ─► load, DAG, revm, seal ─► Executed ─► root ─► Merkleized ─► state
//!                 (Order::Free)                   on all threads                                             + WriteHandle
//!                       ▲                                │
//!                       └──── transactions that left ◄───┘
//! ```
//!
//! Every step takes its input by value, so a block can be neither merkleized twice nor committed on another parent. The
//! results, receipts, state and root are those of sequential revm over the final order, for every number of threads and
//! however wrong the predictions were; [`Executor::Sequential`] is that oracle.
//!
//! ```
//! use phalanx::revm::{context::{BlockEnv, TxEnv}, primitives::{Address, TxKind, U256}};
//! use phalanx::{BlockLimits, Engine, GenesisAccount, Order};
//!
//! let (alice, bob) = (Address::repeat_byte(1), Address::repeat_byte(2));
//! let mut engine = Engine::builder().with_threads(2).build()?; // in memory; `with_store` for a disk
//! engine.genesis([GenesisAccount { address: alice, balance: U256::from(10), ..Default::default() }])?;
//!
//! let (kind, value) = (TxKind::Call(bob), U256::from(3));
//! let txs = [TxEnv { caller: alice, kind, value, gas_limit: 21_000, ..Default::default() }];
//! let mut planner = engine.plan(&txs, Order::Free, BlockLimits { max_txs: 10_000, max_gas: 36_000_000 });
//! let mut env = BlockEnv { number: U256::from(1), ..Default::default() };
//! while let Some(block) = planner.next_block(&engine, &env) {
//!     let executed = engine.execute(&env, &txs, block)?; // on all threads; nothing is committed
//!     let merkleized = engine.merkleize(executed)?; // the root is known
//!     let committed = engine.commit(merkleized)?; // the state has moved on
//!     planner.requeue_escaped(committed.block.left()); // what escaped its prediction goes into the next block
//!     committed.write.wait()?; // written, to what the store's durability promises
//!     env.number += U256::from(1);
//! }
//! assert_eq!(engine.state().account(&bob)?.map(|account| account.balance), Some(U256::from(3)));
//! # Ok::<(), phalanx::Error>(())
//! ```
//!
//! Rooms, from the top of the house to its bottom; a room imports only rooms below it:
//!
//! - `service`: the engine as consensus drives it; `builder`: blocks of one's own; `pool`: transactions that wait for a block.
//! - `engine`: the list of steps, and whole blocks of a chain.
//! - `seal`: gas, receipts, access list of a block that ran.
//! - `exec`: executors, from the session of a block down to its cells. `exec/dag/view.rs` is where correctness lives,
//!   `exec/serial.rs` is the oracle.
//! - `plan`: order and block boundaries; `bal`: block access lists.
//! - `state`: the state after a block, on the store; `recovery`: senders; `chain`: the rules of a chain; `trie`: ordered tries.
//! - `simulate`: calls that are not part of the chain.
//! - `model`: the vocabulary of all of them.
//! - `alloy_evm`: traits of that crate, behind the feature of its name.
//! - `lab`: decisions that the laboratory models, behind the feature of that name, with switches for tests.

#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "alloy-evm")]
pub mod alloy_evm;
mod service;
mod builder;
mod engine;
mod seal;
mod exec;
mod plan;
mod bal;
pub mod pool;
mod state;
mod recovery;
pub mod chain;
mod trie;
pub mod simulate;
mod model;

pub use alloy_eips::eip7928;
pub use bal::access_list_hints;
pub use builder::{Budget, BuildJob, Builder, Built, Dropped, Progress, Reason, Target, Template};
pub use engine::{Engine, EngineBuilder, ForeignBlock, GenesisInParts, SnapshotAt, chain_digest};
pub use exec::run::RunStats;
#[cfg(feature = "seeded-faults")]
pub use model::Fault;
pub use model::{
    AccessListFault, BlockAccessList, BlockError, CandidateTx, ChangedValue, Edit, Edited, Error, Executor,
    ForeignError, ForeignItem, Hints, Invalid, Observer, Order, Outcome, RecoveredBlock, RootKind, Stage, ThreadRole,
    TooWide, Traces, Transaction, Tuning, Unobserved,
};
pub use plan::{Block, LeftTransactions, Planner, SourceCounts};
pub use recovery::{
    CacheStats, Form, RecoverError, RecoveredTx, Recovery, RecoveryCache, encode_forced, is_transaction, recover,
    recover_all,
};
pub use seal::{BlockInfo, BlockStats, Committed, Executed, Merkleized};
pub use service::{
    Anchor, BlockAttributes, BlockSink, CheckForced, Performed, ProofMismatch, ProvenTransaction, Recovered, SendError,
    Service, ServiceConfig, SinkBlock, SinkRefused, SteppedService, WholeBlock, plain_payload, verify_account,
    verify_code, verify_fate, verify_inclusion, verify_slot, verify_transaction,
};
pub use state::{
    Ancestors, Anchored, CODE_RULE, ChangedAccount, Done, GenesisAccount, RemoteAccount, RemoteError, RemoteState,
    RemoteValue, SnapshotError, State, StateDiff, StateError, StateSnapshot, StateWitness, StoredEntry, WriteHandle,
    contents, genesis_digest, verify_anchored,
};

pub use phalanx_access as access;
pub use phalanx_engine_api as api;
pub use phalanx_merkle as merkle;
pub use phalanx_paraframer as paraframer;
pub use phalanx_paraframer::BlockLimits;
pub use phalanx_paralyze as paralyze;
pub use phalanx_paralyze::{
    ChainRules, ChainRulesError, ExtraFee, ForcedTx, ForeignDb, ForeignEvm, ForeignFailure, Payments, Share,
};
pub use phalanx_parascheduler as parascheduler;
pub use phalanx_trie as state_trie;
pub use phalanx_trie::{AccountProof, SlotProof};
pub use revm;

/// The crates of alloy whose types are in the interface, of the versions that the engine is built with.
pub mod alloy {
    pub use alloy_consensus as consensus;
    pub use alloy_eips as eips;
    pub use alloy_genesis as genesis;
    pub use alloy_primitives as primitives;
}
