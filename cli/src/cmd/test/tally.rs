//! Counts of passed, failed and skipped cases, and their text.

use super::kind::{Case, Verdict};
use phalanx_lab::written::{self, Named};
use schemars::JsonSchema;
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// Counts of all cases so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    skipped: BTreeMap<String, u64>,
    /// Failed cases. Tests may share a name, and unreadable files have none, so this is a list.
    failed: Vec<(Case, String)>,
}

/// A failed case, as a line.
#[derive(Serialize, JsonSchema)]
struct Failure<'a> {
    #[serde(flatten)]
    case: &'a Case,
    /// Difference, or fault of the fixture.
    reason: &'a str,
}

/// Counts, as the last line.
#[derive(Serialize, JsonSchema)]
struct Summary<'a> {
    /// Cases that failed.
    failed: usize,
    /// Cases that passed.
    passed: u64,
    /// Cases that were skipped, by reason.
    skip_reasons: &'a BTreeMap<String, u64>,
    /// Cases that were skipped.
    skipped: u64,
}

/// A line of what is written.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the schema of either, which are written apart")]
enum AnyLine<'a> {
    Failure(Failure<'a>),
    Summary(Summary<'a>),
}

/// Schema of a line.
pub(in crate::cmd) fn schema() -> Named {
    written::schema::<AnyLine<'_>>("test", "test state --json, test blockchain --json, line by line, without the last")
}

impl Tally {
    pub(crate) fn add(&mut self, case: Case, verdict: Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Skipped(reason) => *self.skipped.entry(reason).or_default() += 1,
            Verdict::Failed(reason) => {
                self.failed.push((case, reason));
            }
        }
    }

    pub(crate) const fn failed(&self) -> usize {
        self.failed.len()
    }

    /// Number of cases that were run.
    pub(crate) const fn ran(&self) -> u64 {
        self.passed + self.failed.len() as u64
    }

    /// Number of skipped cases by reason.
    pub(crate) fn skips(&self) -> impl Iterator<Item = (&str, u64)> {
        self.skipped.iter().map(|(reason, count)| (reason.as_str(), *count))
    }

    /// Text: a JSON line per failing case, a summary line if `summary`, and the closing line.
    pub(crate) fn text(&self, summary: bool) -> serde_json::Result<String> {
        let mut text = String::new();
        let mut failed: Vec<_> = self.failed.iter().collect();
        failed.sort_unstable();
        for (case, reason) in failed {
            text.push_str(&serde_json::to_string(&Failure { case, reason })?);
            text.push('\n');
        }
        if summary {
            let skipped: u64 = self.skipped.values().sum();
            let (passed, failed) = (self.passed, self.failed());
            let line = Summary { failed, passed, skip_reasons: &self.skipped, skipped };
            text.push_str(&format!("{}\n", serde_json::to_string(&line)?));
        }
        text.push_str(&format!("{self}\n"));
        Ok(text)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped: u64 = self.skipped.values().sum();
        write!(f, "{} passed, {} failed, {skipped} skipped", self.passed, self.failed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_lines_in_order_and_the_last_line_counts() {
        let mut tally = Tally::default();
        let case = |test: &str| Case {
            file: "f".into(),
            test: test.into(),
            fork: Some("London".into()),
            indexes: Some([0, 1, 2]),
        };
        tally.add(case("b"), Verdict::Failed("no".into()));
        tally.add(case("a"), Verdict::Failed("a \"word\"".into()));
        tally.add(case("c"), Verdict::Passed);
        tally.add(case("d"), Verdict::Skipped("why".into()));
        tally.add(case("e"), Verdict::Skipped("why".into()));
        let text = tally.text(true).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], r#"{"file":"f","test":"a","fork":"London","indexes":[0,1,2],"reason":"a \"word\""}"#);
        assert!(lines[1].contains(r#""test":"b""#));
        assert_eq!(lines[2], r#"{"failed":2,"passed":1,"skip_reasons":{"why":2},"skipped":2}"#);
        assert_eq!(lines[3], "1 passed, 2 failed, 2 skipped");
        assert_eq!(tally.skips().collect::<Vec<_>>(), [("why", 2)]);
        assert!(tally.ran() > 0 && Tally::default().ran() == 0);
    }

    #[test]
    fn files_that_cannot_be_read_count_one_by_one() {
        let mut tally = Tally::default();
        for reason in ["a.tar.gz: no such file", "b.tar.gz: no such file"] {
            tally.add(Case::default(), Verdict::Failed(reason.into()));
        }
        assert_eq!(tally.text(false).unwrap().lines().last(), Some("0 passed, 2 failed, 0 skipped"));
    }
}
