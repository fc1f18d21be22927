//! Unrest of a random world: loss, cuts, crashes and lies, and the calm after it.

use crate::{conditions::Conditions, facts::Facts, world::World};
use phalanx_bft::{Index, Micros};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

/// Virtual time in which a healed world executes everything: timeouts doubled to their maximum of the trouble, and some.
const RECOVERY: Micros = 120_000_000;

impl<C> Conditions<C> {
    /// Draws how links lose and delay, and how long disks and execution take.
    pub fn draw(&mut self, rng: &mut ChaCha8Rng) {
        self.links.lost = [0, 20, 200][rng.random_range(0..3)];
        self.links.doubled = self.links.lost / 2;
        self.links.jitter = rng.random_range(0..5_000);
        self.persist = rng.random_range(0..200);
        self.execute = rng.random_range(0..2_000);
    }

    /// Makes so many of n replicas faulty, from the first one on in steps of three: they lie, or never speak.
    pub fn corrupt(&mut self, faulty: usize, n: usize, first: u16, rng: &mut ChaCha8Rng) {
        for index in 0..faulty as u16 {
            let index = Index((index * 3 + first) % n as u16);
            let set = if rng.random_ratio(3, 4) { &mut self.traitors } else { &mut self.silent };
            set.insert(index);
        }
    }
}

impl<P: Facts> World<P> {
    /// Cuts, heals or crashes something of a world of n replicas, and goes on for a while.
    ///
    /// # Errors
    /// The rule that is broken by then.
    pub fn disturb(&mut self, n: usize, step: u64, rng: &mut ChaCha8Rng) -> Result<(), String> {
        match rng.random_range(0..4) {
            0 => self.links.cut = (0..rng.random_range(0..n)).collect(),
            1 => self.links.cut.clear(),
            2 => (0..n).for_each(|node| self.crash(node, 1_000 + step * 100)),
            _ => {
                let node = self.random(n as u64) as usize;
                self.crash(node, rng.random_range(100..40_000));
            }
        }
        self.run(self.now() + rng.random_range(500..40_000));
        self.ledger.violation.take().map_or(Ok(()), Err)
    }

    /// Heals the world, and runs it until everything is executed, or two minutes at most.
    ///
    /// # Errors
    /// The rule that is broken by then.
    pub fn recovered(mut self) -> Result<Self, String> {
        self.heal();
        let end = self.now() + RECOVERY;
        while self.now() < end && (self.unexecuted() > 0 || self.height() == 0) {
            self.run(self.now() + 100_000);
        }
        match self.ledger.violation.take() {
            Some(violation) => Err(violation),
            None => Ok(self),
        }
    }
}
