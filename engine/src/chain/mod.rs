//! Rules of an Ethereum chain as data and pure functions: the spec in force at a block, the steps of a block outside
//! its transactions, and the validity of headers, bodies, ommers and transactions. In this folder *fork* always means
//! hard fork.
//!
//! ```text
//! genesis.json ─┐            header ─► validate_header ─► validate_body, validate_ommers, validate_tx
//! mainnet ──────┼► ChainSpec
//! fork's name ──┘            header ─► spec ─► cfg, env ─► pre_steps ─► transactions ─► request_calls ─► post_credits
//! ```
//!
//! Nothing here executes a transaction or reads state. The executor checks what only execution can tell: gas used,
//! state and receipts roots, bloom and requests. Two things are never checked, because they do not concern execution:
//! the seal of a proof-of-work block (its difficulty is checked, its mix hash is not), and a timestamp in the future.
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
mod child;
mod dao;
mod difficulty;
mod fees;
mod genesis;
mod header;
mod mainnet;
mod named;
mod ommers;
mod outcome;
mod requests;
mod schedule;
mod spec;
mod steps;
mod tx;

pub use body::{BodyError, MAX_BLOCK_RLP};
pub use child::Attributes;
pub use dao::{DAO_ACCOUNTS, DAO_REFUND};
pub use header::HeaderError;
pub use ommers::OmmerError;
pub use outcome::{BlockOutcome, OutcomeDifference, OutcomeError, transactions_root};
pub use requests::{DepositError, requests_hash};
pub use schedule::{ChainSpecError, Merge};
pub use spec::{ChainSpec, DaoFork, ForkPoints, Parameters};
pub use steps::PreStep;
pub use tx::TxRuleError;
