//! The engine that chain teams link: executes EVM transactions in parallel and commits their state, one root per block.
//!
//! ```text
//!                 plan                      execute                       merkleize        commit
//! transactions ─► analyse, frame, cut ─► Block ─► load, DAG, revm, seal ─► Executed ─► root ─► Merkleized ─► state
//!                 (Order::Free)                   on all threads                                             + Ticket
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
//!     planner.take_back(committed.block.left()); // what escaped its prediction goes into the next block
//!     committed.ticket.wait()?; // written, to what the store's durability promises
//!     env.number += U256::from(1);
//! }
//! assert_eq!(engine.state().account(&bob)?, Some((0, U256::from(3)))); // nonce, balance
//! # Ok::<(), phalanx::Error>(())
//! ```
//!
//! Reading order: `engine.rs` is the list of steps; `plan.rs` decides order and blocks; `dag.rs` runs one block, `worker.rs`
//! one transaction; `view.rs` is where correctness lives; `sequential.rs` is the oracle; `receipts.rs` seals.

mod access_list;
mod admission;
mod block;
mod block_access_list;
mod branch;
mod builder;
mod cells;
pub mod chain;
mod changes;
mod codes;
mod config;
mod dag;
mod encoding;
mod engine;
mod error;
mod fate;
mod graph;
mod hints;
mod intern;
mod learn;
mod lent;
mod observer;
mod open;
mod origin;
mod outcome;
mod outcomes;
mod overlay;
mod payload;
mod persist;
mod plan;
pub mod pool;
mod receipts;
mod recovery;
mod rewards;
mod rlp;
mod sequential;
mod service;
mod settle;
mod slots;
mod state;
mod stm;
mod threads;
mod trace;
mod transfer;
mod trie;
mod txs;
mod view;
mod whole;
mod width;
mod window;
mod worker;

pub use access_list::access_list_hints;
pub use alloy_eips::eip7928;
pub use block::{BlockInfo, BlockStats, Committed, Executed, LeftTransactions, Merkleized};
pub use block_access_list::{AccessListFault, BlockAccessList, ChangedValue};
pub use builder::{
    Budget, BuildJob, Builder, Built, Candidate, Dropped, Progress, Reason, Target, Template, Transaction,
};
pub use config::{Executor, Order};
pub use dag::RunStats;
pub use engine::{Engine, EngineBuilder, GenesisAccount, MIN_OVERLAP};
pub use error::Error;
pub use intern::interns_in_shards;
pub use observer::{Observer, Stage, Unobserved};
pub use outcome::Outcome;
pub use payload::{BlockError, Hints, Payload};
pub use persist::{Done, Ticket};
pub use plan::{Block, Planner, SourceCounts};
pub use recovery::{CacheStats, Form, RecoverError, RecoveredTx, Recovery, RecoveryCache, recover, recover_all};
pub use service::{
    Performed, ProofMismatch, SendError, Service, ServiceConfig, SteppedService, verify_account, verify_slot,
    verify_transaction,
};
pub use state::{State, StateError};
pub use threads::ThreadRole;
pub use trace::Traces;
pub use view::Ancestors;
pub use whole::Invalid;
pub use width::Width;

pub use phalanx_access as access;
pub use phalanx_engine_api as api;
pub use phalanx_merkle as merkle;
pub use phalanx_paraframer as paraframer;
pub use phalanx_paraframer::BlockLimits;
pub use phalanx_paralyze as paralyze;
pub use phalanx_parascheduler as parascheduler;
pub use revm;
