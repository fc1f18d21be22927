//! Books of one connection: what it holds, what it is doing, and until when it may. Time is passed in.

use super::{
    pace::{Pace, Transfer},
    pool::{Account, Full, Held},
};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Limits of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Speed of requests and of answers.
    pub(crate) pace: Pace,
    /// Time until a connection has begun its first request.
    pub(crate) first: Duration,
    /// Time for which a connection may be idle.
    pub(crate) idle: Duration,
}

/// Reason for which the node has closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cut {
    /// No request came, or no pong.
    Idle,
    /// A request did not arrive at the least speed.
    SlowRequest,
    /// An answer was not read at the least speed.
    Unread,
    /// Requests that arrive hold too many bytes.
    Full,
    /// Notifications were not read in time.
    Behind,
}

impl Cut {
    pub(crate) const ALL: [Self; 5] = [Self::Idle, Self::SlowRequest, Self::Unread, Self::Full, Self::Behind];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::SlowRequest => "slow_request",
            Self::Unread => "unread",
            Self::Full => "full",
            Self::Behind => "behind",
        }
    }
}

/// Books of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    patience: Patience,
    /// Bytes of requests, from their first byte to their answer.
    pub(crate) requests: Arc<Account>,
    /// Bytes of answers and notifications, until the kernel has taken them.
    pub(crate) answers: Arc<Account>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Bytes that have arrived, of a request that is not complete.
    arrived: Held,
    /// Last sign of life.
    seen: Instant,
    /// Answer that waits for its reader.
    unread: Option<Transfer>,
    /// True if messages of both sides are independent: then only what arrives is a sign of life.
    is_duplex: bool,
    cut: Option<Cut>,
}

/// Phase of a connection, by what the client does.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No byte has come yet.
    New,
    /// Between requests.
    Idle,
    /// A request arrives.
    Arriving(Transfer),
    /// A request is being answered.
    Waiting,
}

impl Connection {
    pub(crate) fn new(patience: Patience, requests: Arc<Account>, answers: Arc<Account>, now: Instant) -> Arc<Self> {
        let arrived = requests.empty();
        let state = State { phase: Phase::New, arrived, seen: now, unread: None, is_duplex: false, cut: None };
        Arc::new(Self { patience, requests, answers, state: Mutex::new(state) })
    }

    /// Notes bytes that have arrived.
    pub(super) fn arrived(&self, bytes: usize, now: Instant) -> Result<(), Full> {
        let mut state = self.state.lock();
        state.seen = now;
        if matches!(state.phase, Phase::New | Phase::Idle) {
            state.phase = Phase::Arriving(Transfer::begin(now));
        }
        if let Phase::Arriving(transfer) = &mut state.phase {
            transfer.advance(bytes, now);
        }
        let grown = state.arrived.grow(bytes);
        if grown.is_err() {
            state.cut = Some(Cut::Full);
        }
        grown
    }

    /// Time until which something must arrive.
    pub(super) fn read_deadline(&self) -> Option<Instant> {
        let state = self.state.lock();
        match state.phase {
            Phase::New => Some(state.seen + self.patience.first),
            Phase::Idle => Some(state.seen + self.patience.idle),
            Phase::Arriving(transfer) => Some(transfer.deadline(self.patience.pace)),
            Phase::Waiting => None,
        }
    }

    /// Notes that nothing arrived in time.
    pub(super) fn read_late(&self) {
        let mut state = self.state.lock();
        state.cut = Some(if matches!(state.phase, Phase::Arriving(_)) { Cut::SlowRequest } else { Cut::Idle });
    }

    /// Notes bytes that the kernel has taken, and whether more of the same write wait.
    pub(super) fn taken(&self, bytes: usize, is_all: bool, now: Instant) {
        let mut state = self.state.lock();
        if !state.is_duplex {
            state.seen = now;
        }
        match &mut state.unread {
            _ if is_all => state.unread = None,
            Some(transfer) => transfer.advance(bytes, now),
            None => {}
        }
    }

    /// Time until which the kernel must take something, now that it takes nothing.
    pub(super) fn write_deadline(&self, now: Instant) -> Instant {
        let mut state = self.state.lock();
        state.unread.get_or_insert_with(|| Transfer::begin(now)).deadline(self.patience.pace)
    }

    /// Notes that nothing was read in time.
    pub(super) fn write_late(&self) {
        self.cut(Cut::Unread);
    }

    /// A request begins, of which bytes may have arrived before.
    pub(crate) fn begin(&self, now: Instant) {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Arriving(_)) {
            state.phase = Phase::Arriving(Transfer::begin(now));
        }
    }

    /// A request is complete: the bytes that have arrived are its own.
    pub(crate) fn complete(&self, now: Instant) -> Held {
        let mut state = self.state.lock();
        state.phase = if state.is_duplex { Phase::Idle } else { Phase::Waiting };
        state.seen = now;
        let nothing = self.requests.empty();
        core::mem::replace(&mut state.arrived, nothing)
    }

    /// Nothing is asked any more. Bytes that nothing has claimed were those of a request without a body.
    pub(crate) fn rest(&self, now: Instant) {
        let mut state = self.state.lock();
        (state.phase, state.seen) = (Phase::Idle, now);
        state.arrived.shrink(0);
    }

    /// Messages of both sides are independent from now on.
    pub(crate) fn upgrade(&self, now: Instant) {
        self.state.lock().is_duplex = true;
        self.rest(now);
    }

    /// Notes why the node closes the connection: the first reason counts.
    pub(crate) fn cut(&self, why: Cut) {
        self.state.lock().cut.get_or_insert(why);
    }

    /// The reason for which the node has closed the connection, if it has.
    pub(crate) fn why(&self) -> Option<Cut> {
        self.state.lock().cut
    }
}

#[cfg(test)]
mod tests {
    use super::{super::pool::Pool, *};

    const PATIENCE: Patience = Patience {
        pace: Pace { patience: Duration::from_secs(20), rate: 1_000 },
        first: Duration::from_secs(30),
        idle: Duration::from_secs(120),
    };

    fn connection(begun: Instant) -> Arc<Connection> {
        let account = || Account::new(&Pool::new(1_000), 0, 100);
        Connection::new(PATIENCE, account(), account(), begun)
    }

    #[test]
    fn every_phase_of_a_request_has_its_deadline() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let connection = connection(begun);
        assert_eq!(connection.read_deadline(), Some(at(30)), "the first byte");
        connection.arrived(10, at(5)).expect("room");
        assert_eq!(connection.read_deadline(), Some(at(25)), "the head");
        connection.begin(at(6));
        connection.arrived(10, at(7)).expect("room");
        assert_eq!(connection.read_deadline(), Some(at(25)), "the body: begun with the head");
        let held = connection.complete(at(8));
        assert_eq!((held.bytes(), connection.read_deadline()), (20, None), "it is answered");
        connection.rest(at(50));
        assert_eq!(connection.read_deadline(), Some(at(170)), "idle");
        connection.taken(5, true, at(60));
        assert_eq!(connection.read_deadline(), Some(at(180)), "idle behind the answer");
        connection.read_late();
        assert_eq!(connection.why(), Some(Cut::Idle));
    }

    #[test]
    fn only_what_arrives_keeps_a_websocket() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let connection = connection(begun);
        connection.upgrade(at(1));
        connection.taken(100, true, at(100));
        assert_eq!(connection.read_deadline(), Some(at(121)), "a ping that was sent is no sign of life");
        connection.arrived(6, at(110)).expect("room");
        drop(connection.complete(at(110)));
        assert_eq!((connection.read_deadline(), connection.requests.held()), (Some(at(230)), 0));
    }

    #[test]
    fn an_unread_answer_has_a_deadline_from_its_first_wait() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let connection = connection(begun);
        connection.taken(1_000_000, false, at(1));
        assert_eq!(connection.write_deadline(at(2)), at(22));
        assert_eq!(connection.write_deadline(at(10)), at(22), "it waits since then");
        connection.taken(500, false, at(15));
        assert_eq!(connection.write_deadline(at(16)), at(22), "a trickle is too slow");
        connection.taken(500, true, at(17));
        assert_eq!(connection.write_deadline(at(30)), at(50), "the next answer");
    }

    #[test]
    fn requests_that_arrive_are_bounded() {
        let connection = connection(Instant::now());
        let now = Instant::now();
        assert_eq!(connection.arrived(100, now), Ok(()));
        let held = connection.complete(now);
        assert_eq!(connection.arrived(1, now), Err(Full::Connection { max: 100 }));
        assert_eq!(connection.why(), Some(Cut::Full));
        drop(held);
        assert_eq!(connection.arrived(1, now), Ok(()));
    }
}
