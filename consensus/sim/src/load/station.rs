//! Stations: threads with queues, and the disk of a log.

use std::collections::VecDeque;

/// Kinds of threads that work job by job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ClientInput,
    Worker,
    Execute,
    Checkpoint,
    Batch,
}

/// A thread with its queue, first in, first out.
#[derive(Debug)]
pub(super) struct Thread<Job, Leaves> {
    pub(super) kind: Kind,
    /// Jobs with the earliest time at which each can begin.
    queue: VecDeque<(u64, Job)>,
    /// Effects that leave at the end of the present job.
    leaves: Option<Leaves>,
    pub(super) busy_ns: u64,
}

impl<Job, Leaves> Thread<Job, Leaves> {
    pub(super) const fn new(kind: Kind) -> Self {
        Self { kind, queue: VecDeque::new(), leaves: None, busy_ns: 0 }
    }

    pub(super) fn push(&mut self, ready: u64, job: Job) {
        self.queue.push_back((ready, job));
    }

    /// Jobs here, the present one included.
    pub(super) fn load(&self) -> usize {
        self.queue.len() + usize::from(self.leaves.is_some())
    }

    /// The next job, if the thread is free.
    pub(super) fn next(&mut self) -> Option<(u64, Job)> {
        if self.leaves.is_some() { None } else { self.queue.pop_front() }
    }

    /// Begins a job of `cost`. Returns when it is done.
    pub(super) fn begin(&mut self, now: u64, ready: u64, cost: u64, leaves: Leaves) -> u64 {
        self.leaves = Some(leaves);
        self.busy_ns += cost;
        now.max(ready) + cost
    }

    /// Ends the present job.
    pub(super) const fn end(&mut self) -> Option<Leaves> {
        self.leaves.take()
    }
}

/// The disk of a log, with group commit: appends during a write share the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Disk {
    /// End of the running write.
    end: u64,
    /// True if another write follows it.
    queued: bool,
}

impl Disk {
    /// Appends at `now`. Returns when the record is durable.
    pub(super) const fn append(&mut self, now: u64, cost: u64) -> u64 {
        self.settle(now, cost);
        if now >= self.end {
            self.end = now + cost;
            return self.end;
        }
        self.queued = true;
        self.end + cost
    }

    /// Time at which everything appended so far is durable.
    pub(super) const fn last(&mut self, now: u64, cost: u64) -> u64 {
        self.settle(now, cost);
        if self.queued { self.end + cost } else { self.end }
    }

    const fn settle(&mut self, now: u64, cost: u64) {
        if self.queued && now >= self.end {
            self.end += cost;
            self.queued = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_during_a_write_share_the_next_one() {
        let mut disk = Disk::default();
        assert_eq!([disk.append(0, 10), disk.append(1, 10), disk.append(9, 10)], [10, 20, 20]);
        assert_eq!([disk.append(12, 10), disk.last(12, 10), disk.last(31, 10)], [30, 30, 30]);
        assert_eq!([disk.append(50, 10), disk.last(55, 10)], [60, 60]);
    }

    #[test]
    fn a_thread_takes_jobs_in_the_order_of_arrival_and_one_at_a_time() {
        let mut thread = Thread::new(Kind::Worker);
        thread.push(5, 'a');
        thread.push(0, 'b');
        assert_eq!((thread.load(), thread.next()), (2, Some((5, 'a'))));
        assert_eq!(thread.begin(1, 5, 10, ()), 15);
        assert_eq!((thread.next(), thread.load()), (None, 2));
        assert_eq!((thread.end(), thread.next(), thread.busy_ns), (Some(()), Some((0, 'b')), 10));
    }
}
