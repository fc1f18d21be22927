//! What a node runs on: an engine that works when it is told, and the disk and the clients behind it.

use crate::{rng::Rng, work::Work};
use alloy_primitives::Bytes;
use core::fmt;
use phalanx_engine_api::{BlockId, Engine, FatalCause, ReadState};

/// Where an engine works when it is told, so that virtual time can be put between the beginning of work and its end.
pub trait Workshop: fmt::Debug {
    /// The engine.
    type Engine: Engine + ReadState;

    /// The engine, for requests and questions.
    fn engine(&self) -> &Self::Engine;
    /// Begins all work that can begin, and says how long it takes.
    fn start(&self) -> Vec<Work>;
    /// Makes known that a piece of work has ended.
    fn finish(&self, work: &Work);
}

/// The engine in a machine.
pub type EngineOf<M> = <<M as Machine>::Workshop as Workshop>::Engine;

/// A node's machine. It outlives the power cuts that its engines do not survive.
///
/// One world's machines are alike: what one says of a transaction holds for all.
pub trait Machine: fmt::Debug {
    /// What works in it while it has power.
    type Workshop: Workshop;

    /// Opens an engine on what the disk holds.
    ///
    /// # Errors
    /// What makes that impossible.
    fn open(&mut self) -> Result<Self::Workshop, FatalCause>;

    /// Cuts the power: the engine is gone, and what was not synced may be.
    fn cut(&mut self, workshop: Self::Workshop, rng: &mut Rng);

    /// Transactions that clients send to this node, in a form that engines understand. No two are alike.
    fn transactions(&mut self, engine: &EngineOf<Self>, sent: &Sent) -> Vec<Bytes>;

    /// The batch that a transaction came in.
    fn batch_of(&self, tx: &Bytes) -> Option<Batch>;

    /// How many transactions of clients it stands for.
    fn weight(&self, tx: &Bytes) -> u64;
}

/// A batch of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batch {
    /// The validator that made it.
    pub author: u32,
    /// How many it had made before.
    pub number: u64,
    /// Transactions of clients in it.
    pub txs: u32,
}

/// On which occasion clients send transactions: one for each kind of [`crate::Load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// For a batch.
    Batch(Batch),
    /// For a block whose leader invents so many of weight one.
    Invented {
        /// Who leads.
        author: u32,
        /// In which view.
        view: u64,
        /// On which block.
        parent: BlockId,
        /// In which of its lives.
        life: u32,
        /// How many.
        count: u32,
    },
    /// For a block of this weight, the moment it is proposed.
    Instant {
        /// In which view.
        view: u64,
        /// How many.
        weight: u32,
    },
}
