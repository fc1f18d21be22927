//! Block formation: cuts a stream of frames into blocks.

use crate::frame::Frame;
use core::fmt;

/// Limits of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Maximum number of transactions in a block. Zero means one.
    pub max_txs: usize,
    /// Maximum gas of a block: the sum of its transactions' gas limits, since admission goes by these.
    pub max_gas: u64,
}

/// An ordered list of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a, T> {
    /// Transactions in final order; never empty.
    pub txs: &'a [T],
    /// Sum of their gas.
    pub gas: u64,
    /// Number of frames with a member in this block. A frame that the block's end cuts counts in both blocks.
    pub frames: usize,
}

impl<T> Block<'_, T> {
    /// Transaction-level parallelism by FAFO's definition: transactions ÷ frames.
    pub fn tlp(&self) -> f64 {
        self.txs.len() as f64 / self.frames as f64
    }
}

/// A transaction whose own gas exceeds the gas limit of a block, so that no block can hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge<T> {
    /// The transaction.
    pub tx: T,
    /// Gas of the transaction.
    pub gas: u64,
    /// The block gas limit.
    pub max_gas: u64,
}

impl<T> fmt::Display for TooLarge<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction gas {} exceeds the block gas limit {}", self.gas, self.max_gas)
    }
}

impl<T: fmt::Debug> core::error::Error for TooLarge<T> {}

/// Output of block formation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formed<'a, T> {
    /// A closed block.
    Block(Block<'a, T>),
    /// A transaction that is in no block. Later nonces of its sender cannot be valid before it is replaced.
    Rejected(TooLarge<T>),
}

/// Takes frames in order and closes blocks. A transaction that does not fit opens the next block.
///
/// Order inside a block is frame order. A block closes when a transaction does not fit, at its maximum number of transactions,
/// or by [`Self::flush`]. So block boundaries depend on the stream alone.
#[derive(Debug)]
pub struct BlockFormer<T> {
    limits: BlockLimits,
    txs: Vec<T>,
    gas: u64,
    frames: usize,
}

impl<T: Copy> BlockFormer<T> {
    /// Creates a former with an empty open block.
    pub const fn new(limits: BlockLimits) -> Self {
        Self { limits, txs: Vec::new(), gas: 0, frames: 0 }
    }

    /// Appends a frame's members, emitting the blocks that fill up. `gas_of` is a transaction's gas limit.
    pub fn push(
        &mut self,
        frame: &Frame<'_, T>,
        mut gas_of: impl FnMut(&T) -> u64,
        emit: &mut impl FnMut(Formed<'_, T>),
    ) {
        let max_gas = self.limits.max_gas;
        // Whether this frame has a member in the open block, and so is counted there.
        let mut counted = false;
        for &tx in frame.txs {
            let gas = gas_of(&tx);
            if gas > max_gas {
                emit(Formed::Rejected(TooLarge { tx, gas, max_gas }));
                continue;
            }
            if gas > max_gas - self.gas {
                self.flush(emit);
                counted = false;
            }
            self.txs.push(tx);
            self.gas += gas;
            self.frames += usize::from(!counted);
            counted = true;
            if self.txs.len() >= self.limits.max_txs {
                self.flush(emit);
                counted = false;
            }
        }
    }

    /// Closes the open block, if it has transactions.
    pub fn flush(&mut self, emit: &mut impl FnMut(Formed<'_, T>)) {
        if !self.txs.is_empty() {
            emit(Formed::Block(Block { txs: &self.txs, gas: self.gas, frames: self.frames }));
            self.txs.clear();
        }
        self.gas = 0;
        self.frames = 0;
    }

    /// Transactions of the open block.
    pub fn open(&self) -> &[T] {
        &self.txs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Cause;

    /// Transactions, gas and frames of a block.
    type Summary = (Vec<u64>, u64, usize);

    /// Forms blocks, and returns them with the rejected transactions. Each transaction is its own gas.
    fn form(limits: BlockLimits, frames: &[&[u64]]) -> (Vec<Summary>, Vec<u64>) {
        let (mut blocks, mut rejected) = (Vec::new(), Vec::new());
        let mut sink = |formed: Formed<'_, u64>| match formed {
            Formed::Block(block) => blocks.push((block.txs.to_vec(), block.gas, block.frames)),
            Formed::Rejected(too_large) => rejected.push(too_large.tx),
        };
        let mut former = BlockFormer::new(limits);
        for txs in frames {
            former.push(&Frame { txs, gas: 0, cause: Cause::Full }, |tx| *tx, &mut sink);
        }
        former.flush(&mut sink);
        former.flush(&mut sink);
        assert!(former.open().is_empty());
        (blocks, rejected)
    }

    #[test]
    fn a_block_closes_by_count_and_cuts_frames() {
        let limits = BlockLimits { max_txs: 3, max_gas: 1_000 };
        let (blocks, rejected) = form(limits, &[&[1, 2], &[3, 4, 5, 6], &[7]]);
        assert_eq!(blocks, [(vec![1, 2, 3], 6, 2), (vec![4, 5, 6], 15, 1), (vec![7], 7, 1)]);
        assert!(rejected.is_empty());
    }

    #[test]
    fn a_block_closes_by_gas_in_order_without_skipping_ahead() {
        let limits = BlockLimits { max_txs: 100, max_gas: 10 };
        let (blocks, _) = form(limits, &[&[6, 5, 1], &[4], &[10]]);
        assert_eq!(blocks, [(vec![6], 6, 1), (vec![5, 1, 4], 10, 2), (vec![10], 10, 1)]);
    }

    #[test]
    fn a_transaction_that_no_block_can_hold_is_rejected() {
        let limits = BlockLimits { max_txs: 0, max_gas: 10 };
        let (blocks, rejected) = form(limits, &[&[11, 1], &[u64::MAX, 2]]);
        assert_eq!(blocks, [(vec![1], 1, 1), (vec![2], 2, 1)]);
        assert_eq!(rejected, [11, u64::MAX]);
        let error = TooLarge { tx: 0, gas: 11, max_gas: 10 };
        assert_eq!(error.to_string(), "transaction gas 11 exceeds the block gas limit 10");
    }

    #[test]
    fn tlp_is_transactions_over_frames() {
        let block = Block { txs: &[1, 2, 3], gas: 0, frames: 2 };
        assert!((block.tlp() - 1.5).abs() < f64::EPSILON);
    }
}
