//! Bounds of the cost of a connection: sockets, idle time, bodies, unread answers, requests in flight, notifications; and which web pages may call.

use crate::kit::{Call, Client, Socket, config, deploy, signed};
use alloy_primitives::{Address, U256};
use phalanx_node::{Node, NodeConfig, Production};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

/// Time in which everything must have happened.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time that the node gives a client in these tests.
const SHORT: Duration = Duration::from_secs(1);

fn settings(folder: &Path) -> NodeConfig {
    let mut settings = config(folder, Production::Instant);
    settings.metrics = Some(([127, 0, 0, 1], 0).into());
    settings
}

/// A node with settings of a test, its client, and its pages.
fn start(folder: &Path, with: impl FnOnce(&mut NodeConfig)) -> (Node, Client, Client) {
    let mut settings = settings(folder);
    with(&mut settings);
    let node = Node::start(&settings).expect("a node");
    let (client, pages) = (Client::new(node.address()), Client::new(node.metrics_address().expect("asked for")));
    (node, client, pages)
}

/// A counter of the metrics' page; zero if it has not counted yet.
fn metric(pages: &Client, name: &str) -> u64 {
    let (_, page) = pages.page("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |number| number.parse().expect("a number"))
}

fn wait_for(pages: &Client, name: &str, at_least: u64) {
    let begun = Instant::now();
    while metric(pages, name) < at_least {
        assert!(begun.elapsed() < PATIENCE, "{name} stays at {}", metric(pages, name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn request(method: &str, params: &Value) -> String {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length";
    format!("{head}: {}\r\n\r\n{body}", body.len())
}

/// Everything until the end of a connection, which comes from the node.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend(&buffer[..read]),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it stays open");
                break;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Answer of a connection that stays open.
fn one_answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"}") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        bytes.extend(byte);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Arguments of a call that returns so many zeros.
fn zeros(bytes: u32) -> Value {
    let code = format!("0x63{bytes:08x}5ff3");
    json!([{"to": Address::repeat_byte(0xc0)}, "latest", {Address::repeat_byte(0xc0).to_string(): {"code": code}}])
}

#[test]
fn sockets_are_bounded_before_anything_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, pages) = start(folder.path(), |settings| settings.rpc.max_connections = 3);
    let mut open: Vec<TcpStream> = (0..3).map(|_| connect(node.address())).collect();
    for stream in &mut open {
        stream.write_all(request("eth_chainId", &json!([])).as_bytes()).expect("written");
        assert!(one_answer(stream).contains("0x1092"));
    }
    let refused = rest(&mut connect(node.address()));
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert_eq!(metric(&pages, "phalanx_rpc_connections"), 3);
    assert_eq!(metric(&pages, "phalanx_rpc_connections_refused_total"), 1);
    open[0].write_all(request("eth_chainId", &json!([])).as_bytes()).expect("written");
    assert!(one_answer(&mut open[0]).contains("0x1092"), "an open connection is served meanwhile");
    drop(open.pop());
    let begun = Instant::now();
    while client.post(b"{}").map_or(0, |(status, _)| status) != 200 {
        assert!(begun.elapsed() < PATIENCE, "the place does not come free");
    }
    node.stop();
}

#[test]
fn idle_connections_are_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, _, pages) = start(folder.path(), |settings| settings.rpc.idle = SHORT);
    assert_eq!(rest(&mut connect(node.address())), "", "nothing came");
    let mut used = connect(node.address());
    used.write_all(request("eth_chainId", &json!([])).as_bytes()).expect("written");
    assert!(rest(&mut used).contains("0x1092"));
    let mut socket = Socket::connect(node.address());
    assert!(socket.ask(1, "eth_chainId", json!([])).get("result").is_some());
    assert_eq!(socket.next(), None, "no pong came");
    wait_for(&pages, "phalanx_rpc_connections_closed_total{reason=\"idle\"}", 3);
    assert_eq!(metric(&pages, "phalanx_rpc_connections"), 0);
    node.stop();
}

#[test]
fn a_request_that_comes_too_slowly_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, pages) = start(folder.path(), |settings| settings.rpc.patience = SHORT);
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n";
    let mut body = connect(node.address());
    write!(body, "{head}\r\n{{").expect("written");
    let mut part = connect(node.address());
    part.write_all(head.as_bytes()).expect("written");
    // Bytes that come one by one are no progress.
    let mut trickle = connect(node.address());
    write!(trickle, "{head}\r\n").expect("written");
    let begun = Instant::now();
    while trickle.write_all(b"a").is_ok() {
        assert!(begun.elapsed() < PATIENCE, "a trickle keeps a connection");
        std::thread::sleep(Duration::from_millis(20));
    }
    rest(&mut body);
    rest(&mut part);
    let mut socket = TcpStream::connect(node.address()).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
        .write_all(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        )
        .expect("written");
    // A frame of fourteen megabytes, of which nothing comes.
    socket.write_all(&[0x81, 0xff, 0, 0, 0, 0, 0, 0xd5, 0x9f, 0x80, 0, 0, 0, 0]).expect("written");
    assert!(rest(&mut socket).starts_with("HTTP/1.1 101"));
    wait_for(&pages, "phalanx_rpc_connections_closed_total{reason=\"slow_request\"}", 4);
    assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"));
    node.stop();
}

#[test]
fn an_answer_that_is_not_read_is_cut_off_and_its_bytes_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, pages) = start(folder.path(), |settings| settings.rpc.patience = SHORT);
    let mut unread: Vec<TcpStream> = (0..3).map(|_| connect(node.address())).collect();
    for stream in &mut unread {
        stream.write_all(request("eth_call", &zeros(2 << 20)).as_bytes()).expect("written");
    }
    let mut socket = Socket::connect(node.address());
    socket.send(1, "eth_call", zeros(2 << 20));
    wait_for(&pages, "phalanx_rpc_connections_closed_total{reason=\"unread\"}", 4);
    assert_eq!(metric(&pages, "phalanx_rpc_answers_in_flight_bytes"), 0);
    // A client that reads gets all of it.
    let answer = client.get("eth_call", zeros(2 << 20));
    assert_eq!(answer.as_str().map(str::len), Some(2 + (4 << 20)));
    node.stop();
}

#[test]
fn answers_in_flight_are_bounded_and_small_ones_always_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, pages) = start(folder.path(), |settings| settings.rpc.max_answer_bytes = 6 << 20);
    let mut unread = connect(node.address());
    unread.write_all(request("eth_call", &zeros(2 << 20)).as_bytes()).expect("written");
    wait_for(&pages, "phalanx_rpc_answers_in_flight_bytes", 4 << 20);
    let (code, text) = client.error("eth_call", zeros(2 << 20));
    assert_eq!(code, -32005, "{text}");
    assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"));
    assert_eq!(client.get("eth_call", zeros(20_000)).as_str().map(str::len), Some(40_002));
    let batch = json!([{"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": zeros(2 << 20)}]).to_string();
    let (_, answer) = client.post(batch.as_bytes()).expect("an answer");
    assert!(answer.contains("-32005"), "{answer}");
    drop(unread);
    let begun = Instant::now();
    while client.ask("eth_call", zeros(2 << 20)).get("error").is_some() {
        assert!(begun.elapsed() < PATIENCE, "the bytes do not come back");
    }
    node.stop();
}

#[test]
fn requests_in_flight_are_bounded_and_small_ones_always_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, pages) = start(folder.path(), |settings| settings.rpc.max_request_bytes = 1 << 20);
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
    let mut first = connect(node.address());
    first.write_all(head.as_bytes()).expect("written");
    first.write_all(&vec![b' '; 900_000]).expect("written");
    wait_for(&pages, "phalanx_rpc_requests_in_flight_bytes", 800_000);
    let mut second = connect(node.address());
    second.write_all(head.as_bytes()).expect("written");
    // The node may have closed it before the end.
    let _ = second.write_all(&vec![b' '; 900_000]);
    let end = rest(&mut second);
    assert!(end.is_empty() || end.starts_with("HTTP/1.1 503"), "{end}");
    wait_for(&pages, "phalanx_rpc_connections_closed_total{reason=\"full\"}", 1);
    assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"));
    // What a request is decoded to counts as well: many short values are larger than their text.
    drop(first);
    let begun = Instant::now();
    while metric(&pages, "phalanx_rpc_requests_in_flight_bytes") > 0 {
        assert!(begun.elapsed() < PATIENCE, "the bytes do not come back");
    }
    let many = json!([vec![0; 40_000]]);
    assert_eq!(client.error("eth_call", many).0, -32005);
    let text = json!([{"to": Address::repeat_byte(0xaa), "data": format!("0x{}", "00".repeat(200_000))}]);
    assert_eq!(client.get("eth_call", text), json!("0x"));
    node.stop();
}

#[test]
fn a_websocket_is_not_read_while_its_requests_are_in_flight() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, _) = start(folder.path(), |settings| settings.rpc.max_in_flight = 2);
    let mut socket = Socket::connect(node.address());
    let late = |nonce| signed(2, &Call::to(1, nonce, Address::repeat_byte(5), 1), vec![]);
    for nonce in [7, 8] {
        socket.send(nonce, "eth_sendRawTransactionSync", json!([late(nonce), "0x3e8"]));
    }
    for id in 100..400 {
        socket.send(id, "eth_chainId", json!([]));
    }
    let first = socket.next().expect("an answer");
    assert_eq!(
        first["error"]["code"],
        json!(4),
        "a later request is answered before one that holds its place: {first}"
    );
    assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"));
    let mut answers: Vec<u64> =
        (0..301).map(|_| socket.next().expect("an answer")["id"].as_u64().expect("an id")).collect();
    answers.push(first["id"].as_u64().expect("an id"));
    answers.sort_unstable();
    assert_eq!(answers, [7, 8].into_iter().chain(100..400).collect::<Vec<_>>(), "each is answered once");
    node.stop();
}

/// Emits a log of as many bytes as its argument.
const LOUD: [u8; 5] = [0x5f, 0x35, 0x5f, 0xa0, 0x00];

#[test]
fn a_subscriber_that_does_not_read_is_closed_and_others_get_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, pages) = start(folder.path(), |settings| {
        settings.rpc.patience = SHORT;
        settings.rpc.max_behind = 100_000;
    });
    let created = client.include(&deploy(0, 0, &LOUD));
    let loud: Address = serde_json::from_value(created["contractAddress"].clone()).expect("a contract");
    let mut slow = Socket::connect(node.address());
    for id in 0..16 {
        assert!(slow.ask(id, "eth_subscribe", json!(["logs", {"address": loud}])).get("result").is_some());
    }
    let mut heads = Socket::connect(node.address());
    assert!(heads.ask(1, "eth_subscribe", json!(["newHeads"])).get("result").is_some());
    let data = U256::from(24_000).to_be_bytes_vec();
    let call = |nonce| signed(2, &Call::to(1, nonce, loud, 0).with_data(data.clone()), vec![]);
    for nonce in 0..8 {
        assert_eq!(client.include(&call(nonce))["status"], json!("0x1"));
    }
    let cut = |reason| metric(&pages, &format!("phalanx_rpc_connections_closed_total{{reason=\"{reason}\"}}"));
    let begun = Instant::now();
    while cut("unread") + cut("behind") == 0 {
        assert!(begun.elapsed() < PATIENCE, "it stays open");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut got = 0;
    while slow.next().is_some() {
        got += 1;
    }
    assert!(got < 8 * 16, "{got}: the client sees the end, and not before it everything");
    for height in 2..10 {
        let head = heads.next().expect("a head");
        assert_eq!(head["params"]["result"]["number"], json!(format!("{height:#x}")));
    }
    assert_eq!(metric(&pages, "phalanx_rpc_answers_in_flight_bytes"), 0);
    node.stop();
}

#[test]
fn a_subscriber_that_reads_slowly_gets_every_log_of_a_large_block() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, _) = start(folder.path(), |settings| settings.rpc.max_behind = 10_000);
    let created = client.include(&deploy(0, 0, &LOUD));
    let loud: Address = serde_json::from_value(created["contractAddress"].clone()).expect("a contract");
    let mut socket = Socket::connect(node.address());
    for id in 0..4 {
        socket.ask(id, "eth_subscribe", json!(["logs", {"address": loud}]));
    }
    let reader = std::thread::spawn(move || {
        let mut seen = std::collections::BTreeMap::<String, Vec<String>>::new();
        for _ in 0..80 {
            std::thread::sleep(Duration::from_millis(5));
            let message = socket.next().expect("a log");
            let result = &message["params"]["result"];
            assert_eq!(result["data"].as_str().map(str::len), Some(48_002));
            let name = message["params"]["subscription"].as_str().expect("a name").to_owned();
            seen.entry(name).or_default().push(result["blockNumber"].as_str().expect("a height").to_owned());
        }
        seen
    });
    let data = U256::from(24_000).to_be_bytes_vec();
    for nonce in 0..20 {
        client.include(&signed(2, &Call::to(1, nonce, loud, 0).with_data(data.clone()), vec![]));
    }
    let seen = reader.join().expect("a reader");
    let heights: Vec<String> = (2..22).map(|height| format!("{height:#x}")).collect();
    assert!(seen.len() == 4 && seen.values().all(|logs| *logs == heights), "{seen:?}");
    node.stop();
}

#[test]
fn subscriptions_are_bounded_in_their_filters() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, _) = start(folder.path(), |_| {});
    let mut socket = Socket::connect(node.address());
    let addresses =
        |count: u64| -> Vec<Address> { (0..count).map(|n| Address::from_word(U256::from(n).into())).collect() };
    let mut code = |id, count| {
        let answer = socket.ask(id, "eth_subscribe", json!(["logs", {"address": addresses(count)}]));
        answer["error"]["code"].as_i64()
    };
    assert_eq!(code(1, 1_000), None);
    assert_eq!(code(2, 1_001), Some(-32602));
    // A filter of 1,000 addresses takes 40 kilobytes, and those of a connection at most a mebibyte.
    let taken = (3..60).filter(|id| code(*id, 1_000).is_none()).count();
    assert_eq!(taken, 24);
    assert_eq!(client.error("eth_subscribe", json!(["newHeads"])), (-32601, "notifications not supported".into()));
    node.stop();
}

/// Status of a handshake with these lines in its head.
fn handshake(address: SocketAddr, lines: &[String]) -> u16 {
    let mut stream = connect(address);
    let head = "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n";
    write!(stream, "{head}{}\r\n\r\n", lines.join("\r\n")).expect("written");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer[9..]).parse().expect("a status")
}

#[test]
fn web_pages_need_an_origin_and_a_name_that_are_permitted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, _, _) = start(folder.path(), |settings| {
        settings.rpc.cors = vec!["http://good.example".into()];
        settings.rpc.hosts = vec!["node.example".into()];
    });
    let host = |name: &str| format!("Host: {name}");
    let origin = |name: &str| vec![host("localhost"), format!("Origin: {name}")];
    assert_eq!(handshake(node.address(), &[host("localhost")]), 101, "a program");
    assert_eq!(handshake(node.address(), &origin("http://good.example")), 101);
    for other in ["https://evil.example", "null", "http://good.example.evil"] {
        assert_eq!(handshake(node.address(), &origin(other)), 403, "{other}");
    }
    for (name, status) in [("node.example:8545", 101), ("127.0.0.1:8545", 101), ("[::1]", 101), ("evil.example", 403)] {
        assert_eq!(handshake(node.address(), &[host(name)]), status, "{name}");
    }
    let post = |host: &str| {
        let mut stream = connect(node.address());
        let text = request("eth_chainId", &json!([]))
            .replace("Host: localhost", &format!("Host: {host}\r\nConnection: close"));
        stream.write_all(text.as_bytes()).expect("written");
        rest(&mut stream)[9..12].to_owned()
    };
    assert_eq!((post("node.example"), post("rebound.example")), ("200".into(), "403".into()));
    // A page asks first, and calls on the same connection.
    let asks = |host: &str, origin: &str| {
        let mut stream = connect(node.address());
        let head = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type";
        write!(stream, "OPTIONS / HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n{head}\r\n\r\n").expect("written");
        let call = request("eth_chainId", &json!([])).replace("localhost", &format!("{host}\r\nConnection: close"));
        stream.write_all(call.as_bytes()).expect("written");
        rest(&mut stream).to_lowercase()
    };
    let permitted = asks("localhost", "http://good.example");
    assert!(permitted.contains("access-control-allow-origin: http://good.example"), "{permitted}");
    assert!(permitted.contains("0x1092"), "{permitted}");
    for refused in [asks("localhost", "http://evil.example"), asks("evil.example", "http://good.example")] {
        assert!(!refused.contains("access-control-allow-origin: http"), "{refused}");
    }
    node.stop();
}

#[test]
fn a_message_that_is_too_long_is_answered_before_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, _) = start(folder.path(), |settings| settings.rpc.max_request = 1_000);
    let mut socket = Socket::connect(node.address());
    let of = |bytes: usize| json!(["x".repeat(bytes)]);
    let empty = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": of(0) }).to_string().len();
    assert_eq!(socket.ask(1, "eth_chainId", of(1_000 - empty))["error"]["code"], json!(-32602));
    socket.send(1, "eth_chainId", of(1_001 - empty));
    let answer = socket.next().expect("an answer");
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32007), &Value::Null));
    assert_eq!(socket.next(), None);
    assert_eq!(client.ask("eth_chainId", of(1_000 - empty))["error"]["code"], json!(-32602));
    let (status, text) = client.post(&vec![b' '; 1_001]).expect("an answer");
    assert!(status == 413 && text.contains("-32007"), "{status} {text}");
    node.stop();
}

#[test]
fn ids_of_every_kind_come_back_over_both_transports() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, _) = start(folder.path(), |_| {});
    for id in ["-1", "1.5", "18446744073709551616", "\"a\"", "null"] {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"eth_chainId\"}}");
        let wanted = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"0x1092\"}}");
        assert_eq!(client.post(body.as_bytes()).expect("an answer"), (200, wanted.clone()));
        assert_eq!(
            client.post(format!("[{body},{body}]").as_bytes()).expect("an answer").1,
            format!("[{wanted},{wanted}]")
        );
    }
    let notification = b"{\"jsonrpc\":\"2.0\",\"method\":\"eth_chainId\"}";
    assert_eq!(client.post(notification).expect("an answer"), (204, String::new()));
    node.stop();
}

#[test]
fn a_call_waits_for_its_turn_and_no_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, _) = start(folder.path(), |settings| {
        settings.rpc.max_calls = 1;
        settings.rpc.max_queued = Duration::from_millis(1);
    });
    // JUMPDEST PUSH0 JUMP: it runs until its gas is used up.
    let to = Address::repeat_byte(0xc0);
    let endless = json!([{"to": to}, "latest", {to.to_string(): {"code": "0x5b5f56"}}]);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let endless = endless.clone();
            std::thread::spawn(move || client.error("eth_call", endless))
        })
        .collect();
    let errors: Vec<(i64, String)> = calls.into_iter().map(|call| call.join().expect("an answer")).collect();
    assert!(errors.iter().any(|(code, _)| *code == -32000), "one has the place: {errors:?}");
    assert!(errors.iter().any(|(code, _)| *code == -32005), "others do not wait for ever: {errors:?}");
    assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"), "a light call needs no place");
    node.stop();
}

#[test]
fn a_node_that_stops_ends_its_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client, _) = start(folder.path(), |_| {});
    let mut idle = connect(node.address());
    idle.write_all(request("eth_chainId", &json!([])).as_bytes()).expect("written");
    one_answer(&mut idle);
    let mut socket = Socket::connect(node.address());
    socket.ask(1, "eth_subscribe", json!(["newHeads"]));
    let late = signed(2, &Call::to(1, 3, Address::repeat_byte(5), 1), vec![]);
    socket.send(2, "eth_sendRawTransactionSync", json!([late, "0x1f4"]));
    assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"));
    node.stop();
    assert_eq!(rest(&mut idle), "");
    assert_eq!(socket.next().expect("a request in flight is answered")["error"]["code"], json!(4));
    assert_eq!(socket.next(), None);
}
