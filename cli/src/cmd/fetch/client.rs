//! A client of JSON-RPC. What comes back is not trusted: its length, its time and its shape are bounded.

use super::error::FetchError;
use phalanx::alloy::primitives::Bytes;
use phalanx_lab::{error::Usage, ui::Ui};
use phalanx_node::http;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::time::Duration;
use tokio::{runtime::Runtime, time};

/// Maximum length of an answer: traces of a large block take tens of megabytes.
const ANSWER: usize = 256 << 20;

/// Time that an answer may take: a node traces a whole block meanwhile.
const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum length of a quoted answer, in characters.
const QUOTED: usize = 200;

/// A request: method and parameters.
pub(super) type Call = (&'static str, Value);

/// A server, to which connections are opened when they are needed.
pub(super) struct Client<'u> {
    runtime: Runtime,
    server: http::Client,
    /// Maximum number of requests that go together.
    batch: usize,
    /// Requests so far.
    asked: u64,
    ui: &'u Ui,
}

#[derive(Deserialize)]
struct Answer {
    id: Option<u64>,
    result: Option<Box<RawValue>>,
    error: Option<Value>,
}

/// Reads a server's address.
pub(super) fn server(url: &str) -> Result<http::Client, Usage> {
    http::Client::new(url).map_err(|why| Usage(format!("--rpc: {why}")))
}

impl<'u> Client<'u> {
    pub(super) fn new(server: http::Client, batch: usize, ui: &'u Ui) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, server, batch, asked: 0, ui })
    }

    /// Number of requests so far.
    pub(super) const fn asked(&self) -> u64 {
        self.asked
    }

    /// Result of one request, as text.
    pub(super) fn ask(&mut self, method: &'static str, params: Value) -> Result<Box<RawValue>, FetchError> {
        let [result] = self.ask_all([(method, params)])?;
        Ok(result)
    }

    /// Results of a few requests, in their order.
    pub(super) fn ask_all<const N: usize>(&mut self, calls: [Call; N]) -> Result<[Box<RawValue>; N], FetchError> {
        let results = self.ask_each(&calls)?;
        Ok(results.try_into().unwrap_or_else(|_| unreachable!("a result for each request")))
    }

    /// Results of many requests, in their order.
    pub(super) fn ask_each(&mut self, calls: &[Call]) -> Result<Vec<Box<RawValue>>, FetchError> {
        let mut results = Vec::with_capacity(calls.len());
        for batch in calls.chunks(self.batch) {
            results.extend(self.send(batch)?);
        }
        Ok(results)
    }

    fn send(&mut self, calls: &[Call]) -> Result<Vec<Box<RawValue>>, FetchError> {
        if self.ui.stopped() {
            return Err(FetchError::Interrupted);
        }
        self.asked += calls.len() as u64;
        let one = |(id, (method, params)): (usize, &Call)| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let list: Vec<Value> = calls.iter().enumerate().map(one).collect();
        // A server need not know batches.
        let body = if let [only] = &list[..] { only.to_string() } else { Value::from(list).to_string() };
        let bytes = self.post(body.into())?;
        matched(calls, &bytes)
    }

    /// Sends a body and returns that of the answer.
    fn post(&self, body: Vec<u8>) -> Result<Bytes, FetchError> {
        let Self { runtime, server, .. } = self;
        let posted = async {
            match server.post(body.clone(), ANSWER).await {
                // A server may have closed a connection that was kept: a new one gets one more try.
                Err(error) if !error.is::<http::TooLong>() => server.post(body, ANSWER).await,
                answered => answered,
            }
        };
        let posted = async { time::timeout(PATIENCE, posted).await };
        let unreachable = |why: String| FetchError::Unreachable { server: server.to_string(), why };
        let answered = runtime.block_on(posted).map_err(|_| unreachable(format!("no answer within {PATIENCE:?}")))?;
        let http::Response { status, body, .. } = answered.map_err(|error| unreachable(http::causes(&*error)))?;
        // Errors of JSON-RPC come with any status.
        if !status.is_success() && serde_json::from_slice::<Value>(&body).is_err() {
            return Err(unreachable(format!("HTTP status {status}: {}", quoted(&body))));
        }
        Ok(body.into())
    }
}

/// The beginning of an answer, for a message.
fn quoted(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(QUOTED).collect();
    text.escape_debug().to_string()
}

/// Results in the order of the requests. A batch may be answered in any order, and every request once.
fn matched(calls: &[Call], bytes: &[u8]) -> Result<Vec<Box<RawValue>>, FetchError> {
    let method = calls.first().map_or("", |(method, _)| *method);
    let unusable = |why: String| FetchError::Answer { method, why };
    let no_json = |error: serde_json::Error| unusable(format!("{error}, in {}", quoted(bytes)));
    let is_list = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let answers: Vec<Answer> = if is_list {
        serde_json::from_slice(bytes).map_err(no_json)?
    } else {
        vec![serde_json::from_slice(bytes).map_err(no_json)?]
    };
    let mut results: Vec<Option<Box<RawValue>>> = calls.iter().map(|_| None).collect();
    for Answer { id, result, error } in answers {
        // An error without an id is about the whole batch.
        let place = id.and_then(|id| usize::try_from(id).ok()).filter(|id| *id < calls.len());
        let method = place.map_or(method, |place| calls[place].0);
        if let Some(error) = error.filter(|error| !error.is_null()) {
            return Err(FetchError::Refused { method, why: told(&error) });
        }
        let place = place.ok_or_else(|| unusable("it has the id of no request".into()))?;
        // `null` is a result too.
        let result = result.map_or_else(|| RawValue::from_string("null".into()), Ok).map_err(no_json)?;
        if results[place].replace(result).is_some() {
            return Err(unusable("it answers a request twice".into()));
        }
    }
    let missing = || unusable("it lacks answers: a server that takes no batches needs --batch 1".into());
    results.into_iter().map(|result| result.ok_or_else(missing)).collect()
}

/// An error of JSON-RPC in words.
fn told(error: &Value) -> String {
    match (error["code"].as_i64(), error["message"].as_str()) {
        (Some(code), Some(message)) => format!("{code}: {}", quoted(message.as_bytes())),
        _ => quoted(error.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_matched_by_their_ids() {
        let calls: Vec<Call> = ["a", "b"].map(|name| (name, Value::Null)).into();
        let of = |text: &str| {
            matched(&calls, text.as_bytes())
                .map(|results| results.iter().map(|result| result.get().to_owned()).collect::<Vec<_>>().join(" "))
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(r#"[{"id":1,"result":{"x":1}},{"id":0,"result":null}]"#).as_deref(), Ok(r#"null {"x":1}"#));
        for (text, says) in [
            (r#"[{"id":0,"result":1}]"#, "--batch 1"),
            (r#"[{"id":0,"result":1},{"id":0,"result":2}]"#, "twice"),
            (r#"[{"id":0,"result":1},{"id":2,"result":2}]"#, "id of no request"),
            (
                r#"[{"id":0,"result":1},{"id":1,"error":{"code":-32000,"message":"pruned"}}]"#,
                "refuses b: -32000: pruned",
            ),
            (r#"{"id":null,"error":"no batches"}"#, "refuses a"),
            ("<html>", "<html>"),
            ("[", "EOF"),
        ] {
            let error = of(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
