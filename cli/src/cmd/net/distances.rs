//! Distances between replicas.

use phalanx_lab::error::Usage;
use std::path::PathBuf;

/// Round-trip times between Autobahn's four regions, in ms: us-east1, us-east5, us-west1, us-west4 (Table 1 of the paper).
const AUTOBAHN: [[f64; 4]; 4] =
    [[0.5, 19.0, 64.0, 55.0], [19.0, 0.5, 50.0, 57.0], [64.0, 50.0, 0.5, 28.0], [55.0, 57.0, 28.0, 0.5]];

/// Distances between replicas.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Distances {
    /// None.
    Local,
    /// Replica `i` is in region `i` modulo 4.
    Autobahn4,
    /// A table in a file.
    File(PathBuf),
}

impl Distances {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "local" => Self::Local,
            "autobahn4" => Self::Autobahn4,
            "" => return Err("neither local, autobahn4 nor a file".into()),
            path => Self::File(path.into()),
        })
    }

    /// Delays in one direction, in µs; empty for none.
    pub(crate) fn delays(&self, n: usize) -> Result<Vec<Vec<u64>>, Usage> {
        let rtt = |from: usize, to: usize, ms: f64| if from == to { 0 } else { (ms * 500.0).round() as u64 };
        match self {
            Self::Local => Ok(Vec::new()),
            Self::Autobahn4 => {
                let row = |from: usize| (0..n).map(|to| rtt(from, to, AUTOBAHN[from % 4][to % 4])).collect();
                Ok((0..n).map(row).collect())
            }
            Self::File(path) => {
                let wrong = |why: String| Usage(format!("{}: {why}", path.display()));
                let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
                let table: Vec<Vec<f64>> = serde_json::from_slice(&text)
                    .map_err(|error| wrong(format!("not a table of round-trip times in ms: {error}")))?;
                if table.len() != n || table.iter().any(|row| row.len() != n) {
                    return Err(wrong(format!("the table must have {n} rows of {n} round-trip times")));
                }
                if let Some(ms) = table.iter().flatten().find(|ms| !(0.0..=60_000.0).contains(*ms)) {
                    return Err(wrong(format!("{ms} is no round-trip time between 0 and 60000 ms")));
                }
                let delays = table.iter().enumerate();
                let delays =
                    delays.map(|(from, row)| row.iter().enumerate().map(|(to, ms)| rtt(from, to, *ms)).collect());
                Ok(delays.collect())
            }
        }
    }
}

impl core::fmt::Display for Distances {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Autobahn4 => f.write_str("autobahn4"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}
