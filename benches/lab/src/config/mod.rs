//! Settings of the measurements: flags of the command line, with their defaults and their help.

mod build;
mod run;
mod pace;
mod load;
mod store;
mod memory;
mod word;
mod number;
pub mod heading;

pub use build::{Artefact, BuildConfig};
pub use load::{LoadConfig, WorkloadKind};
pub use memory::{memory, memory_word};
pub use number::{bytes, count, numbers};
pub use pace::Pace;
pub use run::{FAFO_PAPER, FAFO_TABLE_1, KEPT_RULES, OracleKind, RunConfig, threads};
pub use store::Store;
pub use word::{Word, Words, choice, name_of, one_of, word};

use clap::{Args, Command};
use std::ffi::OsString;

/// Reads flags outside of a command line.
///
/// # Errors
/// If `flags` are not those of `A`.
pub fn parse<A: Args>(flags: impl IntoIterator<Item = OsString>) -> Result<A, clap::Error> {
    let command = numbers(A::augment_args(Command::new("phalanx").no_binary_name(true)));
    A::from_arg_matches(&command.try_get_matches_from(flags)?)
}
