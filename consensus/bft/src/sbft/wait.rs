//! The time that a collector gives the fast path, t_fs, by what became of that path in earlier slots.
//!
//! A slot counts by the time from the shares of τ to those of σ, however it was decided. So a replica that is back is noticed on the
//! slow path, and the next wait depends on the network, not on the wait before. Shares later than the longest wait are absent.

use super::config::FastWait;
use crate::core::Micros;
use std::collections::VecDeque;

/// Slots whose delays are kept.
const MOST_DELAYS: usize = 32;

/// Doubt that a slot without the shares of σ adds; one with them takes 1 away. The wait stays short unless two of three have them.
const FAILURE: u32 = 2;

/// Experience of a collector with the fast path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FastPath {
    /// Times from τ to σ in the newest slots that had both.
    delays: VecDeque<Micros>,
    /// Halvings of the wait.
    doubt: u32,
    /// Slots left whose collector does not wait for the signature of all.
    pub(super) without_all: u32,
}

/// A slot's part in [`FastPath`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Noted {
    /// Nothing is known yet.
    #[default]
    Nothing,
    /// The wait has ended in vain, and added this doubt.
    Failure(u32),
    /// The shares of σ are there.
    Shares,
}

impl FastPath {
    /// Time that the next slot gives the fast path: what nine of ten slots took and a quarter more, halved by each doubt.
    pub(super) fn wait(&self, bounds: FastWait) -> Micros {
        let mut delays: Vec<Micros> = self.delays.iter().copied().collect();
        delays.sort_unstable();
        let usual = delays.get(delays.len() * 9 / 10).map_or(bounds.most, |delay| delay + delay / 4);
        (usual >> self.doubt.min(63)).clamp(bounds.least, bounds.most)
    }

    /// Notes that a wait has ended without the shares of σ.
    pub(super) fn failed(&mut self, noted: &mut Noted, bounds: FastWait) {
        if *noted == Noted::Nothing {
            let before = self.doubt;
            self.doubt = most_doubt(bounds).min(before + FAILURE).max(before);
            *noted = Noted::Failure(self.doubt - before);
        }
    }

    /// Notes that the shares of σ came so long after those of τ. If the wait was shorter, it was too short: no failure.
    pub(super) fn came(&mut self, noted: &mut Noted, delay: Micros, bounds: FastWait) {
        let before = core::mem::replace(noted, Noted::Shares);
        if before == Noted::Shares || delay > bounds.most {
            return;
        }
        let withdrawn = if let Noted::Failure(doubt) = before { doubt } else { 0 };
        self.doubt = self.doubt.saturating_sub(withdrawn + 1);
        if self.delays.len() == MOST_DELAYS {
            self.delays.pop_front();
        }
        self.delays.push_back(delay);
    }
}

/// Doubt with which every wait is the shortest. More would only delay the way back.
fn most_doubt(bounds: FastWait) -> u32 {
    (bounds.most / bounds.least.max(1)).max(1).ilog2() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: FastWait = FastWait { least: 5_000, most: 100_000 };

    /// A slot whose shares of σ come so late, or not at all. Returns the time that it waits in vain.
    fn slot(path: &mut FastPath, delay: Option<Micros>) -> Micros {
        let (mut noted, wait) = (Noted::default(), path.wait(BOUNDS));
        let in_vain = delay.is_none_or(|delay| delay > wait);
        if in_vain {
            path.failed(&mut noted, BOUNDS);
        }
        if let Some(delay) = delay {
            path.came(&mut noted, delay, BOUNDS);
        }
        if in_vain { wait } else { 0 }
    }

    fn slots(path: &mut FastPath, count: usize, delay: impl Fn(usize) -> Option<Micros>) -> Micros {
        (0..count).map(|at| slot(path, delay(at))).sum()
    }

    #[test]
    fn the_wait_is_a_little_more_than_the_usual_delay() {
        for usual in [100, 10_000, 70_000] {
            let mut path = FastPath::default();
            assert_eq!(path.wait(BOUNDS), BOUNDS.most, "nothing is known");
            assert_eq!(slots(&mut path, 40, |_| Some(usual)), 0);
            assert_eq!(path.wait(BOUNDS), (usual * 5 / 4).max(BOUNDS.least));
        }
    }

    /// The state after a failure is that before it, whatever lies between: the path depends on the network alone.
    #[test]
    fn a_replica_that_is_back_is_waited_for_again() {
        for usual in [100, 10_000, 40_000, 90_000] {
            let mut path = FastPath::default();
            slots(&mut path, 40, |_| Some(usual));
            let before = path.wait(BOUNDS);
            let lost = slots(&mut path, 1_000, |_| None);
            assert_eq!(path.wait(BOUNDS), BOUNDS.least);
            assert!(lost <= 1_000 * BOUNDS.least + 2 * before, "{lost}");
            // Back, and slower by half than it was.
            let back = (usual * 3 / 2).min(BOUNDS.most);
            slots(&mut path, 10, |_| Some(back));
            assert_eq!(slots(&mut path, 30, |_| Some(back)), 0, "the fast path works again");
        }
    }

    #[test]
    fn a_replica_beyond_the_longest_wait_is_not_waited_for() {
        let mut path = FastPath::default();
        slots(&mut path, 10, |_| Some(BOUNDS.most + 1));
        assert_eq!(slots(&mut path, 100, |_| Some(BOUNDS.most + 1)), 100 * BOUNDS.least);
    }

    /// A replica that is there in every second slot, or in every third, costs about the shortest wait in all.
    #[test]
    fn nothing_makes_the_wait_flap() {
        for share in [2, 3] {
            for slow in [1_000, 30_000, 99_000] {
                let mut path = FastPath::default();
                slots(&mut path, 40, |_| Some(slow));
                let present = |at: usize| at.is_multiple_of(share).then_some(slow);
                slots(&mut path, 60, present);
                let lost = slots(&mut path, 600, present);
                assert!(lost <= 600 * 4 * BOUNDS.least, "{lost} for {slow} in one of {share} slots");
            }
        }
    }

    /// A replica that is always a little later than the wait drives it up, until it counts as absent.
    #[test]
    fn a_replica_that_follows_the_wait_costs_less_than_one_that_is_just_in_time() {
        let mut path = FastPath::default();
        let next = |path: &mut FastPath| slot(path, Some(path.wait(BOUNDS) + 1));
        let lost: Micros = (0..1_000).map(|_| next(&mut path)).sum();
        assert!(lost < 1_000 * BOUNDS.most * 3 / 4, "{lost}");
    }

    #[test]
    fn a_slot_counts_once() {
        let (mut path, mut noted) = (FastPath::default(), Noted::default());
        path.failed(&mut noted, BOUNDS);
        let once = path.clone();
        path.failed(&mut noted, BOUNDS);
        assert_eq!(path, once);
        path.came(&mut noted, 7, BOUNDS);
        let shares = path.clone();
        path.came(&mut noted, 8, BOUNDS);
        path.failed(&mut noted, BOUNDS);
        assert_eq!((path.doubt, &path), (0, &shares));
    }
}
