//! Messages that wait for a WebSocket: answers, which requests in flight bound, and notifications, which bytes bound.

use super::answer::Answer;
use crate::edge::{Account, Held};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// Memory of a waiting notification beside its JSON, in bytes.
const OVERHEAD: usize = 128;

/// A message to write.
#[derive(Debug)]
pub(super) enum Message {
    /// An answer, with the place of its request among those in flight.
    Answer(Answer, OwnedSemaphorePermit),
    /// Event of a subscription. The JSON is that of all subscribers.
    Event {
        name: Arc<str>,
        json: Arc<str>,
        _held: Held,
    },
    Pong(Vec<u8>),
    /// The last message, with a code of RFC 6455.
    Close(u16),
}

/// Messages of one connection.
#[derive(Debug)]
pub(super) struct Outbox {
    account: Arc<Account>,
    /// Maximum number of bytes of waiting notifications.
    max: usize,
    waiting: Mutex<Waiting>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    /// Bytes of notifications.
    bytes: usize,
    /// The last ping's: an earlier one needs no answer.
    pong: Option<Vec<u8>>,
    close: Option<u16>,
}

impl Outbox {
    pub(super) fn new(account: &Arc<Account>, max: usize) -> Arc<Self> {
        let account = Arc::clone(account);
        Arc::new(Self { account, max, waiting: Mutex::default(), filled: Notify::new(), emptied: Notify::new() })
    }

    pub(super) fn answer(&self, answer: Answer, place: OwnedSemaphorePermit) {
        self.waiting.lock().messages.push_back(Message::Answer(answer, place));
        self.filled.notify_one();
    }

    /// Adds a notification. Returns false if there is no room: an empty outbox has room for any that the pool has.
    pub(super) fn event(&self, name: &Arc<str>, json: &Arc<str>) -> bool {
        let bytes = json.len() + OVERHEAD;
        let mut waiting = self.waiting.lock();
        if waiting.bytes > 0 && waiting.bytes + bytes > self.max {
            return false;
        }
        let Ok(held) = self.account.take(bytes) else { return false };
        waiting.bytes += bytes;
        waiting.messages.push_back(Message::Event { name: Arc::clone(name), json: Arc::clone(json), _held: held });
        drop(waiting);
        self.filled.notify_one();
        true
    }

    pub(super) fn pong(&self, payload: Vec<u8>) {
        self.waiting.lock().pong = Some(payload);
        self.filled.notify_one();
    }

    /// Ends the connection behind the messages that wait.
    pub(super) fn close(&self, code: u16) {
        self.waiting.lock().close.get_or_insert(code);
        self.filled.notify_one();
    }

    /// Takes the next message, once there is one.
    pub(super) async fn next(&self) -> Message {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.filled.notified().await;
        }
    }

    /// The next message, if one waits.
    pub(super) fn take(&self) -> Option<Message> {
        let mut waiting = self.waiting.lock();
        if let Some(payload) = waiting.pong.take() {
            return Some(Message::Pong(payload));
        }
        let Some(message) = waiting.messages.pop_front() else { return waiting.close.take().map(Message::Close) };
        if let Message::Event { json, .. } = &message {
            waiting.bytes -= json.len() + OVERHEAD;
            drop(waiting);
            self.emptied.notify_one();
        }
        Some(message)
    }

    /// Waits until a notification has left.
    pub(super) async fn emptied(&self) {
        self.emptied.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::Pool;

    fn event(bytes: usize) -> Arc<str> {
        "x".repeat(bytes - OVERHEAD).into()
    }

    #[test]
    fn notifications_are_bounded_in_bytes_and_one_always_fits() {
        let pool = Pool::new(10_000);
        let outbox = Outbox::new(&Account::new(&pool, 0, usize::MAX), 1_000);
        let name: Arc<str> = "0x1".into();
        assert!(outbox.event(&name, &event(5_000)), "alone");
        assert!(!outbox.event(&name, &event(200)), "behind a large one");
        assert!(matches!(outbox.take(), Some(Message::Event { .. })));
        assert!(outbox.event(&name, &event(600)) && outbox.event(&name, &event(400)), "exactly full");
        assert!(!outbox.event(&name, &event(OVERHEAD)), "not a byte more");
        assert_eq!(pool.used(), 1_000);
        drop(outbox.take());
        assert!(outbox.event(&name, &event(600)));
        while outbox.take().is_some() {}
        assert!(!outbox.event(&name, &event(10_001)), "the pool has no room");
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_close_is_the_last_message() {
        let outbox = Outbox::new(&Account::new(&Pool::new(10_000), 0, usize::MAX), 1_000);
        outbox.close(1001);
        outbox.close(1000);
        assert!(outbox.event(&"0x1".into(), &event(200)));
        outbox.pong(vec![1]);
        outbox.pong(vec![2]);
        assert!(matches!(outbox.take(), Some(Message::Pong(payload)) if payload == [2]));
        assert!(matches!(outbox.take(), Some(Message::Event { .. })));
        assert!(matches!(outbox.take(), Some(Message::Close(1001))));
        assert!(outbox.take().is_none());
    }
}
