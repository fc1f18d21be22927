//! Decides which parts of a block run ahead of each other, and which in order.

use crate::exec::run::Took;

/// Where transactions depend on each other anyhow, running them ahead is wasted: then parts of a block run in order, on one
/// worker, for longer each time that another attempt shows the same. Where that worker would wait for a disk, they do not.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Number of parts that run in order before the next attempt.
    left: u32,
    /// Number of such parts the last time.
    last: u32,
}

/// Executions that take as long as a read of a disk: some 100 µs.
const READ: usize = 32;

impl Pace {
    pub(super) const fn goes_in_order(&mut self) -> bool {
        let goes = self.left > 0;
        self.left = self.left.saturating_sub(1);
        goes
    }

    /// Learns from an attempt at `ran` transactions. In order, each would take one execution, and a read where it parked.
    pub(super) const fn learn(&mut self, ran: usize, took: Took) {
        let in_order = ran + ran / 4 + READ * took.parked;
        self.last =
            if took.executions > in_order { if self.last == 0 { 4 } else { self.last.saturating_mul(4) } } else { 0 };
        self.left = self.last;
    }

    /// Ends parts in order if the worker of `ran` transactions spent more on waiting for a disk than others on running ahead.
    pub(super) const fn meet_disk(&mut self, ran: usize, waits: usize) {
        if READ * waits > ran / 4 {
            (self.left, self.last) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of parts in order before the next attempt.
    fn in_order(pace: &mut Pace) -> usize {
        (0..1_000).take_while(|_| pace.goes_in_order()).count()
    }

    #[test]
    fn parts_run_in_order_where_running_ahead_is_wasted() {
        let mut pace = Pace::default();
        assert_eq!(in_order(&mut pace), 0);
        let hot = Took { executions: 900, ..Took::default() };
        for expected in [4, 16, 64] {
            pace.learn(512, hot);
            assert_eq!(in_order(&mut pace), expected);
        }
        pace.learn(512, Took { executions: 600, ..Took::default() });
        assert_eq!(in_order(&mut pace), 0);
        pace.learn(512, hot);
        assert_eq!(in_order(&mut pace), 4, "it begins anew");
    }

    /// In order, one worker would read the disk for each transaction that parked.
    #[test]
    fn parts_that_read_a_disk_do_not_run_in_order() {
        let mut pace = Pace::default();
        let hot = Took { executions: 900, ..Took::default() };
        pace.learn(512, Took { parked: 20, ..hot });
        assert_eq!(in_order(&mut pace), 0);
        pace.learn(512, Took { parked: 2, ..hot });
        assert_eq!(in_order(&mut pace), 4, "few values on disk cost less than many attempts");
        pace.learn(512, hot);
        assert!(pace.goes_in_order());
        pace.meet_disk(512, 3);
        assert!(pace.goes_in_order());
        pace.meet_disk(512, 5);
        assert_eq!(in_order(&mut pace), 0);
        pace.learn(512, hot);
        assert_eq!(in_order(&mut pace), 4);
    }
}
