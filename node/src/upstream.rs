//! JSON-RPC of the node that a follower follows.
//!
//! Nothing that the other node does, or leaves undone, holds this node up: every call has a time limit and ends when this node
//! stops, every answer has a size limit, and calls for clients are few at once. While the other node is known to be away, they are
//! refused without a wait, but for one that finds out whether it is back.

use crate::{
    gate::Gate,
    http::{Client, Failed, Response, TooLong, causes},
};
use parking_lot::Mutex;
use phalanx::alloy::primitives::{B256, Bytes};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
    time,
};

/// Time that an answer with blocks may take: they may be long, and the way narrow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time that an answer for a client may take.
const BRIEF: Duration = Duration::from_secs(5);

/// Maximum number of calls for clients at once: each holds a thread that other methods need.
const PLACES: usize = 16;

/// Maximum number of transactions in a batch: half of what a node takes by default.
const BATCH: usize = 500;

/// Maximum size of an answer for a client, in bytes: a hash, a number, or an error with its data.
const SHORT: usize = 64 << 10;

/// Length up to which the text and the data of an error are repeated for each transaction of a batch, in bytes.
const REPEATED: usize = 4 << 10;

/// Reason for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// It is not there, or what it says is no answer: another try may succeed.
    #[error("the upstream node does not answer: {0}")]
    Away(String),
    /// The answer is longer than one may be.
    #[error("the upstream node's answer has more than {most} bytes")]
    TooLong { most: usize },
    /// As many calls for clients as may wait for it do so.
    #[error("the upstream node is busy: {PLACES} requests wait for it; send this one again")]
    Busy,
    /// It answers with an error.
    #[error("the upstream node says: {message}")]
    Refused { code: i32, message: String, data: Option<Value> },
}

impl UpstreamError {
    /// The error as it is repeated: without what is long.
    fn brief(self) -> Self {
        let cut = |mut text: String| {
            text.truncate(text.floor_char_boundary(REPEATED));
            // The rest of its memory as well.
            text.shrink_to_fit();
            text
        };
        match self {
            Self::Away(why) => Self::Away(cut(why)),
            Self::Refused { code, message, data } => {
                let data = data.filter(|data| data.to_string().len() <= REPEATED);
                Self::Refused { code, message: cut(message), data }
            }
            Self::TooLong { .. } | Self::Busy => self,
        }
    }
}

/// The node that is followed. Clones share what they know of it, and its connections.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    runtime: Handle,
    client: Arc<Client>,
    places: Arc<Semaphore>,
    gate: Arc<Mutex<Gate>>,
    /// True once this node stops: no call waits any longer.
    stops: watch::Receiver<bool>,
}

/// An answer that is no error, as it came.
#[derive(Debug)]
pub(crate) struct Answer(hyper::body::Bytes);

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Refusal>,
}

/// Name of an answer in a batch.
#[derive(Deserialize)]
struct Named {
    id: usize,
}

#[derive(Deserialize)]
struct Refusal {
    code: i32,
    message: String,
    #[serde(default)]
    data: Option<Value>,
}

impl Answer {
    /// Reads the result, which may borrow from the answer.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, UpstreamError> {
        let message: Message<'a> = serde_json::from_slice(&self.0).map_err(|error| away(&error))?;
        if let Some(Refusal { code, message, data }) = message.error {
            return Err(UpstreamError::Refused { code, message, data });
        }
        serde_json::from_str(message.result.map_or("null", RawValue::get)).map_err(|error| away(&error))
    }
}

fn away(why: &dyn core::fmt::Display) -> UpstreamError {
    UpstreamError::Away(why.to_string())
}

impl Upstream {
    /// A node with a client of it. `stops` turns true when this node stops.
    pub(crate) fn new(runtime: Handle, client: Client, stops: watch::Receiver<bool>) -> Self {
        Self {
            runtime,
            client: Arc::new(client),
            places: Arc::new(Semaphore::new(PLACES)),
            gate: Arc::default(),
            stops,
        }
    }

    /// Passes a client's request on, and waits briefly for the answer. Not for a thread of the runtime.
    pub(crate) fn pass<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Result<T, UpstreamError> {
        self.pass_within(BRIEF, method, params)
    }

    /// Passes transactions on, in order, and waits briefly for the answers. Not for a thread of the runtime.
    pub(crate) fn send(&self, txs: &[&Bytes]) -> Vec<Result<B256, UpstreamError>> {
        let mut all = Vec::with_capacity(txs.len());
        for txs in txs.chunks(BATCH) {
            match self.send_batch(txs) {
                Ok(sent) => all.extend(sent),
                Err(error) => {
                    let error = error.brief();
                    all.extend(txs.iter().map(|_| Err(error.clone())));
                }
            }
        }
        all
    }

    fn send_batch(&self, txs: &[&Bytes]) -> Result<Vec<Result<B256, UpstreamError>>, UpstreamError> {
        const METHOD: &str = "eth_sendRawTransaction";
        if let [tx] = txs {
            return Ok(vec![self.pass(METHOD, &json!([tx]))]);
        }
        let call = |(id, tx): (usize, &&Bytes)| json!({ "jsonrpc": "2.0", "id": id, "method": METHOD, "params": [tx] });
        let body = Value::Array(txs.iter().enumerate().map(call).collect());
        let _place = self.places.try_acquire().map_err(|_| UpstreamError::Busy)?;
        self.gate.lock().enter(Instant::now(), BRIEF).map_err(UpstreamError::Away)?;
        let answer = self.exchange(body.to_string(), BRIEF, SHORT * txs.len())?;
        let Ok(parts) = serde_json::from_slice::<Vec<&RawValue>>(&answer.0) else {
            // One answer to all of them is an error, or none.
            return answer.read::<Value>().and_then(|_| Err(UpstreamError::Away("no batch answers a batch".into())));
        };
        let missing = || Err(UpstreamError::Away("an answer is missing in its batch".into()));
        let mut sent: Vec<_> = txs.iter().map(|_| missing()).collect();
        for part in parts {
            let named: Named = serde_json::from_str(part.get()).map_err(|error| away(&error))?;
            if let Some(place) = sent.get_mut(named.id) {
                *place = Answer(hyper::body::Bytes::copy_from_slice(part.get().as_bytes())).read();
            }
        }
        Ok(sent)
    }

    fn pass_within<T: DeserializeOwned>(
        &self,
        patience: Duration,
        method: &str,
        params: &Value,
    ) -> Result<T, UpstreamError> {
        let _place = self.places.try_acquire().map_err(|_| UpstreamError::Busy)?;
        self.gate.lock().enter(Instant::now(), patience).map_err(UpstreamError::Away)?;
        self.ask(method, params, patience, SHORT)?.read()
    }

    /// Calls a method, and waits long for an answer of at most so many bytes. Not for a thread of the runtime.
    pub(crate) fn call(&self, method: &str, params: &Value, most: usize) -> Result<Answer, UpstreamError> {
        self.ask(method, params, PATIENCE, most)
    }

    fn ask(&self, method: &str, params: &Value, patience: Duration, most: usize) -> Result<Answer, UpstreamError> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        self.exchange(body, patience, most)
    }

    /// Sends a body, and notes whether the node is away.
    fn exchange(&self, body: String, patience: Duration, most: usize) -> Result<Answer, UpstreamError> {
        let asked = self.runtime.block_on(async {
            let mut stops = self.stops.clone();
            let exchange = async {
                let Response { status, body, .. } = self.client.post(body, most).await?;
                if status.is_success() { Ok(body) } else { Err(format!("status {status}").into()) }
            };
            tokio::select! {
                asked = time::timeout(patience, exchange) => asked.unwrap_or_else(|_| Err("no answer in time".into())),
                // An error means that the node is gone.
                _ = stops.wait_for(|stops| *stops) => Err("this node stops".into()),
            }
        });
        let answer = asked.map_err(|error: Failed| match error.downcast_ref::<TooLong>() {
            Some(_) => UpstreamError::TooLong { most },
            None => away(&causes(&*error)),
        });
        let known = answer.as_ref().err().filter(|error| matches!(error, UpstreamError::Away(_)));
        self.gate.lock().note(Instant::now(), known.map(ToString::to_string));
        answer.map(Answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Read as _,
        net::TcpListener,
        sync::mpsc::{Receiver, channel},
    };

    /// A node that reads requests and answers none. It tells of the first byte of each connection, which stays open.
    fn silent() -> (String, Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let tell = tell.clone();
                std::thread::spawn(move || {
                    let begun = stream.read_exact(&mut [0]).map(|()| tell.send(()));
                    begun.and_then(|_| std::io::copy(&mut stream, &mut std::io::sink()))
                });
            }
        });
        (address, told)
    }

    fn world() -> (tokio::runtime::Runtime, watch::Sender<bool>, Upstream, Receiver<()>) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
        let (stop, stops) = watch::channel(false);
        let (address, told) = silent();
        let client = Client::new(&format!("http://{address}")).expect("an address");
        let upstream = Upstream::new(runtime.handle().clone(), client, stops);
        (runtime, stop, upstream, told)
    }

    #[test]
    fn an_error_that_is_repeated_is_short() {
        let refused = |message: String, data| UpstreamError::Refused { code: -32_000, message, data };
        let kept = refused("x".repeat(REPEATED), Some(json!("y".repeat(REPEATED - 2))));
        assert_eq!(kept.clone().brief(), kept);
        // A letter of two bytes is not cut in two.
        let long = refused("é".repeat(REPEATED), Some(json!("y".repeat(REPEATED - 1))));
        assert_eq!(long.brief(), refused("é".repeat(REPEATED / 2), None));
        let away = UpstreamError::Away(format!("x{}", "é".repeat(REPEATED))).brief();
        assert_eq!(away, UpstreamError::Away(format!("x{}", "é".repeat(REPEATED / 2 - 1))));
        assert_eq!(UpstreamError::Busy.brief(), UpstreamError::Busy);
    }

    #[test]
    fn calls_without_any_time_limit_end_when_the_node_stops() {
        let (_runtime, stop, upstream, asked) = world();
        let waiting = std::thread::spawn(move || upstream.ask("eth_blockNumber", &json!([]), Duration::MAX, SHORT));
        asked.recv().expect("the request has come");
        stop.send_replace(true);
        // The other node never answers, and no time is up: the stop alone ends the call.
        let why = waiting.join().expect("no panic").expect_err("no answer");
        assert!(why.to_string().contains("this node stops"), "{why}");
    }

    #[test]
    fn calls_for_clients_are_few_at_once_and_refused_while_the_node_is_away() {
        let (_runtime, stop, upstream, asked) = world();
        let pass = |upstream: &Upstream| upstream.pass_within::<Value>(Duration::MAX, "eth_chainId", &json!([]));
        let waiting: Vec<_> = (0..PLACES)
            .map(|_| {
                let upstream = upstream.clone();
                std::thread::spawn(move || pass(&upstream))
            })
            .collect();
        (0..PLACES).for_each(|_| asked.recv().expect("the request has come"));
        assert_eq!(pass(&upstream), Err(UpstreamError::Busy), "at once: none of the others can end");
        stop.send_replace(true);
        for waiting in waiting {
            assert!(matches!(waiting.join().expect("no panic"), Err(UpstreamError::Away(_))));
        }
        let (_runtime, _stop, upstream, asked) = world();
        let given_up = upstream.ask("eth_blockNumber", &json!([]), Duration::from_millis(1), SHORT);
        assert!(matches!(given_up, Err(UpstreamError::Away(_))));
        upstream.gate.lock().note(Instant::now() + Duration::from_secs(3600), Some("it was away".into()));
        while asked.try_recv().is_ok() {}
        assert_eq!(
            pass(&upstream),
            Err(UpstreamError::Away("it was away".into())),
            "at once, though it has no time limit"
        );
        assert!(asked.try_recv().is_err(), "nothing was sent");
    }
}
