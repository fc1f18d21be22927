//! Frames over a socket of the loopback: what is sent arrives once and in order, and what is mutated closes the connection.

use super::*;
use crate::{
    config::{Authentication, Link},
    queue::{Bell, Popped},
    wire::{Identity, Refusals, dial, write_frame},
};
use alloy_primitives::{B256, Bytes};
use parking_lot::Mutex;
use phalanx_bft::{
    Batch, Index,
    pbft::{Decision, Fetch, Msg, PrePrepare, Status, Vote},
};
use phalanx_host::{Blocks, Filled, Frame, WantBlocks};
use phalanx_keys::deal;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    io::Read as _,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

const INSTANCE: [u8; 32] = [7; 32];
const MOST: usize = 1 << 20;
/// Items of a frame, at most.
const ITEMS: usize = 4_096;

fn identity(index: usize) -> Identity {
    Identity::new(deal(4, &[3; 32]).expect("keys").swap_remove(index), Authentication::Mac).expect("keys")
}

/// Replica 0 that listens, and its address.
fn listening() -> (Arc<Inputs<Msg>>, SocketAddr) {
    let (inputs, address, _) = listening_and_counting();
    (inputs, address)
}

/// Numbers of transactions that were checked together.
type Checked = Arc<Mutex<Vec<usize>>>;

/// Replica 0 that listens, its address, and what it checks.
fn listening_and_counting() -> (Arc<Inputs<Msg>>, SocketAddr, Checked) {
    let checked = Checked::default();
    let counts = Arc::clone(&checked);
    let admit = Arc::new(move |txs: &[Bytes]| {
        counts.lock().push(txs.len());
        txs.iter().map(|tx| tx[..] != b"forged"[..]).collect()
    });
    let inputs = Arc::new(Inputs::new(4, Arc::new(Bell::default()), Arc::new(Refusals::default()), admit));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let shared = Arc::clone(&inputs);
    thread::spawn(move || listen(&listener, &shared, &identity(0), INSTANCE, (MOST, ITEMS)));
    (inputs, address, checked)
}

fn frames() -> Vec<Frame<Msg>> {
    let digest = B256::repeat_byte(5);
    let batch = Batch::new(1, Default::default(), vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
    let vote = Vote { view: 3, slot: 9, digest };
    let status = Status { view: 1, active: true, opened: 1, stable: 8, decided: 9 };
    vec![
        Frame::Protocol(Msg::PrePrepare(PrePrepare { view: 3, slot: 9, batch: batch.clone() })),
        Frame::Protocol(Msg::Prepare(vote)),
        Frame::Protocol(Msg::Commit(vote)),
        Frame::Protocol(Msg::Fetch(Fetch { digest })),
        Frame::Protocol(Msg::Fetched(batch.clone())),
        Frame::Protocol(Msg::Status(status)),
        Frame::Protocol(Msg::Decided(Decision { slot: 4, digest })),
        Frame::WantBlocks(WantBlocks { from: 1, to: 8 }),
        Frame::Blocks(Blocks {
            from: 1,
            batches: vec![Filled::new(Some(batch)), Filled::new(None)],
            outcome: Bytes::new(),
        }),
        Frame::Request(Bytes::from_static(b"a transaction")),
    ]
}

#[test]
fn frames_arrive_in_order_over_a_slow_link() {
    let (inputs, address) = listening();
    let link = Link { delay_us: 20_000, bandwidth: 1_000_000, ..Link::default() };
    let output = Arc::new(Output::new(LinkControl::new(link)));
    let sender = Arc::clone(&output);
    let thread = thread::spawn(move || {
        send(&sender, address, &identity(2), &INSTANCE, (Index(0), 1), &Refusals::default());
    });
    let began = Instant::now();
    let sent = frames();
    sent.iter().for_each(|frame| output.push(alloy_rlp::encode(frame).into()));
    for frame in &sent {
        assert_eq!(inputs.queues[2].pop(Some(began + Duration::from_secs(600))), Popped::Item(frame.clone()));
    }
    assert!(began.elapsed() >= Duration::from_millis(20));
    output.close();
    thread.join().expect("no panic");
    inputs.stop();
}

/// A replica with the right keys that sends mutated frames: each is a message or ends the connection.
#[test]
fn mutated_frames_of_a_replica_never_harm() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    let cases = std::env::var("PHALANX_FUZZ").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300u32);
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (inputs, address) = listening();
    let whole: Vec<Vec<u8>> = frames().iter().map(alloy_rlp::encode).collect();
    let liar = identity(3);
    let mut connection: Option<(TcpStream, crate::wire::Seal)> = None;
    for _ in 0..cases {
        let (stream, seal) = connection.get_or_insert_with(|| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            let seal = dial(&mut stream, &liar, &INSTANCE, Index(0)).expect("the keys are right");
            (stream, seal)
        });
        let mut body = whole[rng.random_range(0..whole.len())].clone();
        match rng.random_range(0..4) {
            0 => body.truncate(rng.random_range(0..body.len())),
            1 => body.push(rng.random()),
            _ => {
                let at = rng.random_range(0..body.len());
                body[at] = rng.random();
            }
        }
        // The connection may have been closed for the last frame.
        let sent = write_frame(stream, seal, &body).is_ok();
        stream.set_read_timeout(Some(Duration::from_millis(2))).expect("a socket");
        let closed =
            !sent || matches!(stream.read(&mut [0]), Ok(0)) || stream.take_error().is_ok_and(|error| error.is_some());
        if closed {
            connection = None;
        }
        while inputs.queues[3].try_pop().is_some() {}
    }
    let refused = inputs.refusals.counts();
    assert!(refused.iter().any(|(kind, count)| *kind == "malformed" && *count > 10), "seed {seed}: {refused:?}");
    assert!(refused.iter().all(|(kind, _)| *kind == "malformed"), "seed {seed}: {refused:?}");
    inputs.stop();
}

/// Without the keys no greeting is answered, whichever replica is claimed.
#[test]
fn a_stranger_with_other_keys_is_not_let_in() {
    let (inputs, address) = listening();
    let strange = deal(4, &[4; 32]).expect("keys").swap_remove(1);
    let stranger = Identity::new(strange, Authentication::Mac).expect("keys");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let greeted = dial(&mut stream, &stranger, &INSTANCE, Index(0));
    assert!(matches!(greeted, Err(crate::Refused::Unproven)), "{greeted:?}");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let other = dial(&mut stream, &identity(1), &[8; 32], Index(0));
    assert!(other.is_err(), "another network");
    let mut stream = TcpStream::connect(address).expect("it listens");
    assert!(dial(&mut stream, &identity(1), &INSTANCE, Index(2)).is_err(), "another replica");
    let end = Instant::now() + Duration::from_secs(600);
    while inputs.refusals.counts().len() < 2 && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    let kinds: Vec<&str> = inputs.refusals.counts().into_iter().map(|(kind, _)| kind).collect();
    assert!(kinds.contains(&"other_instance") && kinds.contains(&"wrong_index"), "{kinds:?}");
    inputs.stop();
}

/// A connection of replica 3 with replica 0.
fn connected(address: SocketAddr) -> (TcpStream, crate::wire::Seal) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let seal = dial(&mut stream, &identity(3), &INSTANCE, Index(0)).expect("the keys are right");
    (stream, seal)
}

#[track_caller]
fn soon(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(600);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn count(inputs: &Inputs<Msg>, kind: &str) -> u64 {
    inputs.refusals.counts().into_iter().find(|(name, _)| *name == kind).map_or(0, |(_, count)| count)
}

/// A frame that was recorded on the wire is refused when it comes again, on its connection and on the next one.
#[test]
fn replayed_frames_close_the_connection() {
    let (inputs, address) = listening();
    let body = alloy_rlp::encode(Frame::<Msg>::Request(Bytes::from_static(b"a transaction")));
    let (mut stream, mut seal) = connected(address);
    let mut recorded = Vec::new();
    write_frame(&mut recorded, &mut seal, &body).expect("memory");
    for _ in 0..2 {
        std::io::Write::write_all(&mut stream, &recorded).expect("it is open");
    }
    soon("the second is refused", || count(&inputs, "not_authentic") == 1);
    let (mut stream, _) = connected(address);
    std::io::Write::write_all(&mut stream, &recorded).expect("it is open");
    soon("it belongs to another session", || count(&inputs, "not_authentic") == 2);
    assert!(inputs.queues[3].try_pop().is_some() && inputs.queues[3].try_pop().is_none(), "it came once");
    inputs.stop();
}

/// A peer that dials again and again while its frames wait for the worker has one reader, and memory for one.
#[test]
fn a_peer_has_one_reader_however_often_it_dials() {
    let (inputs, address) = listening();
    let body = alloy_rlp::encode(Frame::<Msg>::Request(vec![7; 4_000].into()));
    let mut connections = Vec::new();
    for _ in 0..30 {
        let (mut stream, mut seal) = connected(address);
        // More than the queue takes: the reader waits for room.
        let mut wire = Vec::new();
        (0..2_000).for_each(|_| write_frame(&mut wire, &mut seal, &body).expect("memory"));
        stream.set_write_timeout(Some(Duration::from_millis(50))).expect("a socket");
        // What has no room stays here, and an older connection is closed.
        let _ = std::io::Write::write_all(&mut stream, &wire);
        connections.push(stream);
    }
    // Readers share the inputs: those of superseded connections end though nothing makes room.
    soon("superseded readers end", || Arc::strong_count(&inputs) <= 3);
    inputs.stop();
}

/// Bytes that come one at a time end a greeting at its deadline, and the oldest greeting makes room for the newest.
#[test]
fn slow_greetings_keep_no_peer_out() {
    let (inputs, address) = listening();
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    soon("the oldest make room", || count(&inputs, "too_many_connections") >= 100);
    let (mut stream, mut seal) = connected(address);
    let body = alloy_rlp::encode(Frame::<Msg>::Request(Bytes::from_static(b"a transaction")));
    write_frame(&mut stream, &mut seal, &body).expect("it is open");
    soon("a frame comes through", || inputs.queues[3].try_pop().is_some());
    drop(silent);
    inputs.stop();
}

/// Transactions that a peer forwards are checked like a client's own. Frames of many items take no more memory than they have
/// bytes.
#[test]
fn forged_transactions_and_frames_of_many_items_are_refused() {
    let (inputs, address, checked) = listening_and_counting();
    let (mut stream, mut seal) = connected(address);
    // They come in one piece, and are checked together as far as they have.
    let mut piece = Vec::new();
    let request = |tx: &'static [u8]| Frame::<Msg>::Request(Bytes::from_static(tx));
    let vote = || Frame::Protocol(Msg::Prepare(Vote { view: 3, slot: 9, digest: B256::ZERO }));
    let sent = [request(b"forged"), request(b"true"), request(b"too"), request(b"forged"), vote(), request(b"last")];
    for frame in &sent {
        write_frame(&mut piece, &mut seal, &alloy_rlp::encode(frame)).expect("memory");
    }
    std::io::Write::write_all(&mut stream, &piece).expect("it is open");
    let next = || inputs.queues[3].pop(Some(Instant::now() + Duration::from_secs(600)));
    for expected in [request(b"true"), request(b"too"), vote(), request(b"last")] {
        assert_eq!(next(), Popped::Item(expected));
    }
    assert_eq!(*checked.lock(), [4, 1], "those before the vote, and the one behind it");
    let many = Batch::new(1, Default::default(), vec![Bytes::new(); ITEMS]);
    let flood = alloy_rlp::encode(Frame::Protocol(Msg::Fetched(many)));
    write_frame(&mut stream, &mut seal, &flood).expect("it is open");
    soon("too many items", || count(&inputs, "malformed") == 1);
    assert!(inputs.queues[3].try_pop().is_none());
    inputs.stop();
}

/// Requests that have come whole are not lost by a wrong frame in the same piece, which ends the connection.
#[test]
fn requests_before_a_wrong_frame_are_admitted() {
    let (inputs, address, checked) = listening_and_counting();
    let request = |tx: &'static [u8]| Frame::<Msg>::Request(Bytes::from_static(tx));
    let wrong = |seal: &mut crate::wire::Seal, piece: &mut Vec<u8>| {
        write_frame(piece, seal, b"no frame").expect("memory");
    };
    let forged = move |seal: &mut crate::wire::Seal, piece: &mut Vec<u8>| {
        write_frame(piece, seal, &alloy_rlp::encode(request(b"changed"))).expect("memory");
        *piece.last_mut().expect("a byte") ^= 1;
    };
    type Append = dyn Fn(&mut crate::wire::Seal, &mut Vec<u8>);
    let cases: [(&str, &Append); 2] = [("malformed", &wrong), ("not_authentic", &forged)];
    for (kind, append) in cases {
        let (mut stream, mut seal) = connected(address);
        let mut piece = Vec::new();
        for tx in [&b"one"[..], b"forged", b"two"] {
            write_frame(&mut piece, &mut seal, &alloy_rlp::encode(request(tx))).expect("memory");
        }
        append(&mut seal, &mut piece);
        std::io::Write::write_all(&mut stream, &piece).expect("it is open");
        for expected in [request(b"one"), request(b"two")] {
            let next = inputs.queues[3].pop(Some(Instant::now() + Duration::from_secs(600)));
            assert_eq!(next, Popped::Item(expected), "{kind}");
        }
        soon("the wrong frame is noted", || count(&inputs, kind) == 1);
        assert!(inputs.queues[3].try_pop().is_none(), "{kind}");
    }
    assert_eq!(*checked.lock(), [3, 3]);
    inputs.stop();
}
