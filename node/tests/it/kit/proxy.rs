//! A node of another process, played by a script: requests go on to a real node, or get what the script says.

use super::Client;
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// What becomes of an HTTP request.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// The real node answers.
    Pass,
    /// The real node answers, late.
    Late(Duration),
    /// A status with a line of its head and a body.
    Status(u16, &'static str, &'static str),
    /// A body with status 200.
    Body(String),
    /// The real node's answer without its second half, though its head tells of all.
    Torn,
    /// The connection is closed without an answer.
    Closed,
}

/// Decides about a request by its body; the number counts from 0.
type Script = dyn Fn(usize, &Value) -> Fate + Send + Sync;

/// A running proxy. It ends with the process.
pub(crate) struct Proxy {
    pub(crate) url: String,
    script: Arc<Mutex<Arc<Script>>>,
    asked: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts one in front of a node.
    pub(crate) fn start(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/key", listener.local_addr().expect("an address"));
        let script: Arc<Mutex<Arc<Script>>> = Arc::new(Mutex::new(Arc::new(|_, _: &Value| Fate::Pass)));
        let asked = Arc::new(AtomicUsize::new(0));
        let (script_of, asked_of) = (Arc::clone(&script), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, asked) = (Arc::clone(&script_of), Arc::clone(&asked_of));
                std::thread::spawn(move || serve(stream, Client::new(node), &script, &asked));
            }
        });
        Self { url, script, asked }
    }

    /// Sets the script, and counts from 0 again.
    pub(crate) fn play(&self, script: impl Fn(usize, &Value) -> Fate + Send + Sync + 'static) {
        *self.script.lock() = Arc::new(script);
        self.asked.store(0, Ordering::SeqCst);
    }

    /// Number of HTTP requests since the last [`Self::play`].
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, node: Client, script: &Mutex<Arc<Script>>, asked: &AtomicUsize) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
    loop {
        let mut len = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(said) = line.to_lowercase().strip_prefix("content-length:") {
                len = said.trim().parse().unwrap_or_default();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let script = Arc::clone(&script.lock());
        let fate = script(asked.fetch_add(1, Ordering::SeqCst), &request);
        let (status, line, answer) = match &fate {
            Fate::Closed => return Ok(()),
            Fate::Status(status, line, body) => (*status, *line, (*body).to_owned()),
            Fate::Body(body) => (200, "", body.clone()),
            Fate::Late(_) | Fate::Pass | Fate::Torn => (200, "", node.post(&body)?.1),
        };
        if let Fate::Late(time) = fate {
            std::thread::sleep(time);
        }
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{line}Content-Length: {}\r\n\r\n",
            answer.len()
        );
        writer.write_all(head.as_bytes())?;
        if matches!(fate, Fate::Torn) {
            return writer.write_all(&answer.as_bytes()[..answer.len() / 2]);
        }
        writer.write_all(answer.as_bytes())?;
    }
}
