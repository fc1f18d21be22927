//! Runs the binary and reads its output.

use serde_json::Value;
use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code; `None` if a signal ended the command.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command that is not started yet, with captured streams and an empty stdin.
pub(crate) fn phalanx<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs `phalanx` with the words of `line`, which must have no blanks in them.
pub(crate) fn run(line: &str) -> Ended {
    end(phalanx(line.split_whitespace()))
}

/// Runs a command to its end. It must not panic, and must not draw without a terminal.
pub(crate) fn end(mut command: Command) -> Ended {
    let output = command.output().expect("the binary starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    let ended = Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
    for stream in [&ended.stdout, &ended.stderr] {
        assert!(!stream.contains("panicked"), "{command:?}: {ended:?}");
        assert!(!stream.contains('\u{1b}'), "{command:?}: {ended:?}");
    }
    ended
}

impl Ended {
    /// The one JSON value on stdout of a successful command.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.only_json()
    }

    /// The one JSON value on stdout, however the command ended.
    #[track_caller]
    pub(crate) fn only_json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON value: {error}: {self:?}"))
    }

    /// Checks a refused command: nothing on stdout, and the words `says` on stderr.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, says: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert!(self.stderr.contains(says), "not in stderr: {says:?}: {self:?}");
    }
}

/// Checks that every run of a `bench` result succeeded and equals the oracle; returns the roots.
#[track_caller]
pub(crate) fn all_match(result: &Value, txs: u64) -> Vec<String> {
    let runs = result["runs"].as_array().expect("runs");
    assert!(!runs.is_empty(), "{result}");
    runs.iter()
        .map(|run| {
            assert_eq!(run["integrity"]["oracle"], "match", "{run}");
            let counts = ["succeeded", "reverted", "invalid"].map(|count| run["throughput"][count].as_u64());
            assert_eq!(counts, [Some(txs), Some(0), Some(0)], "{run}");
            run["integrity"]["state_root"].as_str().expect("a root").to_owned()
        })
        .collect()
}

/// Stores on disk of this build, as prefixes of `--store`.
pub(crate) const fn disk_stores() -> &'static [&'static str] {
    if cfg!(feature = "rocksdb") { &["file", "rocks"] } else { &["file"] }
}
