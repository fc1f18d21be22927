//! Runs engines and consensuses through every legal oddity, and reports.
//!
//! [`engine`] drives an engine with a scripted consensus that skips, repeats, delays and re-proposes. [`consensus`]
//! crashes a consensus and an engine, together and apart, and checks that they find together again. Both need only the
//! traits, so a chain team can run them on its own implementation.

mod crashes;
mod script;

pub use crashes::{Subject, consensus};
pub use script::engine;

use alloy_primitives::Bytes;
use core::fmt;
use phalanx_engine_api::ExecutionEngine;
use std::sync::Arc;

/// An engine with a power switch.
pub trait Machine {
    /// The engine under test.
    type Engine: ExecutionEngine;
    /// Opens the engine: empty the first time, later with its durable state.
    fn open(&mut self) -> Arc<Self::Engine>;
    /// Lets the engine finish its pending work.
    fn settle(&self, engine: &Self::Engine);
    /// Cuts the power: unsynced data is lost.
    fn crash(&mut self, engine: Arc<Self::Engine>);
    /// Erases the disk.
    fn wipe(&mut self);
    /// Transaction that is valid at a height, once on each branch, independent of other such transactions below it.
    /// Another content or height gives another transaction.
    fn tx(&self, content: u8, height: u64) -> Bytes;
}

/// A case and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Description of the case.
    pub name: String,
    /// Failure, if the case failed.
    pub failure: Option<String>,
}

/// Results of all cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConformanceReport {
    /// Subject of the test.
    pub subject: String,
    /// Cases in the order of their execution.
    pub cases: Vec<Case>,
}

impl ConformanceReport {
    /// True if no case failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.cases.is_empty() && self.cases.iter().all(|case| case.failure.is_none())
    }

    fn note(&mut self, name: impl Into<String>, result: Result<(), String>) {
        self.cases.push(Case { name: name.into(), failure: result.err() });
    }
}

impl fmt::Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.cases.iter().filter(|case| case.failure.is_some()).count();
        writeln!(f, "{}: {} cases, {failed} failed", self.subject, self.cases.len())?;
        for case in &self.cases {
            match &case.failure {
                None => writeln!(f, "  ok    {}", case.name)?,
                Some(failure) => writeln!(f, "  FAIL  {}: {failure}", case.name)?,
            }
        }
        Ok(())
    }
}
