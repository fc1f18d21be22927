//! Clients: requests under way, batches of them, and answers.

use super::series::Series;
use std::collections::VecDeque;

/// Requests that are sent together: so many, at this time.
pub(super) type Group = (u64, u64);

/// Requests of a batch.
#[derive(Debug, Default)]
struct Cohort {
    /// Number of requests.
    size: u64,
    /// Until the clients have what they wait for.
    groups: Vec<Group>,
    answers: usize,
}

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Population {
    /// Requests at the primary that are in no batch.
    pool: VecDeque<Group>,
    pooled: u64,
    cohorts: Vec<Cohort>,
    /// Requests under way, the time of the last change, and the integral of the number over time.
    inside: u64,
    changed: u64,
    area: u128,
    /// Begin of the measured time, and what was answered since.
    began: u64,
    answered: u64,
    waited_ns: u128,
    /// Number of requests answered since the beginning.
    pub(super) completed: u64,
    pub(super) series: Series,
}

impl Population {
    fn change(&mut self, now: u64) {
        self.area += u128::from(self.inside) * u128::from(now - self.changed);
        self.changed = now;
    }

    /// Clients send requests.
    pub(super) fn send(&mut self, now: u64, count: u64) {
        self.change(now);
        self.inside += count;
    }

    /// Requests reach the pool of the primary.
    pub(super) fn pool(&mut self, group: Group) {
        self.pooled += group.0;
        self.pool.push_back(group);
    }

    /// Takes a batch of `size` requests from the pool, if there are as many. Returns its number.
    pub(super) fn batch(&mut self, size: u64) -> Option<u32> {
        if self.pooled < size {
            return None;
        }
        let (mut groups, mut missing) = (Vec::new(), size);
        while missing > 0
            && let Some((count, sent)) = self.pool.front_mut()
        {
            let taken = missing.min(*count);
            groups.push((taken, *sent));
            *count -= taken;
            missing -= taken;
            if *count == 0 {
                self.pool.pop_front();
            }
        }
        self.pooled -= size;
        self.cohorts.push(Cohort { size, groups, answers: 0 });
        Some(self.cohorts.len() as u32 - 1)
    }

    /// Number of requests of a batch.
    pub(super) fn size(&self, batch: u32) -> u64 {
        self.cohorts[batch as usize].size
    }

    /// Counts an answer to a batch. Returns the number of answers.
    pub(super) fn answer(&mut self, batch: u32) -> usize {
        let cohort = &mut self.cohorts[batch as usize];
        cohort.answers += 1;
        cohort.answers
    }

    /// Time at which the oldest request of a batch was sent, `None` if the batch is complete.
    pub(super) fn oldest(&self, batch: u32) -> Option<u64> {
        self.cohorts[batch as usize].groups.iter().map(|(_, sent)| *sent).min()
    }

    /// The clients of a batch have what they wait for. Returns their groups, the first time.
    pub(super) fn complete(&mut self, now: u64, batch: u32) -> Vec<Group> {
        self.change(now);
        let groups = core::mem::take(&mut self.cohorts[batch as usize].groups);
        for (count, sent) in &groups {
            self.inside -= count;
            self.completed += count;
            self.answered += count;
            self.waited_ns += u128::from(*count) * u128::from(now - sent);
            self.series.note(*sent, now, *count);
        }
        groups
    }

    /// Begins the measured time.
    pub(super) const fn begin(&mut self, now: u64) {
        (self.began, self.changed) = (now, now);
        (self.area, self.answered, self.waited_ns) = (0, 0, 0);
    }

    /// Throughput, mean latency in seconds, and what should be one by Little's law.
    pub(super) fn measures(&mut self, now: u64) -> (f64, f64, f64) {
        self.change(now);
        let ns = (now - self.began) as f64;
        let tps = self.answered as f64 * 1e9 / ns;
        let latency_s = self.waited_ns as f64 / 1e9 / self.answered.max(1) as f64;
        (tps, latency_s, self.area as f64 / ns / (tps * latency_s))
    }
}
