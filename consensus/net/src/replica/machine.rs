//! The engine of a replica, the program around it, and the bounds of protocols that run on a network.

use super::error::ReplicaError;
use crate::{queue::Bell, snapshot::Snapshots};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable};
use phalanx_bft::{Group, Index, Protocol, Slot, View, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use phalanx_host::Content;
use std::sync::Arc;

/// Fate of a transaction that a client sends, or that another replica forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Well-formed and rightly signed: the replica orders it.
    Ordered,
    /// In the pool of the embedder, which hands it out when its turn comes: see [`PoolChanges::ready`].
    Pooled,
    /// Dropped.
    Refused,
}

/// Decides about transactions that have come together, in order: one fate for each.
pub type Admit = Arc<dyn Fn(&[Bytes]) -> Vec<Admission> + Send + Sync>;

/// The state that an engine began with: replicas with another one are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Genesis {
    /// Identifies the state.
    pub digest: B256,
    /// Time of the state, in milliseconds since 1970: no block is older.
    pub timestamp_ms: u64,
}

/// Changes of an embedder's pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolChanges {
    /// Transactions that can run now, each once, and again if a block has skipped it.
    pub ready: Vec<Bytes>,
    /// Hashes of transactions that were ready and have left the pool without a place in a block.
    pub dropped: Vec<B256>,
}

/// The program that a replica is a part of, with a pool and a store of blocks of its own. The worker calls it: it must not wait.
pub trait Embedder: Send {
    /// Receives the height of the engine's committed block, once, before any other call. Blocks above it, which an earlier start may
    /// have shown, come again.
    ///
    /// # Errors
    /// The reason for which the program cannot go on, in words.
    fn resumed(&mut self, height: u64) -> Result<(), String>;

    /// Returns the changes of the pool since the last call, with at most so many ready transactions. Called often.
    fn changes(&mut self, most: usize) -> PoolChanges;

    /// Receives the height of a block that the engine has committed. Heights come in order.
    ///
    /// # Errors
    /// The reason for which the program cannot go on, in words: the replica ends.
    fn committed(&mut self, height: u64) -> Result<(), String>;

    /// Receives the reason for which the replica has ended by itself.
    fn ended(&mut self, why: &ReplicaError);
}

/// A replica that is no part of another program.
impl Embedder for () {
    fn resumed(&mut self, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn changes(&mut self, _: usize) -> PoolChanges {
        PoolChanges::default()
    }

    fn committed(&mut self, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn ended(&mut self, _: &ReplicaError) {}
}

/// Wakes the worker of a replica, also of one that has not started yet: its embedder has transactions ready. Clones are the same bell.
#[derive(Clone, Debug, Default)]
pub struct Doorbell(pub(crate) Arc<Bell>);

impl Doorbell {
    /// Wakes the worker. Never blocks.
    pub fn ring(&self) {
        self.0.ring();
    }
}

/// Work of an engine without a thread of its own; returns true if there was any.
pub type Step = Box<dyn FnMut() -> bool + Send>;

/// The engine of a replica, and the program around both.
pub struct Machine<E> {
    /// The engine.
    pub engine: Arc<E>,
    /// State that the engine began with.
    pub genesis: Genesis,
    /// Check of transactions of clients and of other replicas.
    pub admit: Admit,
    /// Check of the transactions in proposals.
    pub content: Content,
    /// Work that the worker does between two events; `None` for an engine that executes on its own threads.
    pub step: Option<Step>,
    /// The program around: `()` for none.
    pub embedder: Box<dyn Embedder>,
    /// Bell that the embedder rings.
    pub doorbell: Doorbell,
    /// Snapshots of the engine's states for replicas that are behind; `None` for an engine that makes none.
    pub snapshots: Option<Arc<dyn Snapshots>>,
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
