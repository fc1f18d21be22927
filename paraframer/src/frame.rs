/// Transactions that pairwise do not conflict, in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a, T> {
    /// The members; never empty.
    pub txs: &'a [T],
    /// Sum of the members' gas, saturating.
    pub gas: u64,
    /// Why the frame left.
    pub cause: Cause,
}

/// Why a frame left the framer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It reached a limit of count, keys or gas, and no earlier frame was left to wait for.
    Full,
    /// It reached the age limit.
    Aged,
    /// It holds a lower nonce of a sender in a frame that reached the age limit.
    Precedes,
    /// A transaction conflicted with every frame, and this was the largest that waits for no other.
    Crowded,
    /// The stream ended.
    Flushed,
}

/// When a frame leaves. No limit reads a clock, so the same input always gives the same frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramerConfig {
    /// Most transactions in a frame. Default 128: with two keys each they fill a quarter of a filter's 2048 bits;
    /// twice as many would raise the rate of false positives from 5 to 15 %. Zero means one.
    pub max_txs: usize,
    /// A frame takes no more members once it holds this many distinct keys, so its last member may carry it past.
    /// Default 256, for the same reason.
    pub max_keys: usize,
    /// A frame takes no more members once it holds this much gas, so its last member may carry it past. Default
    /// `u64::MAX`: blocks are cut between transactions, not between frames, so only a caller that treats a frame as a
    /// unit of work needs this.
    pub max_gas: u64,
    /// Most pushes a transaction may wait for its frame to leave. Default 8192 = 64 × 128: at a million transactions
    /// per second eight milliseconds; half of it costs 1 to 3 % of the transactions per frame, twice as much gains 1 %.
    /// Zero means one.
    pub max_age: u64,
}

impl Default for FramerConfig {
    fn default() -> Self {
        Self { max_txs: 128, max_keys: 256, max_gas: u64::MAX, max_age: 8192 }
    }
}
