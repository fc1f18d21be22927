//! Settings of the measurements, as values with the defaults of the command line.

mod build;
mod run;
mod load;
mod store;
mod word;

pub use build::{Artefact, BuildConfig};
pub use load::{LoadConfig, WorkloadKind};
pub use run::{FAFO_PAPER, KEPT_RULES, OracleKind, RunConfig, threads};
pub use store::Store;
pub use word::{Word, word};
