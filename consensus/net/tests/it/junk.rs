//! Junk on every socket: connections are closed and counted, the network goes on.

use crate::kit::{Net, PATIENCE, config, folder};
use phalanx_net::{Client, Request};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Sends bytes and waits until the other end closes, or for a while.
fn throw(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
    // It may close before all has left.
    let _ = stream.write_all(bytes);
    let _ = stream.read(&mut [0; 64]);
}

#[test]
fn junk_is_refused_by_kind_and_harms_nothing() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let folder = folder();
    let mut net = Net::new(config(4, folder.path()));
    net.submit(20);
    let member = net.config.replicas[1].clone();
    let mut junk: Vec<Vec<u8>> =
        vec![b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 76], [b"PHXNET_2".to_vec(), vec![9; 68]].concat()];
    junk.extend((0..12).map(|_| (0..rng.random_range(0..300)).map(|_| rng.random()).collect::<Vec<u8>>()));
    for bytes in &junk {
        throw(member.peers, bytes);
        throw(member.clients, bytes);
    }
    // Lengths that lie, requests that are none, transactions that are none.
    throw(member.clients, &u32::MAX.to_be_bytes());
    throw(member.clients, &[0, 0, 0, 3, 9, 9, 9]);
    let client = Client::connect(member.clients, Duration::from_secs(1)).expect("it listens");
    client.sender().expect("a descriptor").send(&Request::Submit(vec![Default::default()])).expect("it reads");
    net.submit(20);
    net.settle();
    net.check();
    let status = net.replica(1).status();
    let kinds: Vec<&str> = status.refused.iter().map(|(kind, _)| *kind).collect();
    assert!(
        ["too_long", "greeting", "other_instance", "malformed"].iter().all(|kind| kinds.contains(kind)),
        "{status:?}"
    );
    assert_eq!(status.refused_txs, 1);
}

/// Connections that say nothing are bounded, and leave when they have said nothing for long.
#[test]
fn silent_connections_are_bounded() {
    let folder = folder();
    let mut net = Net::new(config(4, folder.path()));
    net.submit(5);
    net.settle();
    let address = net.config.replicas[2].peers;
    let flooded = flood(address);
    let end = Instant::now() + PATIENCE;
    let is_full = |net: &Net| net.replica(2).status().refused.iter().any(|(kind, _)| *kind == "too_many_connections");
    while !is_full(&net) {
        assert!(Instant::now() < end, "{:?}", net.replica(2).status().refused);
        std::thread::sleep(Duration::from_millis(10));
    }
    // A replica that comes back during the flood has to greet through it.
    net.stop(0);
    net.submit(10);
    net.settle();
    net.start(0);
    net.submit(20);
    net.settle();
    net.check();
    drop(flooded);
}

/// Clients that say nothing keep no others out.
#[test]
fn silent_clients_make_room() {
    let folder = folder();
    let mut net = Net::new(config(4, folder.path()));
    let address = net.config.replicas[0].clients;
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    // The client that follows stays connected, and another one is served.
    let mut client = Client::connect(address, Duration::from_secs(600)).expect("it listens");
    let mut late = client.sender().expect("a descriptor");
    late.send(&Request::Follow(1)).expect("it reads");
    let (sender, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(client.receive().is_ok()));
    net.submit(20);
    net.settle();
    assert_eq!(told.recv_timeout(Duration::from_secs(600)), Ok(true), "a notice comes through");
    drop(silent);
}

/// Keeps connections to an address that say nothing until it is dropped.
fn flood(address: SocketAddr) -> Flood {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    let thread = std::thread::spawn(move || {
        let mut silent = std::collections::VecDeque::new();
        while !flag.load(Relaxed) {
            silent.extend(TcpStream::connect(address));
            if silent.len() > 100 {
                silent.pop_front();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    Flood { stopped, thread: Some(thread) }
}

struct Flood {
    stopped: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stopped.store(true, Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}
