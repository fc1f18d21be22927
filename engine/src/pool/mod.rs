//! Pool of transactions that wait for a block, for a builder that frames and executes them in batches.
//!
//! ```text
//!                     ┌──────────────────────── Pool ───────────────────────┐
//!  RecoveredTx ─add─► │ per sender:  handed out │ ready by nonce │ future   │ ─► Removed + why
//!    or refused       │                         │ (no gap, paid) │ (bounded)│    (replaced, evicted, expired, ..)
//!                     └────▲──────────┬─────────┴───────▲────────┴──────────┘
//!                          │        take(batch)         │
//!                          │          ▼                 │
//!                          │   frames, execution ── settle(included, returned, invalid)
//!                          └── advance(tip) / retreat(tip, txs) ── blocks committed, rewound
//! ```
//!
//! **Ready**: a transaction that can run once its sender's earlier ones did, by the last known state. No nonce is
//! missing before it, and the balance pays for all of them at their highest prices. Every other transaction is
//! *future*. Future ones have their own, smaller room, where they cannot displace ready ones.
//!
//! **Order** is by price above the base fee, with or without a gain for waiting, or by arrival; always by nonce
//! within a sender. At equal price the older transaction goes first. A returned transaction keeps its rank, and so
//! its turn.
//!
//! **Floods.** Room is given by worth: the lower of a transaction's own price and the prices of its sender's earlier
//! ones. When a class is full, the last transaction of the sender with the lowest worth is evicted, so
//! - no transaction is evicted by one that pays less, or the same and came later, however many there are;
//! - a high price behind a low one protects nothing, since it could only be earned after the low one;
//! - a sender has at most [`PoolConfig::window`] transactions and [`PoolConfig::max_sender_bytes`] here, and at most
//!   [`Batch::max_of_sender`] in a batch;
//! - future transactions, which may never be paid for, compete among themselves alone;
//! - a replacement pays a tenth more in every price for the work that it causes.
//!
//! With `Policy::Price { boost }` above zero no transaction starves either: see [`Policy`].
//!
//! ```
//! use phalanx::pool::{Account, Admission, Batch, Cause, Fees, Pool, PoolConfig, Settled, Tip};
//! use phalanx::revm::{context::TxEnv, primitives::{Address, B256, U256}};
//! use phalanx::{Engine, GenesisAccount, RecoveredTx};
//! use std::sync::Arc;
//!
//! let [alice, bob] = [1, 2].map(Address::repeat_byte);
//! let mut engine = Engine::builder().build()?;
//! let balance = U256::from(10_000_000);
//! engine.genesis([alice, bob].map(|address| GenesisAccount { address, balance, ..Default::default() }))?;
//!
//! let mut pool = Pool::new(PoolConfig::default());
//! pool.advance(&Tip { fees: Fees { base: 7, blob: 1 }, ..Tip::default() }, engine.state())?;
//! let mut hash = 0;
//! let mut send = |caller, nonce, gas_price| {
//!     hash += 1; // `Recovery::recover` gives transactions with their true hashes
//!     let tx = TxEnv { caller, nonce, gas_price, gas_limit: 21_000, ..Default::default() };
//!     Arc::new(RecoveredTx::unsigned(B256::with_last_byte(hash), tx))
//! };
//! for tx in [send(alice, 0, 10), send(alice, 1, 90), send(bob, 0, 20), send(bob, 2, 30)] {
//!     assert!(matches!(pool.add(tx, engine.state())?, Admission::Admitted { .. }));
//! }
//!
//! // A builder takes a batch: Bob pays more than Alice's first, and his nonce 2 waits for nonce 1.
//! let batch = pool.take(&Batch::default());
//! let taken: Vec<_> = batch.iter().map(|tx| (tx.tx().caller, tx.tx().nonce)).collect();
//! assert_eq!(taken, [(bob, 0), (alice, 0), (alice, 1)]);
//!
//! // The builder executes the batch, and settles each transaction.
//! let outcomes = [Settled::Included, Settled::Included, Settled::Returned];
//! assert!(pool.settle(batch.iter().map(|tx| tx.rank()).zip(outcomes)).is_empty());
//! assert_eq!(pool.take(&Batch::default())[0].rank(), 1, "what came back is ready again");
//!
//! // The block is committed: `After` stands for the engine's state, with the nonces advanced.
//! struct After;
//! # impl phalanx::pool::Accounts for After {
//! #     type Error = std::convert::Infallible;
//! #     fn account(&self, _: &Address) -> Result<Account, Self::Error> {
//! #         Ok(Account { nonce: 1, balance: U256::from(9_000_000), ..Account::default() })
//! #     }
//! # }
//! let tip = Tip { now: 1, fees: Fees { base: 8, blob: 1 }, changed: vec![alice, bob] };
//! let removed = pool.advance(&tip, &After)?;
//! assert!(removed.iter().all(|removed| removed.cause == Cause::Passed) && removed.len() == 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod admit;
mod bid;
mod config;
mod events;
mod fairness;
mod fees;
mod lane;
mod outcome;
#[expect(clippy::module_inception, reason = "the file of the type that the folder is about")]
mod pool;
mod pooled;
mod query;
mod queue;
mod ready;
mod senders;
mod settle;
mod tails;

pub use account::{Account, Accounts};
pub use config::{Policy, PoolConfig};
pub use events::{PoolEvent, PoolEvents};
pub use fairness::Fairness;
pub use fees::Fees;
pub use outcome::{Admission, Cause, Refusal, Removed, Settled};
pub use pool::Pool;
pub use pooled::PooledTx;
pub use queue::Load;
pub use ready::{Batch, Ready};
pub use settle::Tip;
