//! Orders transactions by an exact per-slot DAG and runs them on persistent workers.
//!
//! The crate knows keys and closures, and no EVM without its feature `eip7928`. A block's access sets become a [`Dag`] whose
//! edges are exactly the conflicts of its transactions in block order. [`Workers::run`] then calls a [`Job`] once for every
//! transaction, after all earlier transactions that conflict with it. With an exact DAG a key needs one current value and no
//! versions. While a job runs, no other job may change what it reads or read what it writes.
//!
//! ```text
//! AccessSets<KeyId> ──► DagBuilder ──► Dag ──► Workers::run ──► Report
//!   block order         last writer,    CSR      │    ▲           escaped: left the predicted set
//!                       readers,        edges,   ▼    │           withdrawn: depend on an escaped one
//!                       credits         joins   Job (one Local per worker)
//! ```
//!
//! ```
//! use phalanx_access::{Access::{Credit, Read, Write}, AccessSets, KeyId};
//! use phalanx_parascheduler::{Dag, TxIndex, Verdict, Workers};
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//!
//! // Two payments to key 0, then a transaction that reads it.
//! let mut sets = AccessSets::new();
//! sets.push([(KeyId(1), Write), (KeyId(0), Credit)]);
//! sets.push([(KeyId(2), Write), (KeyId(0), Credit)]);
//! sets.push([(KeyId(0), Read)]);
//! let dag = Dag::build(&sets, 3);
//! assert_eq!(dag.sources(), [TxIndex(0), TxIndex(1)]);
//! assert_eq!(dag.critical_path(), 2);
//!
//! let workers = Workers::new(2)?;
//! let balance = AtomicU64::new(0);
//! let seen = AtomicU64::new(0);
//! let mut locals = [(); 2];
//! let report = workers.run(&dag, &mut locals, &|_: &mut (), tx: TxIndex| {
//!     match tx.0 {
//!         2 => seen.store(balance.load(Relaxed), Relaxed),
//!         _ => _ = balance.fetch_add(5, Relaxed),
//!     }
//!     Verdict::Done
//! });
//! assert_eq!(seen.into_inner(), 10);
//! assert!(report.is_clean());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Where access sets are not known, [`Workers::run_stm`] runs a [`Program`] by Block-STM: it executes speculatively, keeps a
//! version per writer, and makes an outcome final when its reads are.
//!
//! ```
//! use phalanx_access::Salt;
//! use phalanx_parascheduler::{Execution, Interrupt, Program, StmConfig, TxIndex, View, Workers, Write};
//!
//! /// Transaction i adds one to the key that key 0 names; transaction 2 makes that key 5.
//! struct Follow;
//!
//! impl Program for Follow {
//!     type Key = u64;
//!     type Value = u64;
//!     type Credit = u64;
//!     type Output = u64;
//!     type Error = std::convert::Infallible;
//!     type Local = ();
//!
//!     fn base(&self, key: &u64) -> Result<u64, Self::Error> {
//!         Ok(if *key == 0 { 1 } else { 10 })
//!     }
//!     fn credited(&self, value: &u64, credit: &u64) -> Option<u64> {
//!         value.checked_add(*credit)
//!     }
//!     fn execute(&self, _: &mut (), tx: TxIndex, view: &mut View<'_, Self>) -> Result<Execution<Self>, Interrupt> {
//!         if tx.0 == 2 {
//!             return Ok(Execution { output: 0, writes: vec![(0, Write::Value(5))] });
//!         }
//!         let key = view.read(&0)?;
//!         Ok(Execution { output: key, writes: vec![(key, Write::Credit(1))] })
//!     }
//! }
//!
//! let workers = Workers::new(2)?;
//! let mut report = workers.run_stm(&Follow, 5, &mut [(), ()], &StmConfig::new(Salt::new(1))).expect("readable");
//! report.writes.sort();
//! assert_eq!(report.outputs, [1, 1, 0, 5, 5]);
//! assert_eq!(report.writes, [(0, 5), (1, 12), (5, 12)]);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! With the feature `eip7928` a block that comes with its access list runs on the values of that list, all transactions at once:
//! `Workers::run_listed`, which the crate's README shows.
//!
//! Modules stand in reading order, and import only modules further down. The hand-made protocols, `countdown.rs`, `idle.rs`
//! and Block-STM's in `stm/`, are explained in the crate's README and model-checked in `tests/loom`.

#[cfg(feature = "eip7928")]
mod listed;

mod stm;

mod workers;

mod worker;

mod inline;

mod shuffled;

mod claimed;

mod prefetch;

mod cursor;

mod countdown;

mod idle;

mod job;

mod builder;

mod dag;

mod sync;

#[cfg(feature = "eip7928")]
pub use alloy_eip7928 as eip7928;
/// Programs of the README, which are tests.
#[cfg(all(doctest, feature = "eip7928"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use builder::DagBuilder;
pub use dag::{Dag, TxIndex};
pub use job::{Job, Lookahead, Report, Verdict};
#[cfg(feature = "eip7928")]
pub use listed::{Departure, Disorder, How, Listed, ListedError, ListedState, Place, Protocol};
pub use stm::{
    Commit, Execution, Interrupt, Program, StmConfig, StmError, StmMemory, StmReport, StmStats, View, Write, Writes,
};
pub use workers::{WeakWorkers, Workers, max_threads};
