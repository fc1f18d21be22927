//! Changes of a pool's content, for readers that follow it: the last ones, bounded in number.

use super::{
    outcome::{Cause, Removed},
    pooled::PooledTx,
};
use alloy_primitives::{Address, B256};
use std::collections::VecDeque;

/// Maximum number of events that a pool remembers.
const MAX_EVENTS: usize = 1 << 13;

/// Change of a pool's content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolEvent {
    /// A transaction was admitted.
    Admitted {
        /// Hash of the transaction.
        hash: B256,
        /// Sender of the transaction.
        sender: Address,
        /// Nonce of the transaction.
        nonce: u64,
    },
    /// A transaction was removed.
    Removed {
        /// Hash of the transaction.
        hash: B256,
        /// Reason of the removal.
        cause: Cause,
    },
}

/// Answer to [`Pool::events_after`](super::Pool::events_after).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolEvents {
    /// Events in order.
    pub events: Vec<PoolEvent>,
    /// Number of events before these that are forgotten: the reader was too slow.
    pub missed: u64,
    /// Cursor of the next question.
    pub next: u64,
}

/// The last events, and the number of all.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    last: VecDeque<PoolEvent>,
    count: u64,
}

impl EventLog {
    fn push(&mut self, event: PoolEvent) {
        if self.last.len() == MAX_EVENTS {
            self.last.pop_front();
        }
        self.last.push_back(event);
        self.count += 1;
    }

    pub(super) fn admitted(&mut self, tx: &PooledTx) {
        self.push(PoolEvent::Admitted { hash: *tx.hash(), sender: tx.sender(), nonce: tx.nonce() });
    }

    pub(super) fn removed(&mut self, removed: &[Removed]) {
        for Removed { tx, cause, .. } in removed {
            self.push(PoolEvent::Removed { hash: *tx.hash(), cause: cause.clone() });
        }
    }

    /// Events after a cursor.
    pub(super) fn after(&self, cursor: u64) -> PoolEvents {
        let Self { last, count } = self;
        let oldest = count - last.len() as u64;
        let from = cursor.clamp(oldest, *count);
        let events = last.range((from - oldest) as usize..).cloned().collect();
        PoolEvents { events, missed: oldest.saturating_sub(cursor), next: *count }
    }
}
