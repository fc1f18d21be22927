//! Commands of this program in processes of their own, and the JSON that they write to stdout.

use crate::exit;
use anyhow::Context as _;
use phalanx_lab::ui::Ui;
use serde_json::{Deserializer, Value};
use std::{
    process::{Command, Output, Stdio},
    sync::mpsc::{RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// Time between two looks at the clock and at the user's wish to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Time that a command gets to end in order.
const PATIENCE: Duration = Duration::from_secs(10);

/// Outcome of a command.
#[derive(Debug)]
pub(super) enum Written {
    /// Output of the program: one value, or one per line.
    Values(Vec<Value>),
    /// The program failed.
    Failed {
        /// The command, its ending and what it said.
        why: String,
        /// Exit code; `None` if a signal ended it.
        code: Option<i32>,
    },
    /// The program was stopped, by the user or at `end`.
    Stopped,
}

/// Runs this program with `words`, until `end` at the latest.
pub(super) fn written(words: &[String], end: Option<Instant>, ui: &Ui) -> anyhow::Result<Written> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().context("starting a command")?;
    let (id, (sender, receiver)) = (child.id(), sync_channel(1));
    let waits = thread::spawn(move || _ = sender.send(child.wait_with_output()));
    let mut asked: Option<Instant> = None;
    let output = loop {
        match receiver.recv_timeout(LOOK) {
            Ok(output) => break output.context("waiting for a command")?,
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("no thread waits for the command"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let is_late = end.is_some_and(|end| Instant::now() >= end);
        match asked {
            None if is_late || ui.stopped() => {
                signal("TERM", id);
                asked = Some(Instant::now());
            }
            Some(since) if since.elapsed() > PATIENCE => signal("KILL", id),
            _ => {}
        }
    };
    _ = waits.join();
    Ok(if asked.is_some() { Written::Stopped } else { read(words, &output) })
}

fn read(words: &[String], output: &Output) -> Written {
    let values: Result<Vec<Value>, _> = Deserializer::from_slice(&output.stdout).into_iter().collect();
    match values {
        Ok(values) if output.status.success() => Written::Values(values),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            // A refused flag is named first, and followed by hints.
            let mut lines = said.lines();
            let line = if output.status.code() == Some(exit::USAGE.into()) { lines.next() } else { lines.last() };
            let line = line.unwrap_or("without a word");
            let why = format!("`phalanx {}` ended with {}: {line}", words.join(" "), output.status);
            Written::Failed { why, code: output.status.code() }
        }
    }
}

/// Sends a signal. The shell has the call, which would be unsafe code here.
fn signal(name: &str, id: u32) {
    _ = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status();
}
