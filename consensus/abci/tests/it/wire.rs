//! The server: the script over TCP, frames that lie, too many connections, and a stop in the middle of a call.

use crate::kit::{Disk, EARLY, JUNK, NAME, PANIC, START_MS, open, tx};
use phalanx_abci::{
    Halt, MempoolRequest, MempoolResponse, RequestInsertTx, RequestReapTxs, Server,
    conformance::{Block, Broken, Comet, Link as _, Proposal, TcpLink, asked},
    frame,
    proto::{self, request::Value as Asked, response::Value as Answer},
};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn echo(link: &mut TcpLink) -> Result<(), Broken> {
    let answer = link.call(asked(Asked::Echo(proto::RequestEcho { message: "here".into() })))?;
    assert!(matches!(answer.value, Some(Answer::Echo(echo)) if echo.message == "here"));
    Ok(())
}

#[test]
fn a_chain_goes_over_four_connections_and_over_a_new_server() {
    let (mut comet, disk) = (Comet::new(NAME, START_MS), Disk::new());
    for start in 1..=3 {
        let (app, _) = open(&disk);
        let server = Server::start(LOOPBACK, app).expect("a free port");
        let mut links: Vec<_> = (0..4).map(|_| TcpLink::connect(server.address()).expect("a connection")).collect();
        links.iter_mut().for_each(|link| echo(link).expect("an answer"));
        let check =
            |tx: &[u8], kind| asked(Asked::CheckTx(proto::RequestCheckTx { tx: tx.to_vec().into(), r#type: kind }));
        let code = |link: &mut TcpLink, tx: &[u8], kind| match link.call(check(tx, kind)).expect("an answer").value {
            Some(Answer::CheckTx(checked)) => checked.code,
            other => panic!("{other:?}"),
        };
        let recheck = proto::CheckTxType::Recheck as i32;
        assert_eq!(code(&mut links[2], &tx(start), recheck), 1, "not there yet");
        assert_eq!(code(&mut links[2], &tx(start), 0), 0);
        assert_eq!(code(&mut links[2], &tx(start), 0), 0, "a known one is admitted");
        assert_eq!(code(&mut links[2], &tx(start), recheck), 0);
        assert_eq!(code(&mut links[2], JUNK, 0), 1);
        comet.handshake(&mut links[3]).expect("sound");
        comet.height(&mut links[3], &[Proposal::Own]).expect("sound");
        assert_eq!(comet.blocks().last().expect("a block").txs, [tx(start)]);
        assert_eq!((comet.blocks().len() as u64, disk.roots().len() as u64), (start, start + 1));
        server.stop();
        assert!(matches!(echo(&mut links[0]), Err(Broken::Lost(_))));
    }
}

#[test]
fn requests_may_be_sent_ahead_of_their_answers() {
    let (app, host) = open(&Disk::new());
    let server = Server::start(LOOPBACK, app).expect("a free port");
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let mut requests = Vec::new();
    for number in 0..2_000 {
        let check = proto::RequestCheckTx { tx: tx(number).0, ..Default::default() };
        frame::write(&mut requests, &asked(Asked::CheckTx(check))).expect("written");
    }
    frame::write(&mut requests, &asked(Asked::Flush(proto::RequestFlush {}))).expect("written");
    stream.write_all(&requests).expect("sent");
    let mut reader = std::io::BufReader::new(stream);
    for number in 0..2_000 {
        let answer: proto::Response = frame::read(&mut reader).expect("sound").expect("an answer");
        assert!(matches!(answer.value, Some(Answer::CheckTx(checked)) if checked.code == 0), "{number}");
    }
    let last: proto::Response = frame::read(&mut reader).expect("sound").expect("an answer");
    assert!(matches!(last.value, Some(Answer::Flush(_))));
    assert!(host.together() > 1, "what has arrived together is admitted together");
}

#[test]
fn calls_of_every_kind_that_are_sent_together_are_answered_in_their_order() {
    let (app, _) = open(&Disk::new());
    let server = Server::start(LOOPBACK, app).expect("a free port");
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let check = |tx: &[u8], again: bool| {
        let kind = if again { proto::CheckTxType::Recheck } else { proto::CheckTxType::New };
        asked(Asked::CheckTx(proto::RequestCheckTx { tx: tx.to_vec().into(), r#type: kind as i32 }))
    };
    let insert =
        |tx: &[u8]| MempoolRequest { insert_tx: Some(RequestInsertTx { tx: tx.to_vec().into() }), reap_txs: None };
    let mut requests = Vec::new();
    for call in [check(&tx(1), false), check(JUNK, false), check(&tx(1), true), check(&tx(2), true)] {
        frame::write(&mut requests, &call).expect("written");
    }
    for call in [insert(&tx(3)), insert(EARLY), insert(JUNK)] {
        frame::write(&mut requests, &call).expect("written");
    }
    frame::write(&mut requests, &check(&tx(4), false)).expect("written");
    frame::write(&mut requests, &asked(Asked::Flush(proto::RequestFlush {}))).expect("written");
    stream.write_all(&requests).expect("sent");
    let mut reader = std::io::BufReader::new(stream);
    let mut checked = || match frame::read(&mut reader).expect("sound").map(|answer: proto::Response| answer.value) {
        Some(Some(Answer::CheckTx(checked))) => checked.code,
        other => panic!("{other:?}"),
    };
    assert_eq!([checked(), checked(), checked(), checked()], [0, 1, 0, 1]);
    for code in [0, 32_000, 1] {
        let answer: MempoolResponse = frame::read(&mut reader).expect("sound").expect("an answer");
        assert_eq!(answer.insert_tx.expect("an answer to it").code, code);
    }
    let last: proto::Response = frame::read(&mut reader).expect("sound").expect("an answer");
    assert!(matches!(last.value, Some(Answer::CheckTx(checked)) if checked.code == 0));
}

#[test]
fn frames_that_lie_end_their_connection_alone() {
    let (app, _) = open(&Disk::new());
    let server = Server::start(LOOPBACK, app).expect("a free port");
    let mut sound = TcpLink::connect(server.address()).expect("a connection");
    let junk: [&[u8]; 5] = [
        // A message of 2^63 bytes, a length without end, bytes that are no message, a field that is cut, HTTP.
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0xff; 32],
        &[3, 0xff, 0xff, 0xff],
        &[2, 0x0a, 0x7f],
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for bytes in junk {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(bytes).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("open");
        let mut answer = Vec::new();
        // A server that closes with unread bytes resets the connection.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{bytes:?}: {answer:?}");
        echo(&mut sound).expect("the others live");
    }
    // A request of a later version is answered, by an exception.
    let mut stream = TcpLink::connect(server.address()).expect("a connection");
    let unknown = proto::Request { value: None };
    assert!(matches!(stream.call(unknown), Err(Broken::Refused(why)) if why.contains("unknown kind")));
}

#[test]
fn a_mempool_of_the_application_is_filled_and_emptied_between_other_calls() {
    let disk = Disk::new();
    let (app, host) = open(&disk);
    let server = Server::start(LOOPBACK, app).expect("a free port");
    let mut link = TcpLink::connect(server.address()).expect("a connection");
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let mut reader = std::io::BufReader::new(stream.try_clone().expect("a handle"));
    let mut ask = |request: MempoolRequest, is_flushed: bool| -> MempoolResponse {
        frame::write(&mut stream, &request).expect("sent");
        if is_flushed {
            frame::write(&mut stream, &asked(Asked::Flush(proto::RequestFlush {}))).expect("sent");
        }
        let answer = frame::read(&mut reader).expect("sound").expect("an answer");
        if is_flushed {
            let flushed: proto::Response = frame::read(&mut reader).expect("sound").expect("an answer");
            assert!(matches!(flushed.value, Some(Answer::Flush(_))));
        }
        answer
    };
    let mut insert = |tx: &[u8], is_flushed| {
        let insert_tx = Some(RequestInsertTx { tx: tx.to_vec().into() });
        ask(MempoolRequest { insert_tx, reap_txs: None }, is_flushed).insert_tx.expect("an answer to it").code
    };
    for is_flushed in [false, true] {
        assert_eq!([&tx(1)[..], &tx(1)[..], JUNK, EARLY].map(|tx| insert(tx, is_flushed)), [0, 0, 1, 32_000]);
    }
    let mut reap = |max_bytes| {
        let reap_txs = Some(RequestReapTxs { max_bytes, max_gas: 0 });
        ask(MempoolRequest { insert_tx: None, reap_txs }, true).reap_txs.expect("an answer to it").txs
    };
    host.offer(&tx(7));
    host.offer(&tx(8));
    assert_eq!(reap(0), [tx(7).0, tx(8).0], "without a limit");
    assert!(reap(u64::MAX).is_empty(), "once");
    // The inserted one is in the pool, and proposed.
    let mut comet = Comet::new(NAME, START_MS);
    comet.handshake(&mut link).expect("sound");
    comet.height(&mut link, &[Proposal::Own]).expect("sound");
    assert_eq!(comet.blocks().last().expect("a block").txs, [tx(1)]);
    // A panic in it halts, as in every other call.
    let request = MempoolRequest { insert_tx: Some(RequestInsertTx { tx: PANIC.to_vec().into() }), reap_txs: None };
    frame::write(&mut stream, &request).expect("sent");
    assert!(matches!(frame::read::<MempoolResponse>(&mut reader), Ok(None) | Err(_)), "no answer");
    assert!(matches!(&host.halts()[..], [Halt::Panic(_)]));
}

#[test]
fn connections_are_bounded_and_come_back() {
    let (app, _) = open(&Disk::new());
    let server = Server::start(LOOPBACK, app).expect("a free port");
    let mut links: Vec<_> = (0..16).map(|_| TcpLink::connect(server.address()).expect("a connection")).collect();
    links.iter_mut().for_each(|link| echo(link).expect("an answer"));
    let mut one_more = TcpLink::connect(server.address()).expect("the system's queue");
    assert!(matches!(echo(&mut one_more), Err(Broken::Lost(_))));
    drop(links);
    // The server sees the ends in its own time.
    let mut tries = 0;
    while TcpLink::connect(server.address()).is_ok_and(|mut link| echo(&mut link).is_err()) {
        tries += 1;
        assert!(tries < 3_000, "no connection is free again");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_stop_in_the_middle_of_a_call_answers_nothing() {
    let (app, host) = open(&Disk::new());
    Comet::new(NAME, START_MS).handshake(&mut app.clone()).expect("sound");
    let server = Server::start(LOOPBACK, app).expect("a free port");
    host.model().hold(true);
    let mut link = TcpLink::connect(server.address()).expect("a connection");
    let waiting = std::thread::spawn(move || link.call(Block::new(1, 0, START_MS, vec![tx(1)]).finalize()));
    host.model().wait_for_a_block();
    server.stop();
    assert!(matches!(waiting.join().expect("no panic"), Err(Broken::Lost(_))));
}

#[test]
fn a_panic_in_a_call_ends_its_connection_and_halts() {
    let (app, host) = open(&Disk::new());
    let server = Server::start(LOOPBACK, app.clone()).expect("a free port");
    let mut link = TcpLink::connect(server.address()).expect("a connection");
    echo(&mut link).expect("an answer");
    let check = proto::RequestCheckTx { tx: PANIC.to_vec().into(), ..Default::default() };
    assert!(matches!(link.call(asked(Asked::CheckTx(check))), Err(Broken::Lost(_))), "CometBFT does not wait for good");
    let halts = host.halts();
    assert!(matches!(&halts[..], [Halt::Panic(why)] if why.contains("a bug in the pool")), "{halts:?}");
    assert!(app.is_halted());
    let mut other = TcpLink::connect(server.address()).expect("the server still listens");
    assert!(matches!(echo(&mut other), Err(Broken::Lost(_))), "a halted application answers nothing");
    server.stop();
}
