//! A child process with a log of its own.

use crate::children;
use anyhow::Context as _;
use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Time that a process gets to end in order.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(in crate::cmd) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command, whose output goes to the end of a log.
    pub(in crate::cmd) fn start(command: &mut Command, log: PathBuf) -> anyhow::Result<Self> {
        let open = || File::options().create(true).append(true).open(&log);
        let (out, err) = (open(), open());
        let (out, err) = out.and_then(|out| Ok((out, err?))).with_context(|| format!("making {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        // Ctrl-C is for this program: it stops its processes in order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let child =
            children::start(command).with_context(|| format!("starting {}", command.get_program().display()))?;
        Ok(Self { child, log })
    }

    /// Number of the process.
    pub(in crate::cmd) fn id(&self) -> u32 {
        self.child.id()
    }

    /// True while the process runs.
    pub(in crate::cmd) fn runs(&mut self) -> bool {
        let runs = matches!(self.child.try_wait(), Ok(None));
        if !runs {
            children::forget(&self.child);
        }
        runs
    }

    /// Reason of a process that has ended by itself: its exit code, and the last line of its log.
    pub(in crate::cmd) fn last_words(&mut self) -> String {
        let status = self.child.try_wait().ok().flatten().map_or_else(String::new, |status| status.to_string());
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        format!("{status}: {} (log: {})", text.lines().last().unwrap_or("without a word"), self.log.display())
    }

    /// Exit code of a process that has ended.
    pub(in crate::cmd) fn code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten()?.code()
    }

    /// Kill -9.
    pub(in crate::cmd) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        children::forget(&self.child);
    }

    /// Asks the process to end. The shell has the call, which would be unsafe code here.
    pub(in crate::cmd) fn ask_to_end(&self) {
        let _ = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.id())]).status();
    }

    /// Waits until a process that was asked to has ended. One that does not is killed.
    pub(in crate::cmd) fn end(mut self) {
        let end = Instant::now() + PATIENCE;
        while self.runs() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
