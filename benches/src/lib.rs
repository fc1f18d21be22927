//! Shared parts of the benches: loads, access sets to frame and to order, and whole blocks.
//!
//! ```text
//!  benches/framer.rs   Transfers ──► frames               one core, no execution
//!  benches/dag.rs      Transfers ──► ids ──► DAG          one core, no execution
//!  benches/blocks.rs   Case { workload, executor, threads } ──► plan, execute, merkleize
//!  benches/foreign.rs  recorded blocks ──► own store and foreign state, in pairs
//!  benches/instructions   the steps of all these one by one ──► Counts, a gate instead of a time
//! ```
//!
//! Every bench proves its result before it is timed, so that no figure stands for a wrong result.
//!
//! ```
//! use phalanx::Executor;
//! use phalanx_benches::{Case, Kind, Truth};
//!
//! let truth = Truth::new(Kind::Native.load(1_000, 200), Kind::Native)?;
//! let case = Case { workload: Kind::Native, executor: Executor::Dag, threads: 2 };
//! let mut chain = truth.chain(case)?;
//! // The block is executed and its root computed, and nothing is committed: it can be run again and again.
//! assert_eq!(chain.run()?.state_root(), truth.state_root());
//! assert_eq!(chain.run()?.state_root(), truth.state_root());
//! # Ok::<(), phalanx_benches::Error>(())
//! ```

mod chain;
mod transfers;
mod counts;
mod case;

pub use case::{Case, Kind, THREADS, THREADS_NAME, threads};
pub use chain::{Chain, Error, Truth};
pub use counts::{CountChange, Counts, CountsError, Verdict};
pub use transfers::Transfers;
