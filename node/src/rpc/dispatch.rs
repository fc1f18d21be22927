//! From a body to its answer: requests are read, places taken, methods run, times measured, and answers encoded, once for all.

use super::{
    answer::{self, Answer, Out},
    api::Api,
    args::Args,
    error::RpcError,
    registry::{Load, Method, Registry, Run},
    request::{self, Body, Member},
    subscribe::{self, Begun, Subscriptions},
    wait,
};
use crate::edge::{Connection, Held};
use jsonrpsee::types::{
    ErrorObjectOwned, Params,
    error::{ErrorCode, TOO_BIG_BATCH_RESPONSE_CODE, TOO_BIG_BATCH_RESPONSE_MSG, reject_too_big_batch_request},
};
use serde_json::value::RawValue;
use std::{collections::HashMap, sync::Arc, time::Instant};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

/// Methods, and what they run on.
#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) api: Arc<Api>,
    methods: HashMap<&'static str, Method>,
}

/// Connection that a request came on.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) connection: Arc<Connection>,
    /// Places of heavy calls that the connection may take.
    places: Arc<Semaphore>,
    /// Subscriptions of the connection, if it can be notified.
    pub(super) subscriptions: Option<Arc<Subscriptions>>,
}

/// Answer to a body.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// `None` if nothing is asked for.
    pub(super) answer: Option<Answer>,
    /// Subscriptions that begin right behind the answer.
    pub(super) begun: Vec<Begun>,
}

impl Caller {
    pub(super) fn new(api: &Api, connection: Arc<Connection>, subscriptions: Option<Arc<Subscriptions>>) -> Self {
        // A quarter for one: others find a place also if a connection asks for everything at once.
        let places = Arc::new(Semaphore::new((api.limits.max_calls / 4).max(1)));
        Self { connection, places, subscriptions }
    }
}

impl Dispatch {
    pub(super) fn new(api: Arc<Api>, registry: Registry) -> Arc<Self> {
        Arc::new(Self { api, methods: registry.methods })
    }

    /// Answers a body, whose bytes are held until then.
    pub(super) async fn answer(&self, body: &[u8], mut held: Held, caller: &Caller) -> Reply {
        let mut reply = Reply::default();
        if let Err(full) = held.grow(request::decoded_bytes(body)) {
            reply.answer = Some(answer::error(RawValue::NULL, RpcError::limit(full.to_string())));
            return reply;
        }
        reply.answer = match Body::read(body) {
            Ok(Body::One(text)) => self.one(text, caller, &mut reply.begun).await,
            Ok(Body::Batch(texts)) => self.batch(&texts, caller, &mut reply.begun).await,
            Err(error) => Some(answer::error(RawValue::NULL, error)),
        };
        reply
    }

    async fn batch(&self, texts: &[&RawValue], caller: &Caller, begun: &mut Vec<Begun>) -> Option<Answer> {
        let wrong = |error: ErrorObjectOwned| Some(answer::error(RawValue::NULL, error));
        let max = self.api.limits.max_batch as usize;
        if texts.is_empty() {
            return wrong(ErrorCode::InvalidRequest.into());
        }
        if texts.len() > max {
            return wrong(reject_too_big_batch_request(max));
        }
        let mut all = self.out(caller);
        for text in texts {
            let Some(answer) = self.one(text, caller, begun).await else { continue };
            let separator: &[u8] = if all.len() == 0 { b"[" } else { b"," };
            if all.append(separator).and_then(|()| all.append(answer.as_ref())).is_err() {
                // Nothing goes on whose name the client does not get.
                begun.clear();
                return wrong(RpcError::of(TOO_BIG_BATCH_RESPONSE_CODE, TOO_BIG_BATCH_RESPONSE_MSG).into());
            }
        }
        if all.len() == 0 {
            return None;
        }
        match all.append(b"]") {
            Ok(()) => Some(all.finish()),
            Err(error) => {
                begun.clear();
                wrong(error.into())
            }
        }
    }

    async fn one(&self, text: &RawValue, caller: &Caller, begun: &mut Vec<Begun>) -> Option<Answer> {
        let (id, request) = match request::read(text) {
            Member::Call(id, request) => (id, request),
            Member::Notification => return None,
            Member::Wrong(id, error) => return Some(answer::refused(&caller.connection.answers, id, error)),
        };
        let Some((&name, method)) = self.methods.get_key_value(&*request.method) else {
            return Some(answer::refused(&caller.connection.answers, id, ErrorCode::MethodNotFound));
        };
        let (since, params) = (Instant::now(), Params::new(request.params.map(RawValue::get)));
        let answer = match method {
            Method::Run { most, load, run } => self.run((*most, *load, run), params, id, caller).await,
            Method::Wait => match wait::answer(&params, &self.api).await {
                Ok(receipt) => self.write(id, &receipt, caller),
                Err(error) => Err(error),
            },
            Method::Subscribe => match subscribe::begin(&params, caller) {
                Ok(new) => {
                    let named = self.write(id, new.name(), caller);
                    if named.is_ok() {
                        begun.push(new);
                    }
                    named
                }
                Err(error) => Err(error),
            },
            Method::Unsubscribe => match subscribe::end(&params, caller) {
                Ok(was) => self.write(id, &was, caller),
                Err(error) => Err(error),
            },
        };
        self.api.metrics.request(name, answer.is_err(), since.elapsed());
        Some(answer.unwrap_or_else(|error| answer::refused(&caller.connection.answers, id, error)))
    }

    fn out(&self, caller: &Caller) -> Out {
        Out::new(&caller.connection.answers, self.api.limits.max_response as usize)
    }

    fn write(
        &self,
        id: &RawValue,
        result: &(impl serde::Serialize + ?Sized),
        caller: &Caller,
    ) -> Result<Answer, RpcError> {
        let mut out = self.out(caller);
        out.result(id, result)?;
        Ok(out.finish())
    }

    async fn run(
        &self,
        (most, load, run): (usize, Load, &Run),
        params: Params<'_>,
        id: &RawValue,
        caller: &Caller,
    ) -> Result<Answer, RpcError> {
        let place = match load {
            Load::Light => None,
            Load::Heavy => Some(self.place(caller).await?),
        };
        let (api, run, mut out) = (Arc::clone(&self.api), Arc::clone(run), self.out(caller));
        let (params, id) = (params.into_owned(), id.to_owned());
        let work = move || {
            let _place = place;
            let args = Args::read(&params, most).map_err(RpcError::from)?;
            run(&api, &args, &id, &mut out)?;
            Ok(out.finish())
        };
        // A panic is a bug of the node: the client gets an error, and the node goes on.
        spawn_blocking(work)
            .await
            .unwrap_or_else(|_| Err(RpcError::internal("the method panicked; see the node's log")))
    }

    /// A place of a heavy call: of the connection first, so that one connection cannot fill the line of all.
    async fn place(&self, caller: &Caller) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), RpcError> {
        let max = self.api.limits.max_queued;
        let both = async {
            let own = Arc::clone(&caller.places).acquire_owned().await.ok()?;
            Some((own, Arc::clone(&self.api.calls).acquire_owned().await.ok()?))
        };
        let placed = timeout(max, both).await.ok().flatten();
        placed.ok_or_else(|| RpcError::limit(format!("no place for the call came free within {max:?}: retry later")))
    }
}
