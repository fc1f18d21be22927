//! Links between CometBFTs that can be cut: each validator dials its peers through a forwarder of its own.
//!
//! A cut link holds the bytes that come, and takes no connection, as a network without a way. What was held goes on once the
//! link is mended.

use anyhow::Context as _;
use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Interval at which a cut link looks whether it is mended, and an idle one whether it is cut.
const INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of bytes that are forwarded at once.
const PIECE: usize = 1 << 16;

/// Link from one validator to another.
#[derive(Debug)]
struct Link {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

/// All links of a network, in both directions. They end with the process.
#[derive(Debug)]
pub(super) struct Links {
    count: usize,
    /// Link from `i` to `j` at `i * count + j`.
    all: Vec<Link>,
}

impl Links {
    /// Begins to forward to these addresses.
    pub(super) fn start(peers: &[SocketAddr]) -> anyhow::Result<Self> {
        let count = peers.len();
        let all = (0..count * count).map(|place| Link::start(peers[place % count])).collect::<anyhow::Result<_>>()?;
        Ok(Self { count, all })
    }

    /// Address at which `from` reaches `to`.
    pub(super) fn address(&self, from: usize, to: usize) -> SocketAddr {
        self.all[from * self.count + to].address
    }

    /// Cuts the links between validators that `is_first` tells apart, and mends all others.
    pub(super) fn split(&self, is_first: impl Fn(usize) -> bool) {
        for (place, link) in self.all.iter().enumerate() {
            let is_cut = is_first(place / self.count) != is_first(place % self.count);
            link.is_cut.store(is_cut, Ordering::SeqCst);
        }
    }
}

impl Link {
    fn start(to: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port of a link")?;
        let address = listener.local_addr()?;
        let is_cut = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_cut);
        thread::Builder::new().name("link".into()).spawn(move || {
            loop {
                wait(&shared);
                // An error is that of one connection, or passes.
                let Ok((near, _)) = listener.accept() else {
                    thread::sleep(INTERVAL);
                    continue;
                };
                wait(&shared);
                // A peer that is down refuses, as it would without the link.
                let Ok(far) = TcpStream::connect(to) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
                        let is_cut = Arc::clone(&shared);
                        let _ = thread::Builder::new().name("link".into()).spawn(move || forward(from, to, &is_cut));
                    }
                }
            }
        })?;
        Ok(Self { address, is_cut })
    }
}

/// Waits until a link is mended.
fn wait(is_cut: &AtomicBool) {
    while is_cut.load(Ordering::SeqCst) {
        thread::sleep(INTERVAL);
    }
}

/// Forwards bytes until one side ends. Then both do.
fn forward(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut piece = vec![0; PIECE];
    let _ = to.set_nodelay(true);
    let _ = from.set_read_timeout(Some(INTERVAL));
    loop {
        wait(is_cut);
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => {
                // It was cut while this side waited for bytes.
                wait(is_cut);
                if to.write_all(&piece[..len]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two peers that answer a byte by the next one.
    fn peers() -> Vec<SocketAddr> {
        let peer = |_| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("an address");
            thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    thread::spawn(move || {
                        let mut byte = [0];
                        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&[byte[0] + 1]).is_ok() {}
                    });
                }
            });
            address
        };
        (0..2).map(peer).collect()
    }

    #[test]
    fn a_cut_link_holds_bytes_until_it_is_mended() {
        let links = Links::start(&peers()).expect("ports");
        let mut stream = TcpStream::connect(links.address(0, 1)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut byte = [0];
        stream.write_all(&[7]).expect("written");
        stream.read_exact(&mut byte).expect("an answer");
        assert_eq!(byte, [8]);
        links.split(|place| place == 0);
        thread::sleep(10 * INTERVAL);
        stream.write_all(&[9]).expect("the link holds it");
        stream.set_read_timeout(Some(20 * INTERVAL)).expect("a timeout");
        assert!(stream.read_exact(&mut byte).is_err(), "nothing comes through");
        links.split(|_| true);
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream.read_exact(&mut byte).expect("it was held");
        assert_eq!(byte, [10]);
    }

    #[test]
    fn links_within_a_group_stay() {
        let links = Links::start(&peers()).expect("ports");
        links.split(|_| false);
        let mut stream = TcpStream::connect(links.address(1, 0)).expect("a connection");
        stream.write_all(&[1]).expect("written");
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        assert_eq!(byte, [2]);
    }
}
