//! JSON-RPC of the remote node. What it answers is not trusted: length, time, shape and number of tries are
//! bounded, and an error names what it has answered.
//!
//! A call may come from any thread, of the engine or of the server: requests run on a runtime of their own.

use super::{
    config::RemoteConfig,
    tries::{self, Outlook, Pace},
};
use crate::http::{self, Failed, TooLong, causes};
use hyper::header::RETRY_AFTER;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, sync::Semaphore, time};

/// Maximum length of an answer, in bytes.
const ANSWER: usize = 64 << 20;

/// Maximum number of HTTP requests at once.
const AT_ONCE: usize = 8;

/// Maximum length of a quoted answer, in characters.
const QUOTED: usize = 200;

/// A request: method and parameters.
pub(super) type Call = (&'static str, Value);

/// Reason for which the remote node gives no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RemoteError {
    /// No answer came, or none that is JSON-RPC.
    #[error("the remote node {server} does not answer {method}, after {tries} tries: {why}")]
    Away { server: Arc<str>, method: String, tries: u32, why: String },
    /// It answers with an error.
    #[error("the remote node {server} refuses {method}: {code}: {message}")]
    Refused { server: Arc<str>, method: String, code: i64, message: String, data: Option<Box<str>> },
    /// Its answer is none that the method has.
    #[error("the answer of the remote node {server} to {method} cannot be used: {why}")]
    Answer { server: Arc<str>, method: String, why: String },
}

/// A node that answers over HTTP or HTTPS.
#[derive(Debug)]
pub(super) struct Client {
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    http: http::Client,
    /// Scheme, host and port: paths of providers hold keys, which no log should.
    server: Arc<str>,
    timeout: Duration,
    retries: u32,
    batch: usize,
    pace: Mutex<Pace>,
    places: Semaphore,
}

/// One answer of a batch.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Value>,
}

/// A failure of one exchange, and whether another one may succeed.
struct Miss {
    why: RemoteError,
    outlook: Outlook,
}

/// Result of each call of a batch.
type Results = Vec<Option<Result<Box<RawValue>, RemoteError>>>;

impl Client {
    /// # Errors
    /// The address is none of HTTP or HTTPS, the system trusts no certificates, or gives no threads.
    pub(super) fn new(config: &RemoteConfig) -> Result<Self, String> {
        let http = http::Client::new(&config.url)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("phalanx-remote")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let shared = Shared {
            server: http.to_string().into(),
            http,
            timeout: config.timeout,
            retries: config.retries,
            batch: config.batch.max(1),
            pace: Mutex::new(Pace::new(config.per_second)),
            places: Semaphore::new(AT_ONCE),
        };
        Ok(Self { runtime: Some(runtime), shared: Arc::new(shared) })
    }

    /// True if requests may go together.
    pub(super) fn takes_batches(&self) -> bool {
        self.shared.batch > 1
    }

    /// Scheme, host and port.
    pub(super) fn server(&self) -> &Arc<str> {
        &self.shared.server
    }

    /// Results of many requests, in order: of all, or the first error.
    pub(super) fn ask_all(&self, calls: Vec<Call>) -> Result<Vec<Box<RawValue>>, RemoteError> {
        let calls = calls.into_iter().map(|(method, params)| (method.to_owned(), params)).collect();
        self.wait(calls)
    }

    /// Result of one request.
    pub(super) fn ask(&self, method: &str, params: Value) -> Result<Box<RawValue>, RemoteError> {
        let mut results = self.wait(vec![(method.to_owned(), params)])?;
        results.pop().ok_or_else(|| self.shared.unusable(method, "it is not there"))
    }

    /// An answer that is not what its method answers.
    pub(super) fn unusable(&self, method: &str, why: impl core::fmt::Display) -> RemoteError {
        self.shared.unusable(method, why)
    }

    fn wait(&self, calls: Vec<(String, Value)>) -> Result<Vec<Box<RawValue>>, RemoteError> {
        let Some(runtime) = &self.runtime else { return Err(self.shared.away("a call", 0, "the node stops")) };
        let (reply, answer) = mpsc::sync_channel(1);
        let shared = Arc::clone(&self.shared);
        // The caller may be a thread of another runtime, which must not enter this one.
        runtime.spawn(async move {
            let mut results = Vec::with_capacity(calls.len());
            for part in calls.chunks(shared.batch) {
                match shared.persist(part).await {
                    Ok(found) => results.extend(found),
                    Err(error) => return drop(reply.send(Err(error))),
                }
            }
            let _ = reply.send(Ok(results));
        });
        answer.recv().unwrap_or_else(|_| Err(self.shared.away("a call", 0, "the node stops")))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waits for nothing, so that any thread may drop it.
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn away(&self, method: &str, tries: u32, why: impl core::fmt::Display) -> RemoteError {
        RemoteError::Away { server: Arc::clone(&self.server), method: method.into(), tries, why: why.to_string() }
    }

    fn unusable(&self, method: &str, why: impl core::fmt::Display) -> RemoteError {
        RemoteError::Answer { server: Arc::clone(&self.server), method: method.into(), why: why.to_string() }
    }

    /// Results of a batch. What fails and may pass is asked again.
    async fn persist(&self, calls: &[(String, Value)]) -> Result<Vec<Box<RawValue>>, RemoteError> {
        let mut results: Results = calls.iter().map(|_| None).collect();
        let mut failures = 0;
        loop {
            let open: Vec<usize> =
                results.iter().enumerate().filter(|(_, found)| found.is_none()).map(|(place, _)| place).collect();
            if open.is_empty() {
                break;
            }
            let Err(Miss { mut why, outlook }) = self.exchange(calls, &open, &mut results).await else { continue };
            failures += 1;
            let Some(pause) = tries::pause(outlook, failures, self.retries) else {
                if let RemoteError::Away { tries, .. } = &mut why {
                    *tries = failures;
                }
                return Err(why);
            };
            tracing::debug!(%why, ?pause, "asked again");
            time::sleep(pause).await;
        }
        results.into_iter().flatten().collect()
    }

    /// Asks for the open calls, and keeps the answers that are final.
    async fn exchange(&self, calls: &[(String, Value)], open: &[usize], results: &mut Results) -> Result<(), Miss> {
        let method = open.first().map_or("", |place| &calls[*place].0[..]);
        let passing = |why: RemoteError| Miss { why, outlook: Outlook::Passing(None) };
        let wait = self.pace.lock().enter(Instant::now(), open.len());
        time::sleep(wait).await;
        let list: Vec<Value> = open.iter().map(|place| request(*place, &calls[*place])).collect();
        // A server need not know batches.
        let body = if let [only] = &list[..] { only.to_string() } else { Value::from(list).to_string() };
        let posted = async {
            let _place = self.places.acquire().await;
            self.http.post(body, ANSWER).await
        };
        let posted = time::timeout(self.timeout, posted).await;
        let late = || passing(self.away(method, 1, format_args!("no answer within {:?}", self.timeout)));
        let response = posted.map_err(|_| late())?.map_err(|error: Failed| {
            let outlook = if error.is::<TooLong>() { Outlook::Final } else { Outlook::Passing(None) };
            Miss { why: self.away(method, 1, causes(&*error)), outlook }
        })?;
        let answers = answers(&response.body);
        if !response.status.is_success() && !answers.as_ref().is_ok_and(|all| all.iter().any(|one| one.error.is_some()))
        {
            let after = response.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
            let why = format!("HTTP status {}: {}", response.status, quoted(&response.body));
            let outlook = tries::of_status(response.status.as_u16(), after);
            return Err(Miss { why: self.away(method, 1, why), outlook });
        }
        let answers = answers
            .map_err(|error| passing(self.unusable(method, format_args!("{error}, in {}", quoted(&response.body)))))?;
        let mut passed = None;
        for Answer { id, result, error } in answers {
            // A lone answer with an error is about all of them.
            let place = id.as_ref().and_then(Value::as_u64).map(|id| id as usize).filter(|id| open.contains(id));
            let method = place.map_or(method, |place| &calls[place].0);
            if let Some(error) = error.filter(|error| !error.is_null()) {
                let (code, message) = (error["code"].as_i64().unwrap_or_default(), error["message"].as_str());
                let message = quoted(message.map_or_else(|| error.to_string(), str::to_owned).as_bytes());
                let outlook = tries::of_refusal(code, &message);
                let data = error.get("data").and_then(Value::as_str).map(Into::into);
                let server = Arc::clone(&self.server);
                let why = RemoteError::Refused { server, method: method.into(), code, message, data };
                match (place, outlook) {
                    (Some(place), Outlook::Final) => results[place] = Some(Err(why)),
                    (Some(_), Outlook::Passing(_)) => passed = Some(Miss { why, outlook }),
                    (None, outlook) => return Err(Miss { why, outlook }),
                }
                continue;
            }
            let Some(place) = place else {
                return Err(passing(self.unusable(method, "it has the id of no request")));
            };
            // `null` is a result too.
            results[place] = Some(Ok(result.unwrap_or_else(|| RawValue::NULL.to_owned())));
        }
        let is_missing = open.iter().any(|place| results[*place].is_none());
        match passed {
            Some(miss) => Err(miss),
            None if is_missing => Err(passing(self.unusable(method, "it lacks answers: is its batch too large?"))),
            None => Ok(()),
        }
    }
}

fn request(id: usize, (method, params): &(String, Value)) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Answers of a body, one or many.
fn answers(body: &[u8]) -> Result<Vec<Answer>, serde_json::Error> {
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => serde_json::from_slice(body),
        _ => serde_json::from_slice(body).map(|one| vec![one]),
    }
}

/// The beginning of an answer, for a message.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(QUOTED).collect();
    text.escape_debug().to_string()
}
