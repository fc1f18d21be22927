//! Height of a validator, asked for by JSON-RPC.

use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Time that an answer may take: the processes are not looked after meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum length of an answer, in bytes.
const LENGTH: u64 = 4096;

/// Height of a node's newest block. `None` if there is no answer in time.
pub(super) fn of(address: SocketAddr) -> Option<u64> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": [] }).to_string();
    let len = body.len();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all((head + &body).as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(LENGTH).read_to_string(&mut answer).ok()?;
    let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    u64::from_str_radix(answer["result"].as_str()?.strip_prefix("0x")?, 16).ok()
}

/// Hash of a block of CometBFT, in hexadecimal digits. `None` if there is no answer in time.
pub(super) fn hash(comet: SocketAddr, height: u64) -> Option<String> {
    let head = format!("GET /commit?height={height} HTTP/1.1\r\nHost: comet\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect_timeout(&comet, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(16 * LENGTH).read_to_string(&mut answer).ok()?;
    // A body may come in chunks, whose lengths stand around it.
    let body = answer.get(answer.find('{')?..=answer.rfind('}')?)?;
    let answer: Value = serde_json::from_str(body).ok()?;
    let hash = answer["result"]["signed_header"]["commit"]["block_id"]["hash"].as_str()?;
    (hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())).then(|| hash.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn answers_that_are_no_height_count_as_none() {
        let answers = [
            (r#"{"jsonrpc":"2.0","id":1,"result":"0x1f"}"#, Some(31)),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#, None),
            ("junk", None),
        ];
        for (body, expected) in answers {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("an address");
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a caller");
                let mut request = [0; 4096];
                let mut len = 0;
                while !request[..len].ends_with(b"}") {
                    len += stream.read(&mut request[len..]).expect("a request");
                }
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n{body}").expect("written");
            });
            assert_eq!(of(address), expected, "{body}");
            server.join().expect("no panic");
        }
    }
}
