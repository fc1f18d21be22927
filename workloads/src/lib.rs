//! Makes deterministic transaction loads: a genesis, a stream of transactions, and a check of the final state that
//! needs no EVM.
//!
//! ```text
//!                    ┌─► genesis()       accounts, balances, code and storage
//! TransferLoad ──►  Native / Erc20 ──►  transactions()  fill(&mut Vec<TxEnv>, n), block after block
//! (seed, α, γ, hot)  Amm / Mixed
//! (Pools, Mix)       ├─► accounts()      sign(&txs): EIP-2718 bytes, when signatures are on
//!                    └─► check(ledger)   balances, nonces and fees by arithmetic alone
//! ```
//!
//! The load is that of FAFO, section 3.2, with what its bench leaves out: real nonces, a gas price above a base fee above
//! zero, a beneficiary, and contention on the receiver as well as on the sender. One seed is one stream, on any machine.
//! Every transaction succeeds, in every order that keeps each sender's nonces in order, but for those of [`Mixed`] that
//! are made to fail: they fail in every order.
//!
//! ```
//! use phalanx_workloads::{HotSide, Native, TransferLoad, Workload};
//!
//! let load = TransferLoad { accounts: 1_000, txs: 500, alpha: 0.9, gamma: 10, hot: HotSide::Receiver, ..Default::default() };
//! let workload = Native::new(load)?;
//!
//! let mut stream = workload.transactions();
//! let mut block = Vec::new();
//! assert_eq!(stream.fill(&mut block, 200), 200);
//! assert_eq!(stream.remaining(), 300);
//! assert!(block.iter().all(|tx| tx.gas_limit == 21_000));
//!
//! // After an engine ran every transaction: `workload.check(&workload.full_ledger(), gas_used, &state)`.
//! assert_eq!(workload.full_ledger().transactions(), 500);
//! # Ok::<(), phalanx_workloads::ConfigError>(())
//! ```
//!
//! [`fixtures`] reads published recordings: real blocks, and the conformance tests of the Ethereum clients.

pub mod fixtures;

mod trading;
mod erc20;
mod native;
mod workload;
mod ledger;
mod transactions;
mod market;
mod pool;
mod token;
mod base;
mod skew;
mod zipf;
mod sign;
mod config;
mod accounts;
mod check;
mod genesis;
mod rng;
mod per_account;

pub use accounts::Accounts;
pub use check::{AccountState, CheckError, ReadError, StateReader};
pub use config::{ConfigError, Fees, HotSide, TransferLoad, UnknownHotSide};
pub use erc20::Erc20;
pub use genesis::{Genesis, GenesisAccount, Wanted};
pub use ledger::Ledger;
pub use market::{Mix, MixError, Pools, contract_name};
pub use native::Native;
pub use pool::{PhalanxPool, Swap};
pub use sign::SignError;
pub use token::PhalanxToken;
pub use trading::{Amm, Mixed};
pub use transactions::Transactions;
pub use workload::Workload;
