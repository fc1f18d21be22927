//! The order in which frames leave, so that every sender's nonces stay in order.

use crate::slot::{FRAMES, Slot, each};

/// A strict partial order on the open frames.
///
/// # Invariants
/// `before[f]` is transitively closed: it holds all frames that its members wait for. It never holds `f`: there is no cycle,
/// so some open frame always waits for no other. `after` is the converse. Empty slots wait for none, and no frame waits for
/// them.
#[derive(Debug)]
pub(crate) struct Precedence {
    before: [u64; FRAMES],
    after: [u64; FRAMES],
    /// Frames whose `before` is not empty.
    waiting: u64,
}

/// Constraints on a frame that must leave after a set of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    /// The set and all frames that its members wait for: no transaction that waits for the set can be placed in these.
    pub(crate) earlier: u64,
    /// Frames that wait for all of these already.
    pub(crate) followers: u64,
}

impl Precedence {
    pub(crate) const fn new() -> Self {
        Self { before: [0; FRAMES], after: [0; FRAMES], waiting: 0 }
    }

    /// Frames that wait for another.
    pub(crate) const fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Frames that must leave before `slot`.
    const fn before(&self, slot: Slot) -> u64 {
        self.before[slot.index()]
    }

    /// Returns the constraints on a frame that leaves after all of `set`.
    ///
    /// A frame includes all frames that it waits for. So where frames wait for each other, as a sender's do, few are visited.
    /// The visit begins with the highest: places are taken from the lowest, so waiting frames have the high ones.
    pub(crate) const fn behind(&self, set: u64) -> Behind {
        let (mut rest, mut earlier, mut followers) = (set, set, self.waiting);
        while let Some(slot) = Slot::highest(rest) {
            let before = self.before(slot);
            earlier |= before;
            followers &= self.after[slot.index()];
            rest &= !(before | slot.bit());
        }
        Behind { earlier, followers }
    }

    /// Returns a frame of `set` that waits for no other of it.
    pub(crate) fn first(&self, set: u64) -> Option<Slot> {
        let mut first = Slot::lowest(set)?;
        while let Some(earlier) = Slot::lowest(set & self.before(first)) {
            first = earlier;
        }
        Some(first)
    }

    /// Makes `slot` wait for `earlier`, a closed set without `slot`.
    pub(crate) fn require(&mut self, slot: Slot, earlier: u64) {
        debug_assert!(earlier & slot.bit() == 0 && self.behind(earlier).earlier == earlier);
        let new = earlier & !self.before(slot);
        if new == 0 {
            return;
        }
        let late = slot.bit() | self.after[slot.index()];
        for late in each(late) {
            self.before[late.index()] |= new;
        }
        for early in each(new) {
            self.after[early.index()] |= late;
        }
        self.waiting |= slot.bit();
    }

    /// Removes `slot`, which waits for no other, from the order.
    pub(crate) fn leave(&mut self, slot: Slot) {
        debug_assert!(self.before(slot) == 0);
        for follower in each(core::mem::take(&mut self.after[slot.index()])) {
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
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn waiting_is_transitive_in_any_order_of_edges() {
        let [a, b, c] = [4, 9, 2].map(Slot::new);
        let mut order = Precedence::new();
        order.require(c, b.bit());
        order.require(b, a.bit());
        assert_eq!(order.before(c), a.bit() | b.bit());
        let behind = |order: &Precedence, set| {
            let Behind { earlier, followers } = order.behind(set);
            (earlier, followers)
        };
        assert_eq!(behind(&order, c.bit()), (a.bit() | b.bit() | c.bit(), 0));
        assert_eq!(behind(&order, b.bit() | a.bit()), (a.bit() | b.bit(), c.bit()));
        assert_eq!(behind(&order, a.bit()), (a.bit(), b.bit() | c.bit()));
        assert_eq!(order.first(b.bit() | c.bit()), Some(b));
        assert_eq!(order.first(0), None);
        order.leave(a);
        assert_eq!((order.before(b), order.before(c)), (0, b.bit()));
        assert_eq!(order.waiting(), c.bit());
    }

    /// Computes the frames that each frame waits for, by a fixed point over all requirements.
    fn before(required: &[(u8, u64)]) -> [u64; FRAMES] {
        let mut before = [0; FRAMES];
        loop {
            let last = before;
            for (late, early) in required {
                before[*late as usize] |= each(*early).fold(*early, |set, slot| set | last[slot.index()]);
            }
            if before == last {
                return before;
            }
        }
    }

    #[test]
    fn both_directions_equal_the_closure_of_the_edges() {
        for seed in 0..50 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (mut order, mut required) = (Precedence::new(), Vec::<(u8, u64)>::new());
            for step in 0..200 {
                let slot = rng.random_range(0..FRAMES as u8);
                if rng.random_bool(0.3) {
                    let slot = Slot::lowest(!order.waiting()).filter(|_| rng.random()).unwrap_or(Slot::new(slot));
                    if order.before(slot) == 0 {
                        order.leave(slot);
                        required.iter_mut().for_each(|(_, early)| *early &= !slot.bit());
                    }
                } else {
                    let some = rng.random::<u64>() & rng.random::<u64>() & rng.random::<u64>() & rng.random::<u64>();
                    let Behind { earlier, .. } = order.behind(some & !Slot::new(slot).bit());
                    if earlier & Slot::new(slot).bit() == 0 {
                        order.require(Slot::new(slot), earlier);
                        required.push((slot, earlier));
                    }
                }
                let why = || format!("seed {seed}, step {step}");
                let before = before(&required);
                let set = rng.random::<u64>() & rng.random::<u64>();
                let earlier = each(set).fold(set, |all, slot| all | before[slot.index()]);
                let all = (0..FRAMES as u8).map(Slot::new);
                let waiting =
                    all.clone().filter(|slot| before[slot.index()] != 0).fold(0, |set, slot| set | slot.bit());
                let follows = |slot: &Slot| set & !before[slot.index()] == 0;
                let followers = all.filter(follows).fold(0, |set, slot| set | slot.bit()) & waiting;
                assert_eq!(order.before, before, "{}", why());
                assert_eq!(order.waiting(), waiting, "{}", why());
                assert_eq!(order.behind(set), Behind { earlier, followers }, "{}", why());
                let first = order.first(set).expect("the set has members");
                assert!(set & first.bit() != 0 && set & before[first.index()] == 0, "{}", why());
            }
        }
    }
}
