//! `phalanx localnet` with CometBFT, and with replicas: four validators under load, kill -9 of every kind of process, and a full restart.

use crate::{
    command::{phalanx, run},
    payers::{PAYERS, height, number, payer, payment},
    rpc::{ask, http},
};
use alloy_primitives::{B256, keccak256};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Time that anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Time for all kills, or for the first blocks after a restart, with the load of a client.
const DEADLINE: Duration = Duration::from_secs(240);

/// CometBFT, where CI and `setup` put it. Without it the test says so, and fails if it is required.
fn cometbft() -> Option<PathBuf> {
    let named = std::env::var_os("PHALANX_COMETBFT").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = std::env::var_os("PHALANX_CI_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| home.as_ref().map(|home| home.join(".cache/phalanx")));
    let places =
        [named, cache.map(|cache| cache.join("tools/bin/cometbft")), home.map(|home| home.join("go/bin/cometbft"))];
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).map(|folder| folder.join("cometbft")).collect::<Vec<_>>());
    let found = places.into_iter().flatten().chain(on_path).find(|path| path.is_file());
    if found.is_none() {
        let is_required = std::env::var_os("PHALANX_REQUIRE_COMETBFT").is_some();
        assert!(!is_required, "cometbft is missing: ./setup cometbft installs it");
        println!("skipped: cometbft is missing, ./setup cometbft installs it");
    }
    found
}

/// A running network.
struct Net {
    child: Child,
    rpc: Vec<SocketAddr>,
    comet: Vec<SocketAddr>,
    kills: Arc<AtomicU64>,
    /// Lines that the network has said since its start.
    said: Arc<Mutex<Vec<String>>>,
}

impl Net {
    fn start(folder: &Path, program: &Path, words: &str) -> Self {
        let mut command = phalanx(["localnet", "--rpc-port", "0", "--period", "100", "--folder"]);
        // Another version of CometBFT may need flags of its own.
        let more = std::env::var("PHALANX_LOCALNET_FLAGS").unwrap_or_default();
        command.arg(folder).arg("--cometbft").arg(program).args(words.split_whitespace()).args(more.split_whitespace());
        Self::run(command)
    }

    /// Starts a network whose validators have replicas of a protocol.
    fn of(protocol: &str, folder: &Path, words: &str) -> Self {
        let mut command = phalanx(["localnet", "--rpc-port", "0", "--consensus", protocol, "--folder"]);
        command.arg(folder).args(words.split_whitespace());
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let (mut rpc, mut comet) = (Vec::new(), Vec::new());
        for line in lines.by_ref() {
            let mut addresses = line.split("http://").skip(1).filter_map(|rest| {
                rest.split([' ', ',']).next().and_then(|address| address.parse::<SocketAddr>().ok())
            });
            rpc.extend(addresses.next());
            comet.extend(addresses.next());
            if line.starts_with("Ctrl-C") {
                break;
            }
        }
        if rpc.is_empty() {
            let mut why = String::new();
            child.stderr.take().expect("a pipe").read_to_string(&mut why).expect("text");
            panic!("the network does not start: {why}");
        }
        let kills = Arc::new(AtomicU64::new(0));
        let (counted, said) = (Arc::clone(&kills), Arc::<Mutex<Vec<String>>>::default());
        let saying = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines {
                println!("{line}");
                counted.fetch_add(u64::from(line.starts_with("kill ")), Ordering::SeqCst);
                saying.lock().expect("no panic").push(line);
            }
        });
        Self { child, rpc, comet, kills, said }
    }

    fn kills(&self) -> u64 {
        self.kills.load(Ordering::SeqCst)
    }

    /// The first line since the start with this beginning.
    fn said(&self, beginning: &str) -> Option<String> {
        self.said.lock().expect("no panic").iter().find(|line| line.starts_with(beginning)).cloned()
    }

    /// Presses Ctrl-C: the network ends in order.
    fn stop(mut self) {
        let sent =
            Command::new("kill").args(["-s", "INT", &self.child.id().to_string()]).status().expect("kill starts");
        assert!(sent.success());
        let mut why = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut why).expect("text");
        assert_eq!(self.child.wait().expect("a child").code(), Some(0), "{why}");
    }

    /// Fails with the network's own words if it has ended.
    fn check(&mut self) {
        if let Some(status) = self.child.try_wait().expect("a child") {
            let mut why = String::new();
            self.child.stderr.take().expect("a pipe").read_to_string(&mut why).expect("text");
            panic!("the network has ended with {status}: {why}");
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // After a failed assertion: the network takes its processes with it.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").args(["-s", "INT", &self.child.id().to_string()]).status();
            let _ = self.child.wait();
        }
    }
}

/// Asks until there is an answer.
fn wait<T>(what: &str, net: &mut Net, mut answer: impl FnMut(&Net) -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = answer(net) {
            return answer;
        }
        net.check();
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Commits that clients have seen: a block for every transaction, and the highest block.
struct Seen {
    blocks: BTreeMap<B256, Value>,
    height: u64,
    /// Time of the last progress.
    since: Instant,
}

impl Seen {
    fn new() -> Self {
        Self { blocks: BTreeMap::new(), height: 0, since: Instant::now() }
    }

    /// Sends the next transactions of every payer to one validator, and notes what another has committed. Fails if the chain
    /// stands still.
    fn round(&mut self, net: &mut Net, round: u64) {
        net.check();
        assert!(self.since.elapsed() < PATIENCE, "no block within {} s", PATIENCE.as_secs());
        let count = net.rpc.len() as u64;
        let (sends, shows) = (net.rpc[(round % count) as usize], net.rpc[(round / 3 % count) as usize]);
        for from in 0..PAYERS {
            let params = json!([payer(from), "latest"]);
            let Some(next) = ask(shows, "eth_getTransactionCount", &params).as_ref().and_then(number) else { return };
            for nonce in next..next + 5 {
                // A validator that was killed has forgotten its pool: what is not committed is sent again.
                let _ = ask(sends, "eth_sendRawTransaction", &json!([payment(from, nonce)]));
            }
            for nonce in next.saturating_sub(5)..next {
                let hash = keccak256(payment(from, nonce));
                if self.blocks.contains_key(&hash) {
                    continue;
                }
                if let Some(receipt) = ask(shows, "eth_getTransactionReceipt", &json!([hash])).filter(|r| !r.is_null())
                {
                    self.blocks.insert(hash, receipt["blockHash"].clone());
                }
            }
        }
        let now = height(shows).unwrap_or_default();
        if now > self.height {
            (self.height, self.since) = (now, Instant::now());
        }
    }

    /// Compares all validators at every height, and with everything that was seen.
    fn check(&self, net: &mut Net) -> u64 {
        let all = net.rpc.clone();
        for address in &all {
            wait("a validator catches up", net, |_| height(*address).filter(|height| *height >= self.height));
        }
        let block = |net: &mut Net, address: SocketAddr, at: u64| {
            let block =
                wait("a block", net, |_| ask(address, "eth_getBlockByNumber", &json!([format!("{at:#x}"), false])));
            (block["hash"].clone(), block["stateRoot"].clone())
        };
        for at in 1..=self.height {
            let first = block(net, all[0], at);
            assert!(first.0.is_string(), "block {at}");
            for address in &all[1..] {
                assert_eq!(block(net, *address, at), first, "block {at}");
            }
            if net.comet.is_empty() {
                continue;
            }
            // CometBFT's header of the next block has the root as the app hash: every validator has voted for it.
            let comet = net.comet[(at % net.comet.len() as u64) as usize];
            let app_hash = wait("a header", net, |_| {
                let get = format!("GET /header?height={} HTTP/1.1\r\nHost: comet\r\nConnection: close\r\n\r\n", at + 1);
                let body = http(comet, &get)?;
                // Go may send a body in chunks, whose lengths stand around it.
                let json = body.get(body.find('{')?..=body.rfind('}')?)?;
                let answer: Value = serde_json::from_str(json).ok()?;
                answer["result"]["header"]["app_hash"].as_str().map(|hash| format!("0x{}", hash.to_lowercase()))
            });
            assert_eq!(json!(app_hash), first.1, "block {at}");
        }
        for (hash, block) in &self.blocks {
            for address in &all {
                let receipt = wait("a receipt", net, |_| ask(*address, "eth_getTransactionReceipt", &json!([hash])));
                assert_eq!(receipt["blockHash"], *block, "transaction {hash}");
            }
        }
        self.height
    }
}

#[test]
fn four_validators_survive_kills_of_both_kinds_and_a_full_restart() {
    let Some(program) = cometbft() else { return };
    survive_kills(4, |folder, words| Net::start(folder, &program, words));
}

#[test]
fn four_validators_of_pbft_survive_kills_and_a_full_restart() {
    survive_kills(2, |folder, words| Net::of("pbft", folder, words));
}

#[test]
fn four_validators_of_sbft_survive_kills_and_a_full_restart() {
    survive_kills(2, |folder, words| Net::of("sbft", folder, words));
}

#[test]
fn four_validators_of_autobahn_survive_kills_and_a_full_restart() {
    survive_kills(2, |folder, words| Net::of("autobahn", folder, words));
}

fn survive_kills(kills: u64, start: impl Fn(&Path, &str) -> Net) {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (kills, every) = (number("PHALANX_KILLS", kills), number("PHALANX_KILL_MS", 1_500));
    let seed = number("PHALANX_SEED", 44);
    println!("{kills} kills, PHALANX_SEED={seed}");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut seen, mut round) = (Seen::new(), 0);
    let mut net = start(folder.path(), &format!("--kill {every} --seed {seed}"));
    assert!(net.rpc.len() == 4 && [0, 4].contains(&net.comet.len()));
    let mut heights = 0;
    // The load goes on until there were enough kills, and blocks since the last one.
    let begun = Instant::now();
    // A long run has its time for each kill.
    let deadline = DEADLINE * u32::try_from(kills.div_ceil(4).max(1)).expect("small");
    while net.kills() < kills || seen.blocks.len() < 20 {
        assert!(
            begun.elapsed() < deadline,
            "{} of {kills} kills and {} of 20 transactions at height {} within {} s",
            net.kills(),
            seen.blocks.len(),
            seen.height,
            deadline.as_secs()
        );
        seen.round(&mut net, round);
        round += 1;
    }
    let killed = net.kills();
    net.stop();
    for _ in 0..2 {
        let mut net = start(folder.path(), "");
        let before = seen.blocks.len();
        let begun = Instant::now();
        while seen.blocks.len() == before || seen.height <= heights {
            assert!(
                begun.elapsed() < DEADLINE,
                "restart: {} new transactions at height {}, which was {heights}, within {} s",
                seen.blocks.len() - before,
                seen.height,
                DEADLINE.as_secs()
            );
            seen.round(&mut net, round);
            round += 1;
        }
        heights = seen.check(&mut net);
        net.stop();
    }
    println!("{killed} kills, {heights} heights, {} transactions", seen.blocks.len());
}

#[test]
fn transactions_reach_the_pools_of_all_validators() {
    let Some(program) = cometbft() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut net = Net::start(folder.path(), &program, "");
    let all = net.rpc.clone();
    // Blocks come once validators have found each other: a mempool may tell of a transaction only once.
    for address in &all {
        wait("blocks", &mut net, |_| height(*address).filter(|height| *height > 3));
    }
    // It waits for the one before, so no block takes it out of a pool.
    let [first, second] = [0, 1].map(|nonce| payment(0, nonce));
    wait("a node takes it", &mut net, |_| ask(all[0], "eth_sendRawTransaction", &json!([second])));
    for address in &all {
        wait("it is in the pool", &mut net, |_| {
            let queued = ask(*address, "txpool_status", &json!([]))?["queued"].clone();
            (queued == json!("0x1")).then_some(())
        });
    }
    wait("another node takes the first", &mut net, |_| ask(all[3], "eth_sendRawTransaction", &json!([first])));
    for address in &all {
        for tx in [&first, &second] {
            let receipt = wait("a receipt", &mut net, |_| {
                ask(*address, "eth_getTransactionReceipt", &json!([keccak256(tx)])).filter(|receipt| !receipt.is_null())
            });
            assert_eq!(receipt["status"], json!("0x1"));
        }
    }
    net.stop();
}

/// Validators of the groups in a line of the network: `partition 3: validators 0 2 | 1 3`.
fn groups(line: &str) -> [Vec<usize>; 2] {
    let (first, second) = line.split_once("validators ").expect("groups").1.split_once(" | ").expect("two groups");
    [first, second].map(|group| group.split(' ').map(|place| place.parse().expect("a number")).collect())
}

#[test]
fn partitions_stop_the_minority_alone_and_every_validator_catches_up() {
    let Some(program) = cometbft() else { return };
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (partitions, seed) = (number("PHALANX_PARTITIONS", 2), number("PHALANX_SEED", 3));
    println!("{partitions} partitions, PHALANX_SEED={seed}");
    let folder = tempfile::tempdir().expect("a folder");
    let mut net = Net::start(folder.path(), &program, &format!("--partition 6000 --seed {seed}"));
    let (mut seen, mut round, mut stopped) = (Seen::new(), 0, 0);
    for partition in 1..=partitions {
        let begun = Instant::now();
        let line = loop {
            if let Some(line) = net.said(&format!("partition {partition}: ")) {
                break line;
            }
            assert!(begun.elapsed() < DEADLINE, "no partition {partition} at height {}", seen.height);
            seen.round(&mut net, round);
            round += 1;
        };
        // What was under way has come through by now.
        std::thread::sleep(Duration::from_millis(1_500));
        let minority: Vec<usize> = groups(&line).into_iter().filter(|group| 3 * group.len() <= 8).flatten().collect();
        let heights = |net: &Net| minority.iter().map(|place| height(net.rpc[*place])).collect::<Vec<_>>();
        let before = heights(&net);
        std::thread::sleep(Duration::from_millis(2_000));
        let after = heights(&net);
        if net.said(&format!("partition {partition} heals")).is_none() {
            assert_eq!(before, after, "{line}: a group of no more than two thirds makes no block");
            stopped += 1;
        }
        wait("the partition heals", &mut net, |net| net.said(&format!("partition {partition} heals")));
    }
    assert!(stopped > 0, "the machine was too slow to look at a partition");
    // The last one has healed: blocks come everywhere.
    let before = seen.blocks.len();
    let begun = Instant::now();
    while seen.blocks.len() <= before {
        assert!(begun.elapsed() < DEADLINE, "no new transaction at height {}", seen.height);
        seen.round(&mut net, round);
        round += 1;
    }
    let heights = seen.check(&mut net);
    println!("{stopped} partitions stood still, {heights} heights, {} transactions", seen.blocks.len());
    net.stop();
}

#[test]
fn a_fifth_node_joins_by_state_sync() {
    let Some(program) = cometbft() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut net = Net::start(folder.path(), &program, "--join --snapshot-every 10");
    let (mut seen, mut round) = (Seen::new(), 0);
    let begun = Instant::now();
    let line = loop {
        if let Some(line) = net.said("joined at block ") {
            break line;
        }
        assert!(begun.elapsed() < DEADLINE, "nothing has joined at height {}", seen.height);
        seen.round(&mut net, round);
        round += 1;
    };
    let address = |scheme: &str| {
        let rest = line.split(scheme).nth(1).expect("an address");
        rest.split([' ', ',']).next().expect("an address").parse::<SocketAddr>().expect("an address")
    };
    let joined = address("JSON-RPC at http://");
    // Its first block is not the chain's: what lies before is pruned.
    let first = wait("the first block behind the snapshot", &mut net, |_| {
        number(&ask(joined, "eth_getBlockByNumber", &json!(["earliest", false]))?["number"])
    });
    assert!(first > 10 && first % 10 == 1, "block {first} comes after a snapshot");
    assert_eq!(ask(joined, "eth_getBlockByNumber", &json!(["0x1", false])), None, "an error");
    let target = seen.height + 5;
    while seen.height < target {
        assert!(begun.elapsed() < DEADLINE, "no blocks at height {}", seen.height);
        seen.round(&mut net, round);
        round += 1;
    }
    wait("it follows the chain", &mut net, |_| height(joined).filter(|height| *height >= target));
    let other = net.rpc[0];
    for at in first..=target {
        let params = json!([format!("{at:#x}"), true]);
        let theirs = wait("a block", &mut net, |_| ask(other, "eth_getBlockByNumber", &params));
        let ours = wait("a block", &mut net, |_| ask(joined, "eth_getBlockByNumber", &params));
        assert_eq!(ours, theirs, "block {at}");
    }
    for from in 0..PAYERS {
        let params = json!([payer(from), format!("{target:#x}")]);
        let [ours, theirs] =
            [joined, other].map(|at| wait("a balance", &mut net, |_| ask(at, "eth_getBalance", &params)));
        assert_eq!(ours, theirs, "{params}");
    }
    // Its transactions reach the validators, and a restart goes on without another snapshot.
    seen.check(&mut net);
    net.stop();
    let mut net = Net::start(folder.path(), &program, "--join --snapshot-every 10");
    let line = wait("it is back", &mut net, |net| net.said("joined at block "));
    let rest = line.split("JSON-RPC at http://").nth(1).expect("an address");
    let joined: SocketAddr = rest.split([' ', ',']).next().expect("an address").parse().expect("an address");
    wait("it follows the chain", &mut net, |_| height(joined).filter(|height| *height > target + 3));
    let again = wait("a block", &mut net, |_| {
        number(&ask(joined, "eth_getBlockByNumber", &json!(["earliest", false]))?["number"])
    });
    assert_eq!(again, first);
    net.stop();
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_ctrl_c_ends_all_processes_at_once() {
    let Some(program) = cometbft() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut net = Net::start(folder.path(), &program, "--validators 1");
    let place = folder.path().to_str().expect("text").to_owned();
    let parent = net.child.id();
    let is_child = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        *id != parent && String::from_utf8_lossy(&line).contains(&place)
    };
    // Between its fork and its exec a process has no command line of its own.
    let deadline = Instant::now() + PATIENCE;
    let children = loop {
        let entries = std::fs::read_dir("/proc").expect("a list of processes");
        let all = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let children: Vec<_> = all.filter(&is_child).collect();
        if children.len() == 2 {
            break children;
        }
        assert!(Instant::now() < deadline, "a node and its CometBFT: {children:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let send = |signal: &str, id: u32| Command::new("kill").args(["-s", signal, &id.to_string()]).status();
    // Processes that do not end in order: the network waits for them until it is asked again.
    for id in &children {
        assert!(send("STOP", *id).expect("kill starts").success());
    }
    let begun = Instant::now();
    let status = loop {
        let _ = send("INT", parent);
        std::thread::sleep(Duration::from_millis(100));
        if let Some(status) = net.child.try_wait().expect("a child") {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it goes on");
    };
    assert_eq!(status.code(), Some(130));
    // The system ends a process some time after the call. One that has ended has no command line.
    while children.iter().any(&is_child) {
        assert!(begun.elapsed() < PATIENCE, "a process is left of {children:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn networks_that_cannot_be_made_are_refused() {
    run("localnet --cometbft /nowhere/cometbft").refused(2, "go install");
    run("localnet --cometbft true").refused(2, "v0.38 to v0.40 are known");
    let Some(program) = cometbft() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let line = |words: &str| {
        format!("localnet --folder {} --cometbft {} --rpc-port 0 {words}", folder.path().display(), program.display())
    };
    let mut child = phalanx(line("--validators 1").split_whitespace()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("Ctrl-C")), "one validator is a network");
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
    assert_eq!(child.wait().expect("a child").code(), Some(0));
    run(&line("--validators 2")).refused(2, "another number of validators");
    run(&line("--validators 1 --chain-id 7")).refused(2, "another chain id");
    run(&line("--validators 1 --accounts 1")).refused(2, "other accounts");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let line = line("--validators 1").replace("--rpc-port 0", &format!("--rpc-port {port}"));
    run(&line).refused(2, &format!("cannot listen on 127.0.0.1:{port}"));
}
