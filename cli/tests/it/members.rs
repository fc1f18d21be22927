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

/// Operators of four members and one more, each with keys of its own.
struct Operators(tempfile::TempDir);

impl Operators {
    /// Makes a network of the first four, at ports from this one.
    fn new(port: usize, more: &str) -> Self {
        let operators = Self(tempfile::tempdir().expect("a folder"));
        let mut members = String::new();
        for index in 0..5 {
            let (dir, port) = (operators.of(index, ""), port + 2 * index);
            let line = format!("keys new --dir {dir} --peers 127.0.0.1:{port} --clients 127.0.0.1:{}", port + 1);
            assert_eq!(run(&line).code, Some(0));
            if index < 4 {
                members.push_str(&format!(" --member {}", operators.of(index, "public.json")));
            }
        }
        let shared = operators.shared("");
        let ended = run(&format!("net --seconds 0 --dir {}{members} {more}", shared.display()));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        operators.join("network.json", &[0, 1, 2, 3]);
        operators
    }

    fn of(&self, index: usize, file: &str) -> String {
        self.0.path().join(format!("operator-{index}")).join(file).display().to_string()
    }

    fn shared(&self, file: &str) -> PathBuf {
        self.0.path().join("net").join(file)
    }

    fn with(&self, command: &str, network: &str, more: &str) -> Ended {
        run(&format!("{command} --config {} {more}", self.shared(network).display()))
    }

    fn secret(&self, index: usize) -> String {
        format!("--secret {}", self.of(index, "secret.json"))
    }

    fn join(&self, network: &str, members: &[usize]) {
        for index in members {
            let ended = self.with("keys join", network, &self.secret(*index));
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
    }

    /// Flag that has the fifth operator take the last member's place.
    fn replacement(&self) -> String {
        format!("--replace 3={}", self.of(4, "public.json"))
    }

    fn approvals(&self, members: core::ops::Range<usize>) -> String {
        let path = |of: usize| self.shared(&format!("approval-1-{of}.json"));
        members.map(|of| format!(" --approval {}", path(of).display())).collect()
    }

    /// Proposes and signs the replacement.
    fn agree(&self) {
        let proposed = self.with("members propose", "network.json", &self.replacement());
        assert_eq!((proposed.code, proposed.json()["epoch"].as_u64()), (Some(0), Some(1)), "{proposed:?}");
        self.join("network-1.json", &[0, 1, 2, 4]);
        for index in 0..3 {
            assert_eq!(self.with("members sign", "network.json", &self.secret(index)).code, Some(0));
        }
    }

    fn submit(&self, approvals: core::ops::Range<usize>) -> Ended {
        self.with("members submit", "network.json", &format!("--wait 300{}", self.approvals(approvals)))
    }
}

#[test]
fn a_member_of_a_running_network_is_replaced() {
    let operators = Operators::new(10_500, "");
    let config = operators.shared("network.json");
    let mut replicas: Vec<Replica> = (0..4).map(|index| Replica::start(&config, index)).collect();
    replicas.iter().for_each(|replica| drop(replica.line("ready")));
    let twice = format!("{} --remove 3", operators.replacement());
    operators.with("members propose", "network.json", &twice).refused(2, "named twice");
    operators.with("members propose", "network.json", "--remove 0 --remove 1 --remove 2").refused(2, "");
    operators.agree();
    operators.with("members sign", "network.json", &operators.secret(4)).refused(2, "no member");
    operators.submit(0..2).refused(2, "2 members signed the change, and 3 have to");
    // The leader is killed, and comes back with the flags that it was started with.
    replicas[0].child.kill().expect("it runs");
    replicas[0] = Replica::start(&config, 0);
    let submitted = operators.submit(0..3);
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

#[cfg(feature = "node")]
mod nodes {
    //! The same where each member is a node with JSON-RPC.

    use super::{Operators, PATIENCE};
    use crate::{
        command::phalanx,
        payers::{PAYERS, payer, payment},
        rpc::ask,
    };
    use alloy_primitives::keccak256;
    use serde_json::{Map, Value, json};
    use std::{
        net::SocketAddr,
        path::Path,
        process::{Child, Stdio},
        thread,
        time::{Duration, Instant},
    };

    /// A node as a process.
    struct Node {
        child: Child,
        rpc: SocketAddr,
    }

    impl Node {
        fn start(network: &Path, genesis: &str, index: usize, port: u16) -> Self {
            let rpc = SocketAddr::from(([127, 0, 0, 1], port));
            let line = format!("node --consensus pbft --genesis {genesis} --index {index} --rpc {rpc} --network");
            let mut command = phalanx(line.split_whitespace());
            let child = command.arg(network).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            Self { child, rpc }
        }
    }

    impl Drop for Node {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Has each payer's transaction with this nonce executed, and returns its receipts, which all nodes agree about.
    fn pay(nodes: &[Node], nonce: u64) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            for from in 0..PAYERS {
                // A node between two epochs does not answer, and forgets its pool.
                let to = &nodes[(from + nonce) as usize % nodes.len()];
                let _ = ask(to.rpc, "eth_sendRawTransaction", &json!([payment(from, nonce)]));
            }
            let found: Option<Vec<Vec<Value>>> = nodes.iter().map(|node| receipts(node, nonce)).collect();
            if let Some([first, others @ ..]) = found.as_deref() {
                others.iter().for_each(|other| assert_eq!(other, first, "nonce {nonce}"));
                return first.clone();
            }
            assert!(begun.elapsed() < PATIENCE, "the transactions with nonce {nonce} are not in a block");
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn receipts(node: &Node, nonce: u64) -> Option<Vec<Value>> {
        let receipt = |from| ask(node.rpc, "eth_getTransactionReceipt", &json!([keccak256(payment(from, nonce))]));
        (0..PAYERS).map(|from| receipt(from).filter(|receipt| !receipt.is_null())).collect()
    }

    #[test]
    fn a_member_of_a_chain_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let genesis = folder.path().join("genesis.json").display().to_string();
        let alloc: Map<String, Value> =
            (0..PAYERS).map(|of| (payer(of).to_string(), json!({ "balance": "0xde0b6b3a7640000" }))).collect();
        let mut config =
            json!({ "chainId": 1337, "shanghaiTime": 0, "terminalTotalDifficulty": 0, "phalanxFixedBaseFee": true });
        for fork in
            "homestead eip150 eip155 eip158 byzantium constantinople petersburg istanbul berlin london".split(' ')
        {
            config[format!("{fork}Block")] = json!(0);
        }
        let chain = json!({ "config": config, "gasLimit": "0x1c9c380", "difficulty": "0x0", "timestamp": "0x1",
            "baseFeePerGas": "0x7", "alloc": alloc });
        std::fs::write(&genesis, chain.to_string()).expect("it is written");
        let operators = Operators::new(10_520, &format!("--protocol pbft --genesis {genesis}"));
        let (first, next) = (operators.shared("network.json"), operators.shared("network-1.json"));
        let start = |index: usize| Node::start(&first, &genesis, index, 10_540 + index as u16);
        let join = || Node::start(&next, &genesis, 3, 10_544);
        let mut nodes: Vec<Node> = (0..4).map(start).collect();
        let before = pay(&nodes, 0);
        operators.agree();
        let submitted = operators.submit(0..3);
        assert_eq!((submitted.code, submitted.json()["epoch"].as_u64()), (Some(0), Some(1)), "{submitted:?}");
        assert!(nodes.pop().expect("four").child.wait().expect("it ends").success(), "who leaves ends");
        nodes.push(join());
        let after = pay(&nodes, 1);
        // All are killed; those who stay start with the flags that they were started with.
        nodes.clear();
        nodes.extend((0..3).map(start).chain([join()]));
        pay(&nodes, 2);
        for node in &nodes[..3] {
            assert_eq!(receipts(node, 0).as_ref(), Some(&before), "in the epoch before");
            assert_eq!(receipts(node, 1).as_ref(), Some(&after));
        }
    }
}
