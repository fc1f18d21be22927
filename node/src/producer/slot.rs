//! Periods with one block each: when one begins and ends, and whether its block is there. Time is passed in.

use std::time::{Duration, Instant};

/// A period of a producer, if it has periods. Its block begins with the first transaction that waits, or at its end.
///
/// So a transaction that finds the chain idle waits for no clock, blocks are at most one more than periods have passed, and under
/// load there is one at the begin of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    period: Option<(Duration, Instant)>,
    /// False if every block is made at the end of its period.
    is_eager: bool,
    /// True once the period has its block.
    is_filled: bool,
}

impl Slot {
    pub(super) fn new(period: Option<Duration>, now: Instant, is_eager: bool) -> Self {
        Self { period: period.map(|period| (period, now + period)), is_eager, is_filled: false }
    }

    /// The end of the period.
    pub(super) fn end(&self) -> Option<Instant> {
        self.period.map(|(_, end)| end)
    }

    /// True if a transaction begins the block of the period.
    pub(super) const fn is_open(&self) -> bool {
        self.is_eager && self.period.is_some() && !self.is_filled
    }

    /// Notes a block of so many transactions.
    pub(super) const fn fill(&mut self, txs: usize) {
        self.is_filled |= self.is_open() && txs > 0;
    }

    /// Goes on to the next period. Returns false if the one before has no block yet. Periods that were missed have none.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        self.period = self.period.map(|(period, end)| (period, (end + period).max(now)));
        core::mem::replace(&mut self.is_filled, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);

    #[test]
    fn a_period_has_one_block_with_its_first_transaction_or_at_its_end() {
        let begun = Instant::now();
        let mut slot = Slot::new(Some(PERIOD), begun, true);
        assert_eq!((slot.is_open(), slot.end()), (true, Some(begun + PERIOD)));
        slot.fill(0);
        assert!(slot.is_open(), "nothing of what waits can run");
        slot.fill(3);
        assert!(!slot.is_open(), "it has its block");
        assert!(slot.advance(begun + PERIOD));
        assert_eq!((slot.is_open(), slot.end()), (true, Some(begun + 2 * PERIOD)));
        assert!(!slot.advance(begun + 2 * PERIOD), "an empty one is due");
        assert!(!slot.advance(begun + 7 * PERIOD));
        assert_eq!(slot.end(), Some(begun + 7 * PERIOD), "what was missed is not made up for");
    }

    #[test]
    fn a_chain_for_development_and_one_without_periods_have_no_open_one() {
        let begun = Instant::now();
        let (mut late, mut none) = (Slot::new(Some(PERIOD), begun, false), Slot::new(None, begun, true));
        for slot in [&mut late, &mut none] {
            slot.fill(1);
            assert!(!slot.is_open() && !slot.advance(begun + PERIOD));
        }
        assert_eq!((late.end(), none.end()), (Some(begun + 2 * PERIOD), None));
    }
}
