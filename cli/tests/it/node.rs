//! `phalanx node` as a process: it starts, answers, ends in order, and continues; wrong flags say why.

use crate::command::{phalanx, run};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command},
};

/// Starts a node and returns its address.
pub(crate) fn start(words: &str) -> (Child, String) {
    let mut child = phalanx(format!("node --rpc 127.0.0.1:0 {words}").split_whitespace()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let address = lines.find_map(|line| {
        let line = line.expect("text");
        let rest = line.strip_prefix("JSON-RPC at http://")?;
        rest.split_whitespace().next().map(str::to_owned)
    });
    (child, address.expect("the address is printed"))
}

fn ask(address: &str, method: &str) -> String {
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":[]}}");
    let mut stream = TcpStream::connect(address).expect("a connection");
    let len = body.len();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Ends a node by a signal; it ends in order.
pub(crate) fn stop(mut child: Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
    assert_eq!(child.wait().expect("a child").code(), Some(0));
}

#[test]
fn a_node_answers_ends_in_order_and_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = format!("--dev --datadir {} --blocks 20ms --log off --chain-id 99", folder.path().display());
    let (child, address) = start(&words);
    assert!(ask(&address, "eth_chainId").contains("\"0x63\""));
    while ask(&address, "eth_blockNumber").contains("\"0x0\"") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    stop(child, "INT");
    let (child, address) = start(&format!("{words} --blocks off").replace("--blocks 20ms ", ""));
    assert!(!ask(&address, "eth_blockNumber").contains("\"0x0\""), "it continues");
    stop(child, "TERM");
    // The folder knows its chain.
    let other = format!("node --rpc 127.0.0.1:0 --dev --datadir {} --chain-id 98 --log off", folder.path().display());
    run(&other).refused(6, "98");
}

#[test]
fn the_image_and_its_services_name_what_is_there() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/deploy");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    let compose = read("compose.yaml");
    let command = compose.lines().find_map(|line| line.trim().strip_prefix("command: ")).expect("a command");
    let words: Vec<String> = serde_json::from_str(command).expect("a list of words");
    let help = run("node --help").stdout;
    for flag in words.iter().filter(|word| word.starts_with("--")) {
        assert!(help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}[=")), "{flag} is no flag of node");
    }
    // Files beside it that the services mount.
    let mounts: Vec<_> = compose.lines().filter_map(|line| line.split("\"./").nth(1)?.split(':').next()).collect();
    assert_eq!(mounts.len(), 4, "{mounts:?}");
    mounts.iter().for_each(|name| assert!(!read(name).is_empty(), "{name}"));
    // The toolchain is the one that the workspace asks for.
    let manifest = std::fs::read_to_string(folder.join("../../Cargo.toml")).expect("a manifest");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a version");
    assert!(read("Dockerfile").contains(&format!("FROM rust:{}-", version.trim_matches('"'))));
}

#[test]
fn settings_that_cannot_be_followed_are_refused() {
    for (words, says) in [
        ("", "--genesis FILE, or --dev"),
        ("--dev --genesis /nowhere.json", "leave out --genesis"),
        ("--genesis /nowhere.json --datadir /tmp", "/nowhere.json"),
        ("--dev --genesis /nowhere.json", "--genesis"),
        ("--dev --accounts 10001", "more than 10000"),
        ("--dev --mnemonic test", "no mnemonic"),
        ("--dev --follow http://127.0.0.1:1", "genesis.json"),
        ("--dev --blocks 0s", "a period"),
        ("--dev --log x=y=z", "--log"),
        ("--dev --config /nowhere.toml", "/nowhere.toml"),
        ("--dev --network /nowhere.json", "--consensus"),
        ("--dev --consensus pbft --index 0", "--network FILE"),
        ("--dev --consensus pbft --network /nowhere.json", "--index N"),
        ("--dev --consensus pbft --network /nowhere.json --index 0 --rejoin --moved", "--rejoin"),
        ("--dev --consensus sbft --network /nowhere.json --index 0", "/nowhere.json"),
    ] {
        run(&format!("node {words}")).refused(2, says);
    }
}
