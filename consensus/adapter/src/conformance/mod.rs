//! Every legal oddity, and a report.
//!
//! [`engine`] drives an engine with a scripted consensus that skips, repeats, delays and re-proposes. [`consensus`] lets a
//! consensus and an engine crash, together and apart, and looks whether they find together again. Both need only the traits,
//! so a chain team can run them on its own.

mod crashes;
mod script;

pub use crashes::{Subject, consensus};
pub use script::engine;

use alloy_primitives::Bytes;
use core::fmt;
use phalanx_engine_api::Engine;
use std::sync::Arc;

/// An engine with a power switch.
pub trait Machine {
    /// The engine.
    type Engine: Engine;
    /// Opens it: empty the first time, later what was durable.
    fn open(&mut self) -> Arc<Self::Engine>;
    /// Lets it finish what it has to do.
    fn settle(&self, engine: &Self::Engine);
    /// Pulls the plug: what was not synced is lost.
    fn crash(&mut self, engine: Arc<Self::Engine>);
    /// Throws away everything: an empty disk.
    fn wipe(&mut self);
    /// A transaction that is valid at a height, once on each branch, whatever others of these there are below it. Another
    /// content or height gives another one.
    fn tx(&self, content: u8, height: u64) -> Bytes;
}

/// A case and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What was tried.
    pub name: String,
    /// What went wrong, if anything.
    pub failure: Option<String>,
}

/// All cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConformanceReport {
    /// What was examined.
    pub subject: String,
    /// In the order in which they were tried.
    pub cases: Vec<Case>,
}

impl ConformanceReport {
    /// Whether nothing went wrong.
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
