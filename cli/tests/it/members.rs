//! `phalanx members`: a member of a running network is replaced, by processes of their own.

use crate::command::{Ended, phalanx, run};
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// Patience with a process, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A replica as a process.
struct Replica {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Replica {
    fn start(config: &Path, index: usize) -> Self {
        let words = ["replica", "--config", config.to_str().expect("UTF-8"), "--control", "--index"];
        let mut command = phalanx(words.into_iter().map(String::from).chain([index.to_string()]));
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let (output, (sender, lines)) = (BufReader::new(child.stdout.take().expect("piped")), channel());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap_or(Value::Null));
            }
        });
        Self { input: child.stdin.take(), child, lines }
    }

    /// Waits for a line that has this field.
    fn line(&self, field: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line with {field}"));
            if let Some(value) = line.get(field) {
                return value.clone();
            }
        }
    }

    fn epoch(&mut self) -> u64 {
        writeln!(self.input.as_mut().expect("open"), "status").expect("it reads");
        self.line("status")["epoch"].as_u64().expect("a number")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Operators(tempfile::TempDir);

impl Operators {
    fn of(&self, index: usize, file: &str) -> String {
        self.0.path().join(format!("operator-{index}")).join(file).display().to_string()
    }

    fn shared(&self, file: &str) -> PathBuf {
        self.0.path().join("net").join(file)
    }

    fn with(&self, command: &str, network: &str, more: &str) -> Ended {
        run(&format!("{command} --config {} {more}", self.shared(network).display()))
    }

    fn approvals(&self, members: core::ops::Range<usize>) -> String {
        let path = |of: usize| self.shared(&format!("approval-1-{of}.json"));
        members.map(|of| format!(" --approval {}", path(of).display())).collect()
    }
}

#[test]
fn a_member_of_a_running_network_is_replaced() {
    let operators = Operators(tempfile::tempdir().expect("a folder"));
    let mut members = String::new();
    for index in 0..5 {
        let (dir, port) = (operators.of(index, ""), 10_500 + 2 * index);
        let line = format!("keys new --dir {dir} --peers 127.0.0.1:{port} --clients 127.0.0.1:{}", port + 1);
        assert_eq!(run(&line).code, Some(0));
        if index < 4 {
            members.push_str(&format!(" --member {}", operators.of(index, "public.json")));
        }
    }
    let shared = operators.shared("");
    assert_eq!(run(&format!("net --seconds 0 --dir {}{members}", shared.display())).code, Some(0));
    let secret = |index: usize| format!("--secret {}", operators.of(index, "secret.json"));
    for index in 0..4 {
        assert_eq!(operators.with("keys join", "network.json", &secret(index)).code, Some(0));
    }
    let config = operators.shared("network.json");
    let mut replicas: Vec<Replica> = (0..4).map(|index| Replica::start(&config, index)).collect();
    replicas.iter().for_each(|replica| drop(replica.line("ready")));
    let leaver = format!("--replace 3={}", operators.of(4, "public.json"));
    operators.with("members propose", "network.json", &format!("{leaver} --remove 3")).refused(2, "named twice");
    operators.with("members propose", "network.json", "--remove 0 --remove 1 --remove 2").refused(2, "");
    let proposed = operators.with("members propose", "network.json", &leaver);
    assert_eq!((proposed.code, proposed.json()["epoch"].as_u64()), (Some(0), Some(1)), "{proposed:?}");
    for index in [0, 1, 2, 4] {
        let ended = operators.with("keys join", "network-1.json", &secret(index));
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    operators.with("members sign", "network.json", &secret(4)).refused(2, "no member");
    for index in 0..3 {
        assert_eq!(operators.with("members sign", "network.json", &secret(index)).code, Some(0));
    }
    let submit = |approvals: core::ops::Range<usize>| {
        operators.with("members submit", "network.json", &format!("--wait 300{}", operators.approvals(approvals)))
    };
    submit(0..2).refused(2, "2 members signed the change, and 3 have to");
    // The leader is killed, and comes back with the flags that it was started with.
    replicas[0].child.kill().expect("it runs");
    replicas[0] = Replica::start(&config, 0);
    let submitted = submit(0..3);
    assert_eq!((submitted.code, submitted.json()["epoch"].as_u64()), (Some(0), Some(1)), "{submitted:?}");
    let left = replicas.pop().expect("four").child.wait().expect("it ends");
    assert!(left.success(), "who leaves ends");
    replicas.push(Replica::start(&operators.shared("network-1.json"), 3));
    for (index, replica) in replicas.iter_mut().enumerate() {
        let mut epoch = 0;
        while epoch == 0 {
            drop(replica.line("ready"));
            epoch = replica.epoch();
        }
        assert_eq!(epoch, 1, "replica {index}");
    }
}
