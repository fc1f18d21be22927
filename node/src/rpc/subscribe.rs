//! `eth_subscribe`: new heads, logs, transactions that wait, and the state of synchronisation, over WebSocket.
//!
//! A connection that does not read its notifications in time is closed: it never stays open without them.

use super::{
    api::Api,
    args::{Args, json},
    dispatch::Caller,
    error::RpcError,
    feed::{Event, Feed},
    ids, logs,
    outbox::Outbox,
    registry::{Method, Registry},
};
use crate::edge::{Account, Connection, Cut, Held, Pool};
use alloy_rpc_types_eth::Filter;
use jsonrpsee::types::{
    Params,
    error::{METHOD_NOT_FOUND_CODE, reject_too_many_subscriptions},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

/// Interval at which a notification is tried again that only the bytes of other connections hold up.
const RETRY: Duration = Duration::from_millis(50);

/// Maximum number of bytes of the filters of a connection, and of those that no other connection can take.
const FILTERS: usize = 1 << 20;
const OWN_FILTERS: usize = 16 << 10;

/// Number of comparisons after which other connections have their turn.
const TURN: usize = 4_096;

/// Subject of a subscription.
#[derive(Debug)]
enum Kind {
    NewHeads,
    Logs(Box<Filter>),
    Pending { full: bool },
    Syncing,
}

/// A subscription.
#[derive(Debug)]
struct Subscription {
    kind: Kind,
    /// Number of the first event.
    since: u64,
    _held: Held,
    _place: OwnedSemaphorePermit,
    _counted: Counted,
    _of_txs: Option<Counted>,
}

/// A subscription that begins behind the answer with its name.
#[derive(Debug)]
pub(super) struct Begun {
    name: Arc<str>,
    subscription: Subscription,
}

impl Begun {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Subscription that a feed counts.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Subscriptions of one connection.
#[derive(Debug)]
pub(super) struct Subscriptions {
    feed: Arc<Feed>,
    max: u32,
    /// Time that the connection may take for one notification.
    patience: Duration,
    places: Arc<Semaphore>,
    filters: Arc<Account>,
    live: Mutex<Live>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Live {
    by_name: BTreeMap<Arc<str>, Subscription>,
    /// Number of the next event to look at.
    next: u64,
}

/// Place in the notifications of one event: a subscription, and how many of its own are done.
#[derive(Clone, Debug)]
struct Place {
    name: Arc<str>,
    done: usize,
}

/// Result of a try to notify of one event.
#[derive(Debug)]
enum Notified {
    All,
    /// There is no room behind this place.
    Full(Place),
    /// Others have their turn before this place.
    Turn(Place),
}

pub(super) fn register(registry: &mut Registry) {
    registry.add("eth_subscribe", Method::Subscribe);
    registry.add("eth_unsubscribe", Method::Unsubscribe);
}

fn kind(args: &Args) -> Result<Kind, RpcError> {
    match &args.required(0, json::<String>)?[..] {
        "newHeads" => Ok(Kind::NewHeads),
        "logs" => {
            let filter = args.optional(1, logs::filter)?.unwrap_or_default();
            logs::bounded(&filter)?;
            Ok(Kind::Logs(Box::new(filter)))
        }
        "newPendingTransactions" => Ok(Kind::Pending { full: args.optional(1, json::<bool>)?.unwrap_or_default() }),
        "syncing" => Ok(Kind::Syncing),
        other => Err(RpcError::invalid(format!("no \"{other}\" subscription in eth namespace"))),
    }
}

/// Memory of a subscription, in bytes.
fn bytes(kind: &Kind) -> usize {
    let Kind::Logs(filter) = kind else { return 256 };
    let topics: usize = filter.topics.iter().map(|topics| topics.len()).sum();
    // A set has room for twice what it holds.
    512 + 2 * (20 * filter.address.len() + 32 * topics)
}

fn of(caller: &Caller) -> Result<&Arc<Subscriptions>, RpcError> {
    let none = || RpcError::of(METHOD_NOT_FOUND_CODE, "notifications not supported");
    caller.subscriptions.as_ref().ok_or_else(none)
}

/// Makes a subscription, which begins with [`Subscriptions::start`]. It misses nothing from now on.
pub(super) fn begin(params: &Params<'_>, caller: &Caller) -> Result<Begun, RpcError> {
    let subscriptions = of(caller)?;
    let kind = kind(&Args::read(params, 2)?)?;
    let place = Arc::clone(&subscriptions.places).try_acquire_owned().map_err(|_| {
        let error = reject_too_many_subscriptions(subscriptions.max);
        RpcError::of(error.code(), error.message())
    })?;
    let held = subscriptions.filters.take(bytes(&kind)).map_err(|full| RpcError::limit(full.to_string()))?;
    let counted = Counted::new(&subscriptions.feed.subscribers);
    let of_txs = matches!(kind, Kind::Pending { .. }).then(|| Counted::new(&subscriptions.feed.of_txs));
    let since = subscriptions.feed.next();
    let subscription = Subscription { kind, since, _held: held, _place: place, _counted: counted, _of_txs: of_txs };
    Ok(Begun { name: ids::random().into(), subscription })
}

/// Ends a subscription. Returns true if there was one.
pub(super) fn end(params: &Params<'_>, caller: &Caller) -> Result<bool, RpcError> {
    let name = Args::read(params, 1)?.required(0, json::<String>)?;
    let ended = of(caller)?.live.lock().by_name.remove(&*name);
    Ok(ended.is_some())
}

impl Subscriptions {
    pub(super) fn new(api: &Api, feed: &Arc<Feed>, pool: &Arc<Pool>) -> Arc<Self> {
        let max = api.limits.max_subscriptions;
        Arc::new(Self {
            feed: Arc::clone(feed),
            max,
            patience: api.limits.patience,
            places: Arc::new(Semaphore::new(max as usize)),
            filters: Account::new(pool, OWN_FILTERS, FILTERS),
            live: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Sends the answer that names subscriptions, and begins them: no notification overtakes their names.
    pub(super) fn start(&self, begun: Vec<Begun>, outbox: &Outbox, answer: impl FnOnce()) {
        if begun.is_empty() {
            return answer();
        }
        let mut live = self.live.lock();
        answer();
        for Begun { name, subscription } in begun {
            if live.by_name.is_empty() {
                live.next = subscription.since;
            }
            if let Kind::Syncing = subscription.kind {
                // A node without peers has nothing to catch up with. The message is short.
                outbox.event(&name, &"false".into());
            }
            live.by_name.insert(name, subscription);
        }
        drop(live);
        self.changed.notify_one();
    }

    /// Notifies of every event. Ends when the connection does not read its notifications.
    pub(super) async fn follow(&self, outbox: &Outbox, connection: &Connection) {
        let mut changes = self.feed.changes();
        loop {
            changes.mark_unchanged();
            let Some(number) = self.number() else {
                self.changed.notified().await;
                continue;
            };
            let Ok(event) = self.feed.get(number) else { return connection.cut(Cut::Behind) };
            let Some(event) = event else {
                if changes.changed().await.is_err() {
                    // The server stops.
                    return core::future::pending().await;
                }
                continue;
            };
            if !self.notify(number, event, outbox).await {
                return connection.cut(Cut::Behind);
            }
            self.live.lock().next = number + 1;
        }
    }

    /// Number of the next event, if something is subscribed to.
    fn number(&self) -> Option<u64> {
        let live = self.live.lock();
        (!live.by_name.is_empty()).then_some(live.next)
    }

    /// Notifies of one event. Returns false if that takes too long: the event is not held while it waits.
    async fn notify(&self, number: u64, event: Arc<Event>, outbox: &Outbox) -> bool {
        let (mut event, mut place, mut until) = (Some(event), None, Instant::now() + self.patience);
        loop {
            let Some(found) = event.take().or_else(|| self.feed.get(number).ok().flatten()) else { return false };
            match self.push(number, &found, place.as_ref(), outbox) {
                Notified::All => return true,
                Notified::Turn(next) => {
                    (event, place) = (Some(found), Some(next));
                    tokio::task::yield_now().await;
                }
                Notified::Full(next) => {
                    drop(found);
                    place = Some(next);
                    // What leaves makes room, or the pool has some again.
                    if timeout(RETRY, outbox.emptied()).await.is_ok() {
                        until = Instant::now() + self.patience;
                    }
                    if Instant::now() >= until {
                        return false;
                    }
                }
            }
        }
    }

    /// Puts the notifications of an event behind a place into the outbox.
    fn push(&self, number: u64, event: &Event, from: Option<&Place>, outbox: &Outbox) -> Notified {
        let live = self.live.lock();
        let first = from.map_or_else(|| "".into(), |place| Arc::clone(&place.name));
        let mut turn = TURN;
        for (name, subscription) in live.by_name.range(first..) {
            if subscription.since > number {
                continue;
            }
            let done = from.filter(|place| place.name == *name).map_or(0, |place| place.done);
            for (place, json) in notifications(&subscription.kind, event).skip(done) {
                let at = || Place { name: Arc::clone(name), done: place };
                let Some(left) = turn.checked_sub(1) else { return Notified::Turn(at()) };
                turn = left;
                if let Some(json) = json
                    && !outbox.event(name, json)
                {
                    return Notified::Full(at());
                }
            }
        }
        Notified::All
    }
}

/// Notifications that a subscription gets of an event: one for every candidate that matches, by the candidate's place.
fn notifications<'e>(kind: &'e Kind, event: &'e Event) -> impl Iterator<Item = (usize, Option<&'e Arc<str>>)> {
    let (mut one, mut logs) = (None, None);
    match (kind, event) {
        (Kind::NewHeads, Event::Block(block)) => one = Some(block.head()),
        (Kind::Logs(filter), Event::Block(_) | Event::Removed(_)) => {
            let all = event.logs().iter();
            logs = Some(all.map(move |(log, json)| logs::matches(log, filter).then_some(json)));
        }
        (Kind::Pending { full: false }, Event::Admitted(waiting)) => one = Some(waiting.hash()),
        (Kind::Pending { full: true }, Event::Admitted(waiting)) => one = Some(waiting.full()),
        _ => {}
    }
    one.into_iter().map(Some).chain(logs.into_iter().flatten()).enumerate()
}
