//! Files for operators: the dashboard asks for counters that a node has, and every counter of a node is in it and in the reference.

use crate::kit::{Call, Client, address, config, signed};
use phalanx_node::{Node, Production};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf};

fn deploy(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of counters in a text.
fn counters(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("phalanx_")).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_shows_every_counter_of_a_node_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = config(folder.path(), Production::Instant);
    settings.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    client.include(&signed(2, &Call::to(0, 0, address(1), 1), vec![]));
    // An error, so that there is a counter of them.
    client.error("eth_getBalance", json!(["no address"]));
    let (status, page) = Client::new(node.metrics_address().expect("metrics")).page("/metrics");
    assert_eq!(status, 200);
    let samples: String = page.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let has: BTreeSet<_> =
        samples.lines().filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect();
    // Those of the process have their usual names, which other dashboards show.
    let has: BTreeSet<_> = has.into_iter().filter(|name| name.starts_with("phalanx_")).collect();
    let board: Value = serde_json::from_str(&deploy("dashboard.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let asked = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let asked: BTreeSet<_> = asked.flat_map(|target| counters(target["expr"].as_str().expect("text"))).collect();
    assert_eq!(asked.difference(&has).collect::<Vec<_>>(), Vec::<&String>::new(), "no node has them");
    // Histograms are asked for by their buckets.
    let is_part = |name: &String| name.ends_with("_sum") || name.ends_with("_count");
    // Counts of the state store are the process's: a store of another test may have more kinds of them.
    let is_store = |name: &String| name.starts_with("phalanx_store_") && name.ends_with("_total");
    let whole = |name: &&String| !is_part(name) && !is_store(name);
    let missing: Vec<_> = has.difference(&asked).filter(whole).collect();
    assert_eq!(missing, Vec::<&String>::new(), "the dashboard lacks them");
    let reference = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/metrics.md");
    let named = counters(&std::fs::read_to_string(reference).expect("the reference"));
    let is_unnamed = |name: &&String| !named.contains(name.strip_suffix("_bucket").unwrap_or(name));
    let unnamed: Vec<_> = has.iter().filter(whole).filter(is_unnamed).collect();
    assert_eq!(unnamed, Vec::<&String>::new(), "the reference lacks them");
    node.stop();
}
