//! Emulation of a link in its sender: delay, bandwidth, loss, cuts.

use crate::config::{Cut, Link};
use parking_lot::{Condvar, Mutex};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

/// A link that may change while it is used.
#[derive(Debug)]
pub(crate) struct LinkControl {
    state: Mutex<(Link, bool)>,
    changed: Condvar,
}

impl LinkControl {
    pub(crate) const fn new(link: Link) -> Self {
        Self { state: Mutex::new((link, false)), changed: Condvar::new() }
    }

    pub(crate) fn set_cut(&self, cut: Option<Cut>) {
        self.state.lock().0.cut = cut;
        self.changed.notify_all();
    }

    /// Ends every wait, now and later.
    pub(crate) fn close(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }

    /// The link, once it does not hold frames back. `None` if it is closed.
    pub(crate) fn open(&self) -> Option<Link> {
        let mut state = self.state.lock();
        while state.0.cut == Some(Cut::Holds) && !state.1 {
            self.changed.wait(&mut state);
        }
        (!state.1).then_some(state.0)
    }

    /// Waits until `due`. Returns false if the link is closed before.
    pub(crate) fn sleep(&self, due: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.1 {
            if self.changed.wait_until(&mut state, due).timed_out() {
                return !state.1;
            }
        }
        false
    }
}

/// Departure times of frames on a link.
#[derive(Debug)]
pub(crate) struct Pacer {
    rng: ChaCha8Rng,
    /// The link is busy until then.
    free_at: Option<Instant>,
}

impl Pacer {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), free_at: None }
    }

    /// Time at which a frame of `bytes` that was handed over at `since` leaves, so that it arrives after the link's delay. `None`
    /// if it is lost.
    pub(crate) fn due(&mut self, link: &Link, since: Instant, bytes: usize) -> Option<Instant> {
        let begins = self.free_at.map_or(since, |free| free.max(since));
        let takes = (bytes as u64).saturating_mul(1_000_000).checked_div(link.bandwidth).unwrap_or(0);
        let ends = begins + Duration::from_micros(takes);
        self.free_at = Some(ends);
        let lost = link.cut == Some(Cut::Loses) || self.rng.random_ratio(link.loss_per_mille.min(1_000).into(), 1_000);
        (!lost).then(|| ends + Duration::from_micros(link.delay_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_overlap_and_bandwidth_does_not() {
        let (mut pacer, now) = (Pacer::new(1), Instant::now());
        let link = Link { delay_us: 50_000, bandwidth: 1_000_000, ..Link::default() };
        let due: Vec<u128> =
            (0..3).map(|_| pacer.due(&link, now, 10_000).expect("no loss").duration_since(now).as_millis()).collect();
        assert_eq!(due, [60, 70, 80]);
        let later = now + Duration::from_secs(1);
        assert_eq!(pacer.due(&link, later, 0).expect("no loss").duration_since(later).as_millis(), 50);
        let unlimited = Link { bandwidth: 0, ..link };
        assert_eq!(pacer.due(&unlimited, later, 1 << 30).expect("no loss").duration_since(later).as_millis(), 50);
    }

    #[test]
    fn losses_follow_the_seed_and_the_rate() {
        let lost = |seed| {
            let mut pacer = Pacer::new(seed);
            let link = Link { loss_per_mille: 200, ..Link::default() };
            let now = Instant::now();
            (0..1_000).map(|_| pacer.due(&link, now, 1).is_none()).collect::<Vec<bool>>()
        };
        let count = lost(3).into_iter().filter(|lost| *lost).count();
        assert!((150..250).contains(&count), "{count}");
        assert!(lost(3) == lost(3) && lost(3) != lost(4));
        let cut = Link { cut: Some(Cut::Loses), ..Link::default() };
        assert_eq!(Pacer::new(1).due(&cut, Instant::now(), 1), None);
    }
}
