//! Several connections of a client, and requests that are sent before the answers to those before.

use super::beacon::{Driven, Payload, SECRET, attributes, driven, said, state, token};
use crate::kit::{Call, PATIENCE, address, genesis, signed};
use alloy_primitives::{B256, U256};
use serde_json::{Value, json};
use std::{
    io::Write as _,
    net::TcpStream,
    path::Path,
    thread::scope,
    time::{Duration, Instant},
};

/// Blocks of the chain that tests hand over.
const HEIGHT: u64 = 10;

fn choice(head: B256) -> Value {
    json!([state(head, B256::ZERO, B256::ZERO), null])
}

/// A chain of payloads with a transfer each, by a node of its own.
fn chain(folder: &Path) -> Vec<Payload> {
    let maker = Driven::start(&driven(folder, genesis()));
    let mut chain: Vec<Payload> = Vec::new();
    for height in 1..=HEIGHT {
        let parent = chain.last().map_or_else(|| maker.genesis(), Payload::hash);
        maker.client.send(&signed(2, &Call::to(0, height - 1, address(1), 5), vec![]));
        let payload = maker.build_with(5, parent, 12 * height, 1);
        maker.offer(&payload);
        maker.head(payload.hash());
        chain.push(payload);
    }
    maker.stop();
    chain
}

/// A node with two payloads on its genesis: the second has a transfer to account 1.
fn siblings(folder: &Path) -> (Driven, [B256; 2]) {
    let node = Driven::start(&driven(folder, genesis()));
    let root = node.genesis();
    let empty = node.build(5, root, &attributes(5, 12, 1));
    node.client.send(&signed(2, &Call::to(0, 0, address(1), 5), vec![]));
    let full = node.build_with(5, root, 12, 1);
    let both = [empty, full].map(|payload| {
        assert_eq!(node.offer(&payload), ("VALID".into(), Some(payload.hash())));
        payload.hash()
    });
    (node, both)
}

#[test]
fn handshakes_of_websockets_need_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    for refused in [String::new(), token(&[8; 32], 0), token(&SECRET, 90)] {
        assert_eq!(node.socket(&refused).expect_err("refused"), 401, "{refused}");
    }
    let mut socket = node.socket(&token(&SECRET, 0)).expect("a connection");
    assert_eq!(socket.ask(1, "eth_chainId", json!([]))["id"], json!(1));
    node.stop();
}

#[test]
fn fork_choices_of_a_websocket_are_processed_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, both) = siblings(folder.path());
    let mut socket = node.socket(&token(&SECRET, 0)).expect("a connection");
    for round in 0..40usize {
        let heads = (0..8).map(|place| both[(round + place) % 2]);
        for (id, head) in (0..).zip(heads) {
            socket.send(id, "engine_forkchoiceUpdatedV3", choice(head));
        }
        for _ in 0..8 {
            let answer = socket.next().expect("an answer");
            assert_eq!(answer["result"]["payloadStatus"]["status"], json!("VALID"), "{answer}");
        }
        assert_eq!(node.tagged("latest"), Some(both[(round + 7) % 2]), "the last one counts");
    }
    node.stop();
}

#[test]
fn fork_choices_of_a_websocket_are_carried_out_also_if_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, both) = siblings(folder.path());
    for round in 0..20usize {
        let (first, last) = (both[round % 2], both[(round + 1) % 2]);
        let mut socket = node.socket(&token(&SECRET, 0)).expect("a connection");
        for id in 0..8 {
            socket.send(id, "engine_forkchoiceUpdatedV3", choice(if id < 7 { first } else { last }));
        }
        // What is answered has been received behind all of them.
        socket.send(100, "eth_chainId", json!([]));
        while socket.next().expect("an answer")["id"] != json!(100) {}
        drop(socket);
        let begun = Instant::now();
        while node.tagged("latest") != Some(last) {
            assert!(begun.elapsed() < PATIENCE, "the last choice of round {round} is lost");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    node.stop();
}

#[test]
fn payloads_of_a_websocket_are_there_for_the_choices_behind_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let chain = chain(&folder.path().join("maker"));
    let node = Driven::start(&driven(&folder.path().join("node"), genesis()));
    let mut socket = node.socket(&token(&SECRET, 0)).expect("a connection");
    for (id, payload) in (0..).step_by(2).zip(&chain) {
        let (version, args) = payload.args();
        socket.send(id, &format!("engine_newPayloadV{version}"), args);
        socket.send(id + 1, "engine_forkchoiceUpdatedV3", choice(payload.hash()));
    }
    for _ in 0..2 * chain.len() {
        let answer = socket.next().expect("an answer");
        let id = answer["id"].as_u64().expect("a number");
        let status = if id.is_multiple_of(2) { &answer["result"] } else { &answer["result"]["payloadStatus"] };
        let hash = chain[usize::try_from(id / 2).expect("a place")].hash();
        assert_eq!(said(status), ("VALID".into(), Some(hash)), "{answer}");
    }
    assert_eq!(node.tagged("latest"), chain.last().map(Payload::hash));
    node.stop();
}

#[test]
fn a_payload_from_two_connections_at_once_has_one_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let chain = chain(&folder.path().join("maker"));
    let node = Driven::start(&driven(&folder.path().join("node"), genesis()));
    for payload in &chain {
        let offer = || node.offer(payload);
        let wrong = payload.with("gasUsed", json!("0x1"));
        let verdicts = scope(|scope| {
            let callers: Vec<_> = (0..6).map(|_| scope.spawn(offer)).collect();
            let refused: Vec<_> = (0..2).map(|_| scope.spawn(|| node.offer(&wrong))).collect();
            for refused in refused {
                assert_eq!(refused.join().expect("no panic"), ("INVALID".into(), Some(payload.parent())));
            }
            callers.into_iter().map(|caller| caller.join().expect("no panic")).collect::<Vec<_>>()
        });
        assert_eq!(verdicts, vec![("VALID".to_owned(), Some(payload.hash())); 6]);
    }
    // The path is executed: only its choice is left.
    node.head(chain[chain.len() - 1].hash());
    assert_eq!(node.number("latest"), Some(HEIGHT));
    node.stop();
}

#[test]
fn heads_that_two_connections_alternate_are_each_there_when_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, [empty, full]) = siblings(folder.path());
    node.head(empty);
    let before = node.balance(address(1));
    scope(|scope| {
        for first in 0..2 {
            let node = &node;
            scope.spawn(move || (first..first + 100).for_each(|turn| node.head([empty, full][turn % 2])));
        }
    });
    for (head, more) in [(full, 5), (empty, 0), (full, 5)] {
        node.head(head);
        assert_eq!(node.tagged("latest"), Some(head));
        assert_eq!(node.balance(address(1)), before + U256::from(more));
    }
    node.stop();
}

#[test]
fn a_client_that_goes_amid_a_payload_can_offer_it_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let chain = chain(&folder.path().join("maker"));
    let node = Driven::start(&driven(&folder.path().join("node"), genesis()));
    for (place, payload) in (0..).zip(&chain) {
        let (version, params) = payload.args();
        let method = format!("engine_newPayloadV{version}");
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n",
            token(&SECRET, 0),
            body.len()
        );
        let whole = [head.as_bytes(), body.as_bytes()].concat();
        // Within the request, and a moment behind it.
        for (end, moment) in [(whole.len() / 2, 0), (whole.len(), place)] {
            let mut stream = TcpStream::connect(node.engine_address()).expect("a connection");
            stream.write_all(&whole[..end]).expect("written");
            std::thread::sleep(Duration::from_millis(moment));
        }
        assert_eq!(node.offer(payload), ("VALID".into(), Some(payload.hash())));
        node.head(payload.hash());
    }
    assert_eq!(node.number("latest"), Some(HEIGHT));
    node.stop();
}
