//! When which block went through which stage at a node.

/// From when a stage could have begun to when it began and ended, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Began.
    pub from: u64,
    /// Ended.
    pub to: u64,
}

impl Span {
    /// How long it took.
    #[must_use]
    pub const fn work(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// How much of it lies in another one.
    #[must_use]
    pub fn overlap(self, other: Self) -> u64 {
        self.to.min(other.to).saturating_sub(self.from.max(other.from))
    }
}

/// A block's way through a node, µs since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockMarks {
    /// The leader proposed it.
    pub made: u64,
    /// How far its leader is, µs one way.
    pub distance: u64,
    /// Its proposal came.
    pub seen: u64,
    /// All of its transactions were there.
    pub payload: u64,
    /// It was ordered here; on a fullnode, certified.
    pub ordered: u64,
    /// Execution.
    pub execute: Span,
    /// Roots.
    pub root: Span,
    /// Staging.
    pub stage: Span,
    /// State vote to certificate.
    pub certify: Span,
    /// The marker flip.
    pub flip: Span,
    /// It was committed.
    pub committed: u64,
}
