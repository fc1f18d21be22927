//! Which frames must leave before which, so that every sender's nonces stay in order.

use crate::slot::{FRAMES, Slot, each};

/// A strict partial order on the open frames.
///
/// # Invariants
/// `before[f]` is transitively closed (it holds what its members wait for) and never holds `f`: there is no cycle, so
/// some open frame always waits for no other. Empty slots wait for nothing and nothing waits for them.
#[derive(Debug)]
pub(crate) struct Precedence {
    before: [u64; FRAMES],
    /// The frames whose `before` is not empty, so that the usual case, few of them, costs little.
    waiting: u64,
}

impl Precedence {
    pub(crate) const fn new() -> Self {
        Self { before: [0; FRAMES], waiting: 0 }
    }

    /// The frames that wait for another.
    pub(crate) const fn waiting(&self) -> u64 {
        self.waiting
    }

    /// The frames that must leave before `slot`.
    const fn before(&self, slot: Slot) -> u64 {
        self.before[slot.index()]
    }

    /// `set` and all that its members wait for. Whoever waits for `set` cannot be placed in any of these.
    pub(crate) fn closure(&self, set: u64) -> u64 {
        each(set & self.waiting).fold(set, |all, slot| all | self.before(slot))
    }

    /// Makes `slot` wait for `earlier`, a closed set without `slot`.
    pub(crate) fn require(&mut self, slot: Slot, earlier: u64) {
        debug_assert!(earlier & slot.bit() == 0 && self.closure(earlier) == earlier);
        if earlier & !self.before(slot) == 0 {
            return;
        }
        for follower in each(self.waiting) {
            if self.before(follower) & slot.bit() != 0 {
                self.before[follower.index()] |= earlier;
            }
        }
        self.before[slot.index()] |= earlier;
        self.waiting |= slot.bit();
    }

    /// Among `free`, a frame that waits for all of `earlier` (not empty) already, and of these the one that waits for
    /// the fewest.
    pub(crate) fn follower(&self, free: u64, earlier: u64) -> Option<Slot> {
        each(free & self.waiting)
            .filter(|slot| earlier & !self.before(*slot) == 0)
            .min_by_key(|slot| self.before(*slot).count_ones())
    }

    /// Takes note that `slot`, which waited for nothing, has left.
    pub(crate) fn leave(&mut self, slot: Slot) {
        debug_assert!(self.before(slot) == 0);
        for follower in each(self.waiting) {
            let before = &mut self.before[follower.index()];
            *before &= !slot.bit();
            if *before == 0 {
                self.waiting &= !follower.bit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_transitive_whichever_edge_comes_first() {
        let [a, b, c] = [4, 9, 2].map(Slot::new);
        let mut order = Precedence::new();
        order.require(c, b.bit());
        order.require(b, a.bit());
        assert_eq!(order.before(c), a.bit() | b.bit());
        assert_eq!(order.closure(c.bit()), a.bit() | b.bit() | c.bit());
        assert_eq!(order.follower(u64::MAX, b.bit() | a.bit()), Some(c));
        assert_eq!(order.follower(u64::MAX, a.bit()), Some(b));
        order.leave(a);
        assert_eq!((order.before(b), order.before(c)), (0, b.bit()));
        assert_eq!(order.waiting(), c.bit());
    }
}
