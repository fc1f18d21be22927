//! Times of every block's stages at a node.

/// Interval from the moment at which a stage could begin to its end, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Begin, in µs.
    pub from: u64,
    /// End, in µs.
    pub to: u64,
}

impl Span {
    /// Duration, in µs.
    #[must_use]
    pub const fn work(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Overlap with another span, in µs.
    #[must_use]
    pub fn overlap(self, other: Self) -> u64 {
        self.to.min(other.to).saturating_sub(self.from.max(other.from))
    }
}

/// Times of a block at a node, in µs since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockMarks {
    /// Proposal by the leader.
    pub made: u64,
    /// Latency from the leader, in µs one way.
    pub distance: u64,
    /// Arrival of the proposal.
    pub seen: u64,
    /// Arrival of the last of its transactions.
    pub payload: u64,
    /// Order at this node; on a fullnode, certification.
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
    /// Commit.
    pub committed: u64,
}
