//! Orders of the operator of a chain for development to the producer of its blocks.

use crate::config::Production;
use crossbeam_channel::Sender;
use phalanx::Edit;
use std::time::Duration;

/// Maximum number of blocks that an order makes: each is a block as any other.
pub(crate) const MOST_BLOCKS: u64 = 100_000;

/// Pace of blocks: for transactions, by the clock, both, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// True if a block is made as soon as a transaction waits.
    pub(crate) is_instant: bool,
    /// Time from one block to the next.
    pub(crate) period: Option<Duration>,
}

impl From<Production> for Pace {
    fn from(production: Production) -> Self {
        match production {
            Production::Instant => Self { is_instant: true, period: None },
            Production::Every(period) => Self { is_instant: false, period: Some(period) },
            Production::Off => Self { is_instant: false, period: None },
        }
    }
}

/// An order.
#[derive(Debug)]
pub(crate) enum Order {
    /// Makes blocks, the first at a time and the others this many seconds after each other. Replies with their number.
    Mine { blocks: u64, first: Option<u64>, interval: Option<u64> },
    /// Makes a block of edits. Replies with its height.
    Edit(Vec<Edit>),
    /// Remembers the newest block, the pool and what was said. Replies with the snapshot's number.
    Snapshot,
    /// Goes back to a snapshot, which is used up with all later ones. Replies with 1, or with 0 if there is none.
    Revert(u64),
    /// Goes back to a height, and forgets all snapshots and the pool. Replies with the height.
    Rewind(u64),
    /// Sets when blocks are made. Replies with 0.
    SetPace { is_instant: Option<bool>, period: Option<Option<Duration>> },
}

/// Reply to an order, or the reason why it was not obeyed.
pub(crate) type Reply = Result<u64, String>;

/// An order, and where its reply goes.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) order: Order,
    pub(crate) reply: Sender<Reply>,
}
