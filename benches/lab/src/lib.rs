//! The laboratory: measures the engine, models it on more cores, compares and reports results.
//!
//! ```text
//! config ─► run (one timed run, oracle) ─► bench (workload, builder, store, schedule, sweep) ─► result ─► report
//!                                                  └─► model (more cores)      └─► compare (ratios, intervals)
//! ```
//!
//! Settings come in as values of [`config`]; flags, files and exit codes belong to the command. A module imports only
//! modules that are declared further down.

pub mod schemas;
pub mod claims;
pub mod cores;
pub mod compare;
pub mod model;
pub mod bench;
pub mod papers;
pub mod report;
pub mod run;
pub mod config;
mod head;
pub mod parallel;
pub mod doctor;
pub mod machine;
pub mod steady;
pub mod result;
pub mod quality;
pub mod ui;
pub mod written;
pub mod error;
