//! Events that a producer waits for: transactions, the end of a period, orders, the end of the node.

use super::{Producer, slot::Slot};
use crate::orders::Asked;
use crossbeam_channel::{at, never};
use std::time::Instant;

/// Event that the producer waits for.
pub(super) enum Woken {
    /// A transaction waits.
    Told,
    /// The next block is due.
    Clock,
    Asked(Asked),
    /// Nothing else happens while a block is being committed.
    Idle,
    /// The node stops.
    Stopped,
}

impl Producer {
    /// Waits for the next event, at most until the end of the slot. A block that is being committed is the next event if there is no
    /// other.
    pub(super) fn wait(&self, slot: &Slot) -> Woken {
        let now = || at(Instant::now());
        let clock = slot.end().map_or_else(never, at);
        let idle = if self.flight.is_some() { now() } else { never() };
        let listens = self.pace.is_instant || slot.is_open();
        let missed = if listens && !self.rounds.listen(self.seen) { now() } else { never() };
        let nothing = never();
        let told = if listens { &self.told } else { &nothing };
        crossbeam_channel::select_biased! {
            recv(self.stop) -> _ => Woken::Stopped,
            recv(clock) -> _ => Woken::Clock,
            recv(self.asked) -> asked => asked.map_or(Woken::Stopped, Woken::Asked),
            recv(missed) -> _ => Woken::Told,
            recv(told) -> told => told.map_or(Woken::Stopped, |_| Woken::Told),
            recv(idle) -> _ => Woken::Idle,
        }
    }
}
