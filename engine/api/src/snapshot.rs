//! Snapshots of a state that nodes offer to each other, and answers to an offer and to a chunk.

use alloy_primitives::Bytes;

/// A snapshot of a state, as nodes name it to each other. What carries it trusts nothing in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Height of the block.
    pub height: u64,
    /// Format of the chunks.
    pub format: u32,
    /// Number of chunks.
    pub chunks: u32,
    /// Everything else that the node needs; it names the snapshot with the numbers above.
    pub metadata: Bytes,
}

/// Answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The node wants the chunks.
    Accepted,
    /// The node does not read the format.
    OtherFormat,
    /// The metadata are not those of the state with the trusted root: the sender lies.
    Lie,
    /// The node can keep no snapshot at all.
    Unable,
}

/// Answer to a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The node keeps the chunk, or has kept it before.
    Kept,
    /// The bytes are not the chunk with this number: the sender is at fault, and another one is asked.
    Bad,
    /// Kept chunks were lost or have changed: all are requested again.
    Again,
    /// The node cannot go on with any snapshot.
    Unable,
}
