//! Orders transactions by an exact per-slot DAG and runs them on persistent workers.
//!
//! The crate knows keys and closures, no EVM. A block's access sets become a [`Dag`] whose edges are exactly the
//! conflicts of its transactions in block order; [`Workers::run`] then calls a [`Job`] once for every transaction, each
//! after all those it conflicts with that come earlier in the block. With an exact DAG a key needs one current value
//! and no versions: while a job runs, nobody else may change what it reads or look at what it writes.
//!
//! ```text
//! AccessSets<KeyId> ──► DagBuilder ──► Dag ──► Workers::run ──► Report
//!   block order         last writer,    CSR      │    ▲           escaped: left their predicted set
//!                       readers,        edges,   ▼    │           withdrawn: depend on an escaped one
//!                       credits         joins   Job (one Local per worker)
//! ```
//!
//! ```
//! use phalanx_access::{Access::{Credit, Read, Write}, AccessSets, KeyId};
//! use phalanx_parascheduler::{Dag, TxIndex, Verdict, Workers};
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//!
//! // Two payments to key 0, then somebody who looks at it.
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
//! Reading order: `dag.rs` and `builder.rs` are pure; `job.rs` is what callers implement; `workers.rs` starts a run,
//! `inline.rs` does it on one thread, `worker.rs` is one of several. The two hand-made protocols, `countdown.rs` and
//! `idle.rs`, are explained in the crate's README and model-checked in `tests/loom.rs`.

mod dag;

mod builder;

mod job;

mod workers;

mod inline;

mod worker;

mod cursor;

mod countdown;

mod idle;

mod stm;

mod sync;

pub use builder::DagBuilder;
pub use dag::{Dag, TxIndex};
pub use job::{Job, Report, Verdict};
pub use stm::{Commit, Execution, Interrupt, Program, StmConfig, StmError, StmReport, StmStats, View, Write, Writes};
pub use workers::Workers;
