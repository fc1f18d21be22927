//! `bench cores`: what a machine does on one core, on two, and so on up to all, within a given time.
//!
//! ```text
//! pilot ─► plan: commands of each part, sized by its share of the time ─► results ─► rows ─► table, JSON
//!                                                   bench scale: the model ─┘ beside each
//! ```
//!
//! The command runs the plan's commands, each in a fresh process; nothing here starts one.

mod show;
mod rows;
mod plan;

pub use plan::{Command, Part, Plan, pilot};
pub use rows::{Row, rows};
pub(crate) use show::schema;
pub use show::{Skipped, table, value};
