//! Instruction counts: parsing of gungraun's output, and comparison with the expectation.

use core::fmt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Percentage that a kernel may cost more than expected. The noise of a count is under a tenth of a per cent; the rest
/// is room for nearby changes that move what is inlined.
const LIMIT: u64 = 10;

/// Instruction counts per kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Compiler, target and vectors. Counts of different builds cannot be compared.
    pub made_by: String,
    /// Counts by kernel.
    pub counts: BTreeMap<String, u64>,
}

/// Output of gungraun that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountsError {
    /// A line is not JSON.
    #[error("gungraun's result is no JSON")]
    Json(#[from] serde_json::Error),
    /// There is no benchmark, or a benchmark without a name or a count.
    #[error("gungraun's result has no {what}; the runner's version must be that of gungraun in Cargo.lock")]
    Missing {
        /// Name of the missing part.
        what: &'static str,
    },
    /// A kernel ran no instruction, or none was counted.
    #[error("nothing was counted in {kernel}: is its work on another thread, or `counted` inlined?")]
    Nothing {
        /// Name of the kernel.
        kernel: String,
    },
}

/// Verdict on a kernel's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At most ten per cent more or less.
    Same,
    /// More than ten per cent more. Fails.
    More,
    /// More than ten per cent less: unless it is renewed, a later change may lose the gain unnoticed.
    Less,
    /// No count is expected of the kernel. Fails.
    New,
    /// The kernel was not counted. Fails.
    Gone,
}

impl Verdict {
    /// True if a check fails with this verdict.
    pub const fn fails(self) -> bool {
        matches!(self, Self::More | Self::New | Self::Gone)
    }
}

/// Expected and actual count of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountChange {
    /// Name of the kernel.
    pub kernel: String,
    /// Expected count.
    pub expected: Option<u64>,
    /// Actual count.
    pub counted: Option<u64>,
    /// Verdict on the change.
    pub verdict: Verdict,
}

impl Counts {
    /// Parses the output of gungraun with `--output-format=json`: a line per benchmark.
    ///
    /// # Errors
    /// The text is something else, or a kernel was not counted.
    pub fn from_gungraun(made_by: String, lines: &str) -> Result<Self, CountsError> {
        let mut counts = BTreeMap::new();
        for line in lines.lines().filter(|line| !line.is_empty()) {
            let result: Value = serde_json::from_str(line)?;
            let text = |field: &str| result.get(field).and_then(Value::as_str);
            let function = text("function_name").ok_or(CountsError::Missing { what: "function_name" })?;
            let kernel = text("id").map_or_else(|| function.to_owned(), |id| format!("{function} {id}"));
            let count = result.pointer("/profiles/0/data/total/metrics/Ir/values/new").and_then(Value::as_u64);
            match count.ok_or(CountsError::Missing { what: "Ir" })? {
                0 => return Err(CountsError::Nothing { kernel }),
                count => counts.insert(kernel, count),
            };
        }
        if counts.is_empty() { Err(CountsError::Missing { what: "benchmark" }) } else { Ok(Self { made_by, counts }) }
    }

    /// Compares all kernels of either side, `self` being the expectation.
    pub fn compare(&self, counted: &Self) -> Vec<CountChange> {
        let added = counted.counts.keys().filter(|kernel| !self.counts.contains_key(*kernel));
        let change = |kernel: &String| {
            let (expected, counted) = (self.counts.get(kernel).copied(), counted.counts.get(kernel).copied());
            CountChange { kernel: kernel.clone(), expected, counted, verdict: judge(expected, counted) }
        };
        self.counts.keys().chain(added).map(change).collect()
    }
}

const fn judge(expected: Option<u64>, counted: Option<u64>) -> Verdict {
    match (expected, counted) {
        (_, None) => Verdict::Gone,
        (None, _) => Verdict::New,
        (Some(expected), Some(counted)) if counted * 100 > expected * (100 + LIMIT) => Verdict::More,
        (Some(expected), Some(counted)) if counted * 100 < expected * (100 - LIMIT) => Verdict::Less,
        _ => Verdict::Same,
    }
}

impl fmt::Display for CountChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, expected, counted, verdict } = self;
        let show = |count: &Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        write!(f, "{kernel:<16} {:>12} -> {:>12}", show(expected), show(counted))?;
        if let (Some(expected), Some(counted)) = (expected, counted) {
            write!(f, " {:>+7.2} %", (*counted as f64 / *expected as f64 - 1.0) * 100.0)?;
        }
        f.write_str(match verdict {
            Verdict::Same => "",
            Verdict::More => "  FAILED: over the limit",
            Verdict::Less => "  cheaper than expected",
            Verdict::New => "  FAILED: not in the baseline",
            Verdict::Gone => "  FAILED: not counted",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> Counts {
        let counts = counts.iter().map(|(kernel, count)| ((*kernel).to_owned(), *count)).collect();
        Counts { made_by: "a compiler".into(), counts }
    }

    #[test]
    fn a_tenth_more_passes_and_anything_above_fails() {
        let expected = counts(&[("a", 1_000), ("b", 1_000), ("c", 1_000), ("d", 1_000), ("gone", 1)]);
        let counted = counts(&[("a", 1_100), ("b", 1_101), ("c", 900), ("d", 899), ("new", 1)]);
        let verdicts: Vec<_> = expected.compare(&counted).into_iter().map(|change| change.verdict).collect();
        let all = [Verdict::Same, Verdict::More, Verdict::Same, Verdict::Less, Verdict::Gone, Verdict::New];
        assert_eq!(verdicts, all);
        assert!(verdicts.iter().zip([0, 1, 0, 0, 1, 1]).all(|(verdict, fails)| verdict.fails() == (fails == 1)));
    }

    #[test]
    fn gungrauns_lines_are_read() {
        let line = |id: &str, count: u64| {
            let count = format!(r#"{{"data":{{"total":{{"metrics":{{"Ir":{{"values":{{"new":{count}}}}}}}}}}}}}"#);
            format!(r#"{{"function_name":"plan"{id},"profiles":[{count}]}}"#)
        };
        let lines = [line("", 5), String::new(), line(r#","id":"native""#, 7)].join("\n");
        let read = Counts::from_gungraun("a compiler".into(), &lines).expect("two counts");
        assert_eq!(read, counts(&[("plan", 5), ("plan native", 7)]));
        let read = |line: &str| Counts::from_gungraun(String::new(), line);
        assert!(matches!(read(&line("", 0)), Err(CountsError::Nothing { kernel }) if kernel == "plan"));
        assert!(matches!(read(""), Err(CountsError::Missing { .. })));
        assert!(matches!(read("{}"), Err(CountsError::Missing { .. })));
        assert!(matches!(read("instructions::frame"), Err(CountsError::Json(_))));
    }
}
