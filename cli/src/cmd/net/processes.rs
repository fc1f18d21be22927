//! Replicas as child processes, and connections with them.

use anyhow::Context as _;
use phalanx_net::{Client, ClientSender, Reply, Request};
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

/// Patience with a replica that starts: it may replay a long log.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running replica. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lines: Receiver<Value>,
    stderr: PathBuf,
    began: Instant,
    listens: bool,
    sender: Option<ClientSender>,
}

impl Process {
    /// Starts replica `index` of the network in `config`.
    pub(crate) fn start(config: &Path, index: usize, stderr: PathBuf) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let log = File::options().create(true).append(true).open(&stderr);
        let log = log.with_context(|| format!("making {}", stderr.display()))?;
        let mut command = Command::new(program);
        command.arg("replica").arg("--config").arg(config).args(["--index", &index.to_string(), "--control"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        // Ctrl-C is for this program: it stops its replicas in order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().with_context(|| format!("starting replica {index}"))?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || read(stdout, &sender));
        }
        Ok(Self { child, lines, stderr, began: Instant::now(), listens: false, sender: None })
    }

    /// Follows a replica from a height on, once it listens, and again once it has joined by a snapshot. Returns true when that has just
    /// begun.
    ///
    /// # Errors
    /// The replica does not start.
    pub(crate) fn follow(
        &mut self,
        (index, address): (usize, SocketAddr),
        from: u64,
        replies: &Sender<(usize, Reply)>,
    ) -> anyhow::Result<bool> {
        if !self.lines.try_iter().any(|line| line.get("ready").is_some()) {
            if !self.listens && self.began.elapsed() > PATIENCE {
                anyhow::bail!("replica {index} does not start: {}", self.last_words());
            }
            return Ok(false);
        }
        self.listens = true;
        let mut client = Client::connect(address, PATIENCE).context("connecting as a client")?;
        let mut sender = client.sender()?;
        sender.send(&Request::Follow(from))?;
        self.sender = Some(sender);
        let replies = replies.clone();
        thread::spawn(move || {
            while let Ok(reply) = client.receive() {
                if replies.send((index, reply)).is_err() {
                    return;
                }
            }
        });
        Ok(true)
    }

    /// Returns true if the replica has begun to listen.
    pub(crate) const fn listens(&self) -> bool {
        self.listens
    }

    /// Sends a request. A replica that is gone takes none.
    pub(crate) fn send(&mut self, request: &Request) {
        if let Some(sender) = &mut self.sender
            && sender.send(request).is_err()
        {
            self.sender = None;
        }
    }

    /// Gives the replica a command.
    pub(crate) fn command(&mut self, line: &str) {
        if let Some(stdin) = &mut self.child.stdin {
            // A replica that is gone takes none.
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    /// Stops or resumes the process, with the signal STOP or CONT. The shell has the call, which would be unsafe code here.
    pub(crate) fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let line = format!("kill -{signal} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &line]).status().with_context(|| format!("running {line}"))?;
        anyhow::ensure!(status.success(), "{line} ended with {status}");
        Ok(())
    }

    /// Kill -9.
    pub(crate) fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The reason of a replica that has ended by itself.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("it ended with {status}: {}", self.last_words()))
    }

    /// Stops the replica, and returns its last status.
    ///
    /// # Errors
    /// It does not end, ends with a failure, or tells no status.
    pub(crate) fn stop(mut self) -> anyhow::Result<Value> {
        self.command("stop");
        let end = Instant::now() + PATIENCE;
        let mut last = None;
        while let Ok(mut line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            last = line.get_mut("status").map(Value::take).or(last);
        }
        // A replica that has closed its output ends at once; one that hangs is killed when this is dropped.
        let status = loop {
            match self.child.try_wait().context("waiting for it to end")? {
                Some(status) => break status,
                None if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
                None => anyhow::bail!("it does not stop within {} s: {}", PATIENCE.as_secs(), self.last_words()),
            }
        };
        anyhow::ensure!(status.success(), "it ended with {status}: {}", self.last_words());
        last.context("it ended and told no status")
    }

    /// The last line that the replica wrote to stderr.
    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.stderr).unwrap_or_default();
        text.lines().last().unwrap_or("without a word").to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines of JSON until the process ends.
fn read(stdout: ChildStdout, lines: &Sender<Value>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Ok(value) = serde_json::from_str(&line)
            && lines.send(value).is_err()
        {
            return;
        }
    }
}
