//! A relay before a replica's clients, which changes or holds back what the replica sends.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// Changes the body of a frame; returns false to hold it back for good.
pub(crate) type Change = Box<dyn FnMut(&mut Vec<u8>) -> bool + Send>;

/// Relays connections to `to` until the process ends. Returns the address.
pub(crate) fn relay(to: SocketAddr, change: Change) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (at, change) = (listener.local_addr().expect("an address"), Arc::new(Mutex::new(change)));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(to) else { continue };
            let (mut from, mut into) = (client.try_clone().expect("a stream"), server.try_clone().expect("a stream"));
            thread::spawn(move || std::io::copy(&mut from, &mut into));
            let change = Arc::clone(&change);
            thread::spawn(move || answers(server, client, &change));
        }
    });
    at
}

fn answers(mut server: TcpStream, mut client: TcpStream, change: &Mutex<Change>) {
    let mut length = [0; 4];
    while server.read_exact(&mut length).is_ok() {
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        if server.read_exact(&mut body).is_err() || !change.lock().expect("no panic")(&mut body) {
            return;
        }
        let length = (body.len() as u32).to_be_bytes();
        if client.write_all(&[&length[..], &body].concat()).is_err() {
            return;
        }
    }
}
