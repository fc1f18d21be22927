//! `phalanx node` as a process: it starts, answers, ends in order, and continues; wrong flags say why.

use crate::{
    command::{phalanx, run},
    rpc::ask,
};
use serde_json::json;
use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command},
};

/// Starts a node and returns its address.
pub(crate) fn start(words: &str) -> (Child, SocketAddr) {
    let mut child = phalanx(format!("node --rpc 127.0.0.1:0 {words}").split_whitespace()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let address = lines.find_map(|line| {
        let line = line.expect("text");
        let rest = line.strip_prefix("JSON-RPC at http://")?;
        rest.split_whitespace().next()?.parse().ok()
    });
    (child, address.expect("the address is printed"))
}

/// Result of a method without parameters, as text.
fn asked(address: SocketAddr, method: &str) -> String {
    ask(address, method, &json!([])).expect("a result").to_string()
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
    assert!(asked(address, "eth_chainId").contains("\"0x63\""));
    while asked(address, "eth_blockNumber").contains("\"0x0\"") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    stop(child, "INT");
    let (child, address) = start(&format!("{words} --blocks off").replace("--blocks 20ms ", ""));
    assert!(!asked(address, "eth_blockNumber").contains("\"0x0\""), "it continues");
    stop(child, "TERM");
    // The folder knows its chain.
    let other = format!("node --rpc 127.0.0.1:0 --dev --datadir {} --chain-id 98 --log off", folder.path().display());
    run(&other).refused(6, "98");
}

#[test]
fn a_chain_goes_on_from_that_of_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let (other, there) = start("--dev --blocks 20ms --log off --chain-id 77");
    while asked(there, "eth_blockNumber").contains("\"0x0\"") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (cache, own) = (folder.path().join("cache"), folder.path().join("own"));
    let words = format!("--dev --fork-url http://{there} --fork-cache {} --log off", cache.display());
    let (child, here) = start(&format!("{words} --fork-block 1 --datadir {}", own.display()));
    assert!(asked(here, "eth_chainId").contains("\"0x4d\"") && asked(here, "eth_blockNumber").contains("\"0x1\""));
    assert!(asked(here, "eth_accounts").contains("0xf39f"));
    stop(child, "TERM");
    // The folder knows its block, and the cache is a file per block.
    let (child, here) = start(&format!("{words} --datadir {}", own.display()));
    assert!(asked(here, "eth_blockNumber").contains("\"0x1\""));
    stop(child, "TERM");
    assert_eq!(std::fs::read_dir(cache.join("77")).expect("a folder").count(), 1);
    let line = |rest: &str| format!("node --rpc 127.0.0.1:0 {words} {rest}");
    run(&line("--fork-block 99999999")).refused(1, "has not got block 99999999");
    run(&line(&format!("--fork-block 0 --datadir {}", own.display()))).refused(2, "goes on from a block 1");
    stop(other, "TERM");
    run(&line("--fork-retries 0")).refused(1, "does not answer eth_chainId, after 1 tries");
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
    assert_eq!(mounts.len(), 5, "{mounts:?}");
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
        ("--dev --fork-url node:1", "http://HOST:PORT or https://HOST"),
        ("--dev --fork-block 1", "--fork-url"),
        ("--fork-url http://127.0.0.1:1 --genesis /nowhere.json --datadir /tmp", "--dev"),
        ("--dev --consensus pbft --index 0", "--network FILE"),
        ("--dev --consensus pbft --network /nowhere.json", "--index N"),
        ("--dev --consensus pbft --network /nowhere.json --index 0 --rejoin --moved", "--rejoin"),
        ("--dev --consensus sbft --network /nowhere.json --index 0", "/nowhere.json"),
    ] {
        run(&format!("node {words}")).refused(2, says);
    }
}
