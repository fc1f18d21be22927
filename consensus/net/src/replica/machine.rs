//! The engine of a replica, and the bounds of protocols that run on a network.

use alloy_primitives::B256;
use alloy_rlp::{Decodable, Encodable};
use phalanx_bft::{Group, Index, Protocol, Slot, View, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use std::sync::Arc;

/// Returns true if a client's transaction may be submitted: it is well-formed and its signature is right.
pub type Admit = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The engine of a replica.
pub struct Machine<E> {
    /// The engine.
    pub engine: Arc<E>,
    /// Identifies the state that the engine began with: replicas with another one are refused.
    pub genesis: B256,
    /// Check of clients' transactions.
    pub admit: Admit,
    /// Work of an engine without a thread of its own, done by the worker between two events; returns true if there was any.
    /// `None` for an engine that executes on its own threads.
    pub step: Option<Box<dyn FnMut() -> bool + Send>>,
}

impl<E: core::fmt::Debug> core::fmt::Debug for Machine<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Machine").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Way to a decision, of protocols that have two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Fewer rounds, if enough replicas answer in time.
    Fast,
    /// The one that always works.
    Slow,
}

/// A protocol that can run on a network: its records are written to a log, and its messages cross threads.
pub trait Networked:
    Protocol<Config: Send + Sync, Msg: Send, Record: Encodable + Decodable + Send, Timer: Send> + Send + 'static
{
    /// Replica that proposes next, as far as this one knows: a hint for clients, and for scripts of faults.
    fn proposer(&self) -> Index {
        self.leader()
    }

    /// Highest view that the replica is in.
    fn highest_view(&self) -> View {
        self.view()
    }

    /// Way to the decision of a height; `None` if it is unknown, or the protocol has one way.
    fn path(&self, height: Slot) -> Option<Path> {
        let _ = height;
        None
    }
}

impl Networked for Pbft {}

impl Networked for Sbft {
    fn path(&self, height: Slot) -> Option<Path> {
        self.decided_by(height).map(|group| match group {
            Group::All | Group::Fast => Path::Fast,
            Group::Slow | Group::State => Path::Slow,
        })
    }
}

impl Networked for Autobahn {
    fn proposer(&self) -> Index {
        self.next_leader()
    }

    fn highest_view(&self) -> View {
        Self::highest_view(self)
    }
}
