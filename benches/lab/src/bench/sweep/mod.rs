//! `bench sweep`: one benchmark over a range of settings.

mod run;
mod show;
mod cell;
mod axis;

pub use axis::{AXIS_HELP, Axis};
pub use run::{Over, run};
pub(super) use show::schema;
