//! Servers of which only the time is modelled: links, disks, threads.

/// A server whose jobs come in the order of time: it needs no queue, only the time at which it is free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    free_at: u64,
    /// Time for which it has worked.
    pub busy_ns: u64,
}

impl Line {
    /// Serves a job that comes at `now` and takes `cost`. Returns the time at which it ends.
    pub fn serve(&mut self, now: u64, cost: u64) -> u64 {
        self.free_at = self.free_at.max(now) + cost;
        self.busy_ns += cost;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_serves_one_job_after_the_other() {
        let mut line = Line::default();
        assert_eq!([line.serve(10, 5), line.serve(11, 5), line.serve(30, 1)], [15, 20, 31]);
        assert_eq!(line.busy_ns, 11);
    }
}
