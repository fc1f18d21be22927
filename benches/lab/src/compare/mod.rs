//! `bench compare`: ratios of throughput and cost, with intervals.
//!
//! ```text
//! two files ─► same thing? ─► unpaired runs ─┐
//!                                            ├─► ratios ─► bootstrap ─► interval beside the floor ─► table, JSON
//! variants ─► ABBA ─► child processes ─► pairs ┘
//! ```

mod run;
mod table;
mod show;
mod files;
mod live;
mod comparison;
mod samples;
mod stats;

pub use comparison::{CompareConfig, Expectation};
pub use run::{files, variants};
pub use samples::Sample;
pub(crate) use show::schema;
