//! A frame, the cause of its leaving, and the limits of frames.

/// Transactions that pairwise do not conflict, in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a, T> {
    /// Members; never empty.
    pub txs: &'a [T],
    /// Sum of the members' gas, saturating.
    pub gas: u64,
    /// Cause of the frame's leaving.
    pub cause: Cause,
}

/// Cause of a frame's leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The frame reached a limit of count, keys or gas, and waited for no earlier frame.
    Full,
    /// The frame reached the age limit.
    Aged,
    /// The frame holds a lower nonce of a sender in a frame that reached the age limit.
    Precedes,
    /// A transaction conflicted with every frame, and this one was the largest that waits for no other.
    Crowded,
    /// The stream ended.
    Flushed,
}

/// Limits of frames. No limit reads a clock, so the same input always gives the same frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramerConfig {
    /// Maximum number of transactions in a frame. Zero means one.
    ///
    /// Default 128: with two keys each they fill a quarter of a filter's 2048 bits. Twice as many would raise the rate of false
    /// positives from 5 to 15 %.
    pub max_txs: usize,
    /// Number of distinct keys at which a frame takes no more members; the last member may exceed it. Default 256, for the same
    /// reason.
    pub max_keys: usize,
    /// Gas at which a frame takes no more members; the last member may exceed it.
    ///
    /// Default `u64::MAX`: blocks are cut between transactions, not between frames, so only a caller that treats a frame as a
    /// unit of work needs this.
    pub max_gas: u64,
    /// Maximum number of pushes that a transaction waits for its frame to leave. Zero means one.
    ///
    /// Default 8192 = 64 × 128: at a million transactions per second eight milliseconds. Half of it costs 1 to 3 % of the
    /// transactions per frame, twice as much gains 1 %.
    pub max_age: u64,
}

impl Default for FramerConfig {
    fn default() -> Self {
        Self { max_txs: 128, max_keys: 256, max_gas: u64::MAX, max_age: 8192 }
    }
}
