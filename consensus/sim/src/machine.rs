//! Interface of a node to its engine, its disk and its clients.

use crate::{rng::Rng, work::Work};
use alloy_primitives::Bytes;
use core::fmt;
use phalanx_engine_api::{BlockId, ExecutionEngine, FatalCause, ReadState};

/// An engine that works on request, so that virtual time can pass between begin and end of work.
pub trait Workshop: fmt::Debug {
    /// The engine.
    type Engine: ExecutionEngine + ReadState;

    /// The engine, for requests and questions.
    fn engine(&self) -> &Self::Engine;
    /// Begins all work that can begin, and returns it with its cost.
    fn start(&self) -> Vec<Work>;
    /// Completes a piece of work.
    fn finish(&self, work: &Work);
}

/// The engine in a machine.
pub type EngineOf<M> = <<M as Machine>::Workshop as Workshop>::Engine;

/// A node's machine. The machine outlives power cuts; its engines do not.
///
/// All machines of a world agree on the batch and the weight of a transaction.
pub trait Machine: fmt::Debug {
    /// The powered part of the machine.
    type Workshop: Workshop;

    /// Opens an engine on the data of the disk.
    ///
    /// # Errors
    /// The cause that makes opening impossible.
    fn open(&mut self) -> Result<Self::Workshop, FatalCause>;

    /// Cuts the power: the engine is gone, and unsynced data may be.
    fn cut(&mut self, workshop: Self::Workshop, rng: &mut Rng);

    /// Returns transactions that clients send to this node, in the engine's format. No two are alike.
    fn transactions(&mut self, engine: &EngineOf<Self>, sent: &Sent) -> Vec<Bytes>;

    /// Batch that contains the transaction.
    fn batch_of(&self, tx: &Bytes) -> Option<Batch>;

    /// Number of client transactions that this one stands for.
    fn weight(&self, tx: &Bytes) -> u64;
}

/// A batch of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batch {
    /// Index of the validator that made the batch.
    pub author: u32,
    /// Number of earlier batches of that validator.
    pub number: u64,
    /// Number of client transactions in the batch.
    pub txs: u32,
}

/// Occasion on which clients send transactions: one for each kind of [`crate::Load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A batch is due.
    Batch(Batch),
    /// A leader invents `count` transactions of weight one for its block.
    Invented {
        /// Index of the leader.
        author: u32,
        /// View of the block.
        view: u64,
        /// Parent of the block.
        parent: BlockId,
        /// Life of the leader, counted by power cuts.
        life: u32,
        /// Number of transactions.
        count: u32,
    },
    /// A block is proposed, and takes one transaction of this weight.
    Instant {
        /// View of the block.
        view: u64,
        /// Weight of the transaction.
        weight: u32,
    },
}
