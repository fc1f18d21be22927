//! Disturbs schedules, for tests: workers pause and deviate to a pattern drawn from a seed.

use std::{hint, thread, time::Duration};

/// Disturbs the order in which workers reach the places where order matters.
///
/// The pattern provokes schedules that a quiet machine never shows. Results do not depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaker {
    seed: u64,
}

/// Place that a worker has reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Point {
    Begin,
    Read,
    Publish,
    Invalidate,
    Finish,
    Estimate,
    Block,
    Park,
    Commit,
    Keep,
}

impl Shaker {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    const fn draw(self, point: Point, tx: u32, turn: u32) -> u64 {
        mix(mix(self.seed ^ ((point as u64) << 56)) ^ ((tx as u64) << 32) ^ turn as u64)
    }

    /// Sometimes lets other workers go first. `turn` tells visits of the same place apart.
    pub(super) fn pause(self, point: Point, tx: u32, turn: u32) {
        let drawn = self.draw(point, tx, turn);
        // On a loaded machine a yield costs what the others' time slices take, so that most pauses spin.
        match drawn % 64 {
            0 => thread::sleep(Duration::from_micros(drawn >> 32 & 63)),
            1 => thread::yield_now(),
            2..16 => (0..drawn >> 32 & 255).for_each(|_| hint::spin_loop()),
            _ => {}
        }
    }

    /// Returns true if the worker should take the unusual branch here.
    pub(super) const fn deviates(self, point: Point, tx: u32) -> bool {
        self.draw(point, tx, u32::MAX).is_multiple_of(4)
    }
}

/// SplitMix64's finalizer.
const fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
