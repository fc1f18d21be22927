//! Pace of a run: its length, and arrivals of transactions.

use super::heading;
use crate::error::Usage;
use clap::Args;
use std::time::Duration;

/// Pace of a run. Without one, the whole load runs as fast as it can.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Pace {
    /// End the first run after so many seconds, though transactions are left; all other runs execute the same blocks
    #[arg(long, value_name = "SECONDS", help_heading = heading::MEASURE)]
    pub duration: Option<f64>,
    /// Open loop: transactions arrive at this rate per second whatever the engine does, a block is planned once all of its own
    /// have arrived, and latencies count from the arrival. Planning overlaps nothing then
    #[arg(long, value_name = "N", help_heading = heading::MEASURE)]
    pub rate: Option<u64>,
    /// Number of blocks after which the run ends.
    #[arg(skip)]
    pub(crate) blocks: Option<usize>,
}

/// Maximum number of seconds, and of arrivals per second; more is a typing error.
const MOST: (f64, u64) = (1e6, 1_000_000_000);

impl Pace {
    /// Refuses a pace that no run could have.
    ///
    /// # Errors
    /// With the setting at fault.
    pub(super) fn check(&self, signatures: bool) -> Result<(), Usage> {
        let refused = |why: String| Err(Usage(why));
        match self {
            Self { duration: Some(seconds), .. } if !(*seconds > 0.0 && *seconds <= MOST.0) => {
                refused(format!("--duration must be above 0 and at most {}, not {seconds}", MOST.0))
            }
            Self { rate: Some(rate), .. } if !(1..=MOST.1).contains(rate) => {
                refused(format!("--rate must be between 1 and {}, not {rate}", MOST.1))
            }
            Self { rate: Some(_), .. } if signatures => refused(
                "--rate and --signatures on do not go together: all senders are recovered before the first block"
                    .into(),
            ),
            _ => Ok(()),
        }
    }

    /// True if a run ends that has taken so long for so many blocks.
    pub(crate) fn is_over(&self, elapsed: Duration, blocks: usize) -> bool {
        let timed = self.duration.is_some_and(|seconds| blocks > 0 && elapsed.as_secs_f64() >= seconds);
        timed || self.blocks.is_some_and(|most| blocks >= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_its_time_or_its_blocks() {
        let second = Duration::from_secs(1);
        let timed = Pace { duration: Some(1.0), ..Pace::default() };
        assert!(timed.is_over(second, 1) && !timed.is_over(second / 2, 9) && !timed.is_over(second, 0));
        let counted = Pace { blocks: Some(3), ..Pace::default() };
        assert!(counted.is_over(Duration::ZERO, 3) && !counted.is_over(second * 9, 2));
        assert!(!Pace::default().is_over(second * 9, 9));
    }

    #[test]
    fn impossible_paces_are_refused() {
        let says = |pace: Pace, signatures| pace.check(signatures).map_err(|error| error.0);
        for duration in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let pace = Pace { duration: Some(duration), ..Pace::default() };
            assert!(says(pace, false).is_err_and(|why| why.contains("--duration must be")), "{duration}");
        }
        let open = |rate| Pace { rate: Some(rate), ..Pace::default() };
        assert!(says(open(0), false).is_err() && says(open(u64::MAX), false).is_err() && says(open(5), false).is_ok());
        assert!(says(open(5), true).is_err_and(|why| why.contains("--signatures on")));
    }
}
