//! An open loop: transactions arrive at a fixed rate, whatever the engine does. Latency counts from the arrival, so that a run that
//! falls behind shows it; a closed loop would wait with it ("coordinated omission").

use crate::result::{OpenLoop, Quantiles};
use std::time::Duration;

/// Time between two looks at the user's wish to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Arrivals of a load's transactions by their number, and latencies so far.
#[derive(Debug)]
pub(crate) struct Arrivals {
    rate: u64,
    /// Latencies, in ms.
    latencies: Vec<f64>,
    /// Time from the last arrival among committed transactions to their commit.
    behind: Duration,
}

impl Arrivals {
    pub(crate) const fn new(rate: u64) -> Self {
        Self { rate, latencies: Vec::new(), behind: Duration::ZERO }
    }

    /// Arrival of a transaction since the start.
    fn of(&self, tx: u32) -> Duration {
        Duration::from_secs_f64(f64::from(tx) / self.rate as f64)
    }

    /// Arrival of the last of these transactions.
    fn last(&self, order: &[u32]) -> Duration {
        self.of(order.iter().copied().max().unwrap_or(0))
    }

    /// Waits until a block of `order` may start, and returns the time at which its planning would have begun. The planner sees
    /// the whole load, so its time is added to the last arrival: no block is planned before all of it is there.
    pub(crate) fn wait(
        &self,
        order: &[u32],
        planned: Duration,
        elapsed: &dyn Fn() -> Duration,
        stopped: &dyn Fn() -> bool,
    ) -> Duration {
        let start = self.last(order) + planned;
        while let Some(left) = start.checked_sub(elapsed()).filter(|left| !left.is_zero() && !stopped()) {
            std::thread::sleep(left.min(LOOK));
        }
        elapsed().saturating_sub(planned)
    }

    /// Notes that the transactions of `order` are committed at `at`.
    pub(crate) fn committed(&mut self, order: &[u32], at: Duration) {
        let latency = |tx: &u32| at.saturating_sub(self.of(*tx)).as_secs_f64() * 1e3;
        let latencies: Vec<f64> = order.iter().map(latency).collect();
        self.latencies.extend(latencies);
        self.behind = at.saturating_sub(self.last(order));
    }

    /// The figures of the run.
    pub(crate) fn figures(&self) -> OpenLoop {
        OpenLoop {
            rate: self.rate,
            latency_ms: Quantiles::of(&self.latencies),
            behind_ms: self.behind.as_secs_f64() * 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_block_waits_for_its_last_arrival_and_its_planning() {
        let arrivals = Arrivals::new(1000);
        let now = Cell::new(Duration::ZERO);
        // Each look at the clock takes a millisecond.
        let clock = || {
            now.set(now.get() + Duration::from_millis(1));
            now.get()
        };
        let began = arrivals.wait(&[7, 40, 3], Duration::from_millis(5), &clock, &|| false);
        assert!(now.get() >= Duration::from_millis(45) && began >= Duration::from_millis(40), "{now:?} {began:?}");
        let late = Duration::from_secs(9);
        now.set(late);
        assert!(arrivals.wait(&[7], Duration::ZERO, &clock, &|| false) >= late, "a late block starts at once");
        now.set(Duration::ZERO);
        arrivals.wait(&[1_000_000], Duration::ZERO, &clock, &|| true);
        assert!(now.get() < Duration::from_secs(1), "the user stops the wait");
    }

    #[test]
    fn latency_counts_from_the_arrival() {
        let mut arrivals = Arrivals::new(100);
        // Arrivals at 0, 10 and 20 ms; a stall makes the third late by 480 ms.
        arrivals.committed(&[0, 1], Duration::from_millis(15));
        arrivals.committed(&[2], Duration::from_millis(500));
        let OpenLoop { rate, latency_ms, behind_ms } = arrivals.figures();
        assert_eq!(
            (rate, latency_ms.p50.round(), latency_ms.max.round(), behind_ms.round()),
            (100, 15.0, 480.0, 480.0)
        );
    }
}
