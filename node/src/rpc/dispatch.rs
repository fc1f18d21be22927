//! From a body to its answer: requests are read, places taken, methods run, times measured, and answers encoded, once for all.

use super::{
    answer::{self, Answer, Out},
    api::Api,
    args::{Args, BlockRef},
    blocks,
    error::RpcError,
    reads::{self, Read, Waiter, panicked},
    registry::{Load, Method, Quick, Registry, Run},
    request::{self, Body, Member, Request},
    send,
    subscribe::{self, Begun, Subscriptions},
    wait,
};
use crate::{
    config::DEV_NAMESPACES,
    edge::{Connection, Held},
};
use alloy_primitives::Bytes;
use jsonrpsee::types::{
    ErrorObjectOwned, Params,
    error::{
        ErrorCode, METHOD_NOT_FOUND_CODE, TOO_BIG_BATCH_RESPONSE_CODE, TOO_BIG_BATCH_RESPONSE_MSG,
        reject_too_big_batch_request,
    },
};
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

/// Name of the method that offers a transaction.
const SEND: &str = "eth_sendRawTransaction";

/// Maximum number of transactions of a batch that are offered together: a longer one would find no room ever.
const TOGETHER: usize = 4_096;

/// Maximum number of calls of a batch that run on one thread, one after the other.
const TOGETHER_READ: usize = 256;

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

/// Reason for which a batch has no answers.
#[derive(Debug)]
enum Unanswered {
    /// They have no room.
    TooLong,
    /// A thread has panicked.
    Panicked,
}

impl From<RpcError> for Unanswered {
    fn from(_: RpcError) -> Self {
        Self::TooLong
    }
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

    /// True if requests of one connection have an order: where a consensus client drives the node.
    pub(super) fn has_order(&self) -> bool {
        self.methods.contains_key("engine_forkchoiceUpdatedV1")
    }

    /// Answers a body, whose bytes are held until then.
    pub(super) async fn answer(&self, body: &[u8], mut held: Held, caller: &Caller) -> Reply {
        let mut reply = Reply::default();
        if let Err(full) = held.grow(request::decoded_bytes(body)) {
            reply.answer = Some(answer::error(RawValue::NULL, RpcError::limit(full.to_string())));
            return reply;
        }
        reply.answer = match Body::read(body) {
            Ok(Body::One(text)) => self.one(request::read(text), caller, &mut reply.begun).await,
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
        match self.members(texts, caller, begun, &mut all).await {
            Ok(()) if all.len() == 0 => None,
            Ok(()) => Some(all.finish()),
            Err(why) => {
                // Nothing goes on whose name the client does not get.
                begun.clear();
                wrong(match why {
                    Unanswered::TooLong => RpcError::of(TOO_BIG_BATCH_RESPONSE_CODE, TOO_BIG_BATCH_RESPONSE_MSG).into(),
                    Unanswered::Panicked => panicked().into(),
                })
            }
        }
    }

    /// Writes the answers to the members of a batch, in order. Transactions that follow each other are offered together, and calls
    /// that may read the disk share a thread.
    async fn members(
        &self,
        texts: &[&RawValue],
        caller: &Caller,
        begun: &mut Vec<Begun>,
        all: &mut Out,
    ) -> Result<(), Unanswered> {
        let (mut sends, mut reads) = (Vec::new(), Vec::new());
        // A long batch of quick calls is no quick call.
        let mut quick_bytes = blocks::QUICK_BYTES;
        for text in texts {
            let member = request::read(text);
            let call = if let Member::Call(id, request) = &member {
                self.methods.get_key_value(&*request.method).map(|(name, method)| (*id, request, *name, method))
            } else {
                None
            };
            if let Some((id, request, _, Method::Send)) = call {
                self.read(core::mem::take(&mut reads), caller, all).await?;
                if sends.len() == TOGETHER {
                    self.offer(core::mem::take(&mut sends), caller, all).await?;
                }
                sends.push((id, send::read(&params(request))));
                continue;
            }
            self.offer(core::mem::take(&mut sends), caller, all).await?;
            if let Some((id, request, name, Method::Run { most, load: Load::Light(quick), run })) = call {
                let (most, params) = (*most, params(request));
                // Behind one that waits the next ones wait with it.
                if !reads.is_empty() || !self.is_quick(*quick, &params, most, &mut quick_bytes) {
                    if reads.len() == TOGETHER_READ {
                        self.read(core::mem::take(&mut reads), caller, all).await?;
                    }
                    let (params, id) = (params.into_owned(), id.to_owned());
                    reads.push(Read { name, most, run: Arc::clone(run), params, id });
                    continue;
                }
            }
            self.read(core::mem::take(&mut reads), caller, all).await?;
            if let Some(answer) = self.one(member, caller, begun).await {
                all.append_next(answer.as_ref())?;
            }
        }
        self.offer(sends, caller, all).await?;
        self.read(reads, caller, all).await?;
        if all.len() > 0 {
            all.append(b"]")?;
        }
        Ok(())
    }

    /// True if a call of a few reads is answered from memory, and what it counts was left. Arguments that cannot be read count as a call
    /// without content: their answer is an error.
    fn is_quick(&self, quick: Quick, params: &Params<'_>, most: usize, left: &mut usize) -> bool {
        if self.api.chain.remote.is_some() || *left < blocks::CALL {
            return false;
        }
        let counted = Args::read(params, most).map_or(Some(blocks::CALL), |args| quick(&self.api, &args));
        let rest = counted.and_then(|bytes| left.checked_sub(bytes));
        *left = rest.unwrap_or(*left);
        rest.is_some()
    }

    /// Runs calls that follow each other on one thread that may wait, and writes their answers.
    async fn read(&self, reads: Vec<Read>, caller: &Caller, all: &mut Out) -> Result<(), Unanswered> {
        if reads.is_empty() {
            return Ok(());
        }
        let (api, account) = (Arc::clone(&self.api), Arc::clone(&caller.connection.answers));
        let mut out = core::mem::replace(all, self.out(caller));
        // It is dropped with this future, if the client goes.
        let waiter = Waiter::default();
        let watch = waiter.watch();
        let work = move || {
            let appended = reads::append(&api, &reads, &account, &watch, &mut out);
            (out, appended)
        };
        let (out, appended) = spawn_blocking(work).await.map_err(|_| Unanswered::Panicked)?;
        drop(waiter);
        *all = out;
        Ok(appended?)
    }

    /// Offers the transactions of calls that follow each other, and writes their answers.
    async fn offer(
        &self,
        mut sends: Vec<(&RawValue, Result<Bytes, RpcError>)>,
        caller: &Caller,
        all: &mut Out,
    ) -> Result<(), Unanswered> {
        if sends.is_empty() {
            return Ok(());
        }
        let since = Instant::now();
        let txs = sends.iter_mut().filter_map(|(_, tx)| tx.as_mut().ok().map(core::mem::take)).collect();
        let mut sent = send::all(&self.api, txs).await.into_iter();
        for (id, read) in sends {
            let sent = read.and_then(|_| sent.next().unwrap_or_else(|| Err(RpcError::internal("no answer"))));
            self.api.metrics.rpc.request(SEND, sent.is_err(), since.elapsed());
            all.begin_next()?;
            match sent {
                Ok(hash) => all.result(id, &hash)?,
                Err(error) => all.append(answer::refused(&caller.connection.answers, id, error).as_ref())?,
            }
        }
        Ok(())
    }

    async fn one(&self, member: Member<'_>, caller: &Caller, begun: &mut Vec<Begun>) -> Option<Answer> {
        let (id, request) = match member {
            Member::Call(id, request) => (id, request),
            Member::Notification => return None,
            Member::Wrong(id, error) => return Some(answer::refused(&caller.connection.answers, id, error)),
        };
        let Some((&name, method)) = self.methods.get_key_value(&*request.method) else {
            return Some(answer::refused(&caller.connection.answers, id, self.missing(&request.method)));
        };
        let (since, params) = (Instant::now(), params(&request));
        let answer = match method {
            Method::Send => match send::read(&params) {
                Ok(tx) => match send::all(&self.api, vec![tx]).await.pop() {
                    Some(Ok(hash)) => self.write(id, &hash, caller),
                    Some(Err(error)) => Err(error),
                    None => Err(RpcError::internal("no answer")),
                },
                Err(error) => Err(error),
            },
            Method::Run { most, load, run } => self.run(name, (*most, *load, run), params, id, caller).await,
            Method::Wait => wait::answer(&params, &self.api, id, self.out(caller)).await,
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
        self.api.metrics.rpc.request(name, answer.is_err(), since.elapsed());
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
        name: &'static str,
        (most, load, run): (usize, Load, &Run),
        params: Params<'_>,
        id: &RawValue,
        caller: &Caller,
    ) -> Result<Answer, RpcError> {
        // Another node may have to be asked.
        let may_wait = self.api.chain.remote.is_some();
        let place = match load {
            Load::Instant(_) | Load::Light(_) if may_wait => None,
            Load::Instant(_) | Load::Light(_) => {
                let args = Args::read(&params, most)?;
                let waits = match load {
                    Load::Instant(block) => {
                        block.is_some_and(|place| args.block(place).as_ref() != Ok(&BlockRef::Latest))
                    }
                    // The method looks again. A block that has left memory in between, as it was the oldest or the chain went back,
                    // costs one read of the disk here: no more than the few reads of one light method.
                    Load::Light(quick) => quick(&self.api, &args).is_none(),
                    Load::Heavy => true,
                };
                if !waits {
                    let mut out = self.out(caller);
                    let ran = catch_unwind(AssertUnwindSafe(|| run(&self.api, &args, id, &mut out)));
                    return ran.map_err(|_| panicked())?.map(|()| out.finish());
                }
                None
            }
            Load::Heavy => Some(self.place(caller).await?),
        };
        let (api, out) = (Arc::clone(&self.api), self.out(caller));
        let read = Read { name, most, run: Arc::clone(run), params: params.into_owned(), id: id.to_owned() };
        let work = move || {
            let _place = place;
            read.answer(&api, out)
        };
        spawn_blocking(work).await.unwrap_or_else(|_| Err(panicked()))
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

    /// Error of a method that is not served.
    fn missing(&self, method: &str) -> ErrorObjectOwned {
        let namespace = method.split('_').next().unwrap_or_default();
        let of = |name: &&str| name.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('_'));
        if !DEV_NAMESPACES.contains(&namespace) || self.methods.keys().any(of) {
            return ErrorCode::MethodNotFound.into();
        }
        let why = "methods of development need a node that is started with --dev, and their namespace in its --rpc-api";
        RpcError::of(METHOD_NOT_FOUND_CODE, format!("Method not found: {why}")).into()
    }
}

fn params<'r>(request: &Request<'r>) -> Params<'r> {
    Params::new(request.params.map(RawValue::get))
}
