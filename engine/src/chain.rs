//! The rules of an Ethereum chain as data and pure functions: which spec is in force at a block, what a block does outside
//! its transactions, and which headers, bodies, ommers and transactions are valid.
//!
//! ```text
//! genesis.json ─┐            header ─► validate_header ─► validate_body, validate_ommers, validate_tx
//! mainnet ──────┼► ChainSpec
//! fork's name ──┘            header ─► spec ─► cfg, env ─► pre_steps ─► transactions ─► request_calls ─► post_credits
//! ```
//!
//! Nothing here executes a transaction or reads state. What only execution can tell is left to the executor: gas used,
//! state and receipts roots, bloom and requests are compared there. Two things are never checked, because they are not
//! about execution: the seal of a proof-of-work block (its difficulty is checked, its mix hash is not) and whether a
//! block comes from the future.
//!
//! ```
//! use alloy_consensus::Header;
//! use phalanx::{chain::ChainSpec, revm::primitives::hardfork::SpecId};
//!
//! let chain = ChainSpec::mainnet();
//! assert_eq!(chain.spec(&Header { number: 12_965_000, ..Default::default() }), SpecId::LONDON);
//! ```

mod blobs;
mod body;
mod dao;
mod difficulty;
mod fees;
mod genesis;
mod header;
mod mainnet;
mod named;
mod ommers;
mod requests;
mod schedule;
mod spec;
mod steps;
mod tx;

pub use body::{BodyError, MAX_BLOCK_RLP};
pub use dao::{DAO_ACCOUNTS, DAO_REFUND};
pub use header::HeaderError;
pub use ommers::OmmerError;
pub use requests::{DepositError, requests_hash};
pub use schedule::{ChainSpecError, Merge};
pub use spec::{ChainSpec, DaoFork, Parameters};
pub use steps::PreStep;
pub use tx::TxRuleError;
