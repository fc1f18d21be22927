//! Kinds of tests, and the verdict on a case.

use phalanx_lab::run::engines::Setup;
use phalanx_workloads::fixtures::Test;
use schemars::JsonSchema;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The verdict on one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The result is the fixture's.
    Passed,
    /// The result differs, or the fixture is malformed.
    Failed(String),
    /// The engine does not implement its rules.
    Skipped(String),
}

/// A kind of test.
pub(crate) trait Kind: Sync {
    /// Runs the cases of the test `name` and reports the verdict on each. Returns false if the test is of another kind.
    fn run(&self, name: &str, test: &Test, plan: &Plan<'_>, tell: &mut dyn FnMut(Case, Verdict)) -> bool;
}

/// Settings of the tests.
pub(crate) struct Plan<'a> {
    pub(crate) setup: Setup,
    pub(super) fork: Option<&'a str>,
}

impl Plan<'_> {
    /// True if `--fork` selects this hard fork or network.
    pub(crate) fn wants(&self, fork: &str) -> bool {
        self.fork.is_none_or(|wanted| wanted.eq_ignore_ascii_case(fork))
    }

    /// Verdict of `run`; a panic is a failure too.
    pub(crate) fn judge(&self, run: impl FnOnce() -> Verdict) -> Verdict {
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Verdict::Failed(format!("internal: the engine panicked: {}", text.unwrap_or_default()))
        })
    }
}

/// Place of a case: file, test, hard fork and inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) struct Case {
    /// File of the test; empty if none could be read.
    pub(crate) file: String,
    /// Name of the test.
    pub(crate) test: String,
    /// Hard fork or network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fork: Option<String>,
    /// Indexes of data, gas limit and value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) indexes: Option<[usize; 3]>,
}
