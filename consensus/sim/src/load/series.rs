//! Answers by the second of submission, and the hangover after a blip.

/// Requests of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Number of answered requests.
    pub answered: u64,
    /// Sum of their latencies, in ns.
    pub waited_ns: u128,
}

impl Second {
    /// Mean latency in seconds, `None` if no request of this second is answered.
    #[must_use]
    pub fn latency_s(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.waited_ns as f64 / 1e9 / self.answered as f64)
    }
}

/// Answers of a run, by second of submission: a blip shows at the requests that suffer from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series(Vec<Second>);

impl Series {
    /// The seconds of the run, from the first.
    #[must_use]
    pub fn seconds(&self) -> &[Second] {
        &self.0
    }

    /// Number of seconds from `end` on whose requests take more than `factor` times `normal_s` on average.
    ///
    /// `end` is the second in which a blip ends. Requests of later seconds that still suffer are its hangover.
    #[must_use]
    pub fn hangover(&self, end: usize, normal_s: f64, factor: f64) -> usize {
        let suffers = |second: &Second| second.latency_s().is_some_and(|latency| latency > normal_s * factor);
        self.0.iter().skip(end).rposition(suffers).map_or(0, |last| last + 1)
    }

    pub(crate) fn note(&mut self, sent: u64, now: u64, count: u64) {
        let at = (sent / 1_000_000_000) as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Second::default());
        }
        self.0[at].answered += count;
        self.0[at].waited_ns += u128::from(count) * u128::from(now - sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangover_ends_with_the_last_second_that_suffers() {
        let mut series = Series::default();
        for (second, latency_ms) in [(0, 10), (1, 900), (2, 300), (3, 10), (4, 40), (6, 10)] {
            let sent = second * 1_000_000_000;
            series.note(sent, sent + latency_ms * 1_000_000, 3);
        }
        assert_eq!(series.seconds()[5].latency_s(), None);
        assert_eq!(series.seconds()[1].latency_s(), Some(0.9));
        assert_eq!(
            [series.hangover(2, 0.01, 2.0), series.hangover(2, 0.01, 5.0), series.hangover(3, 0.01, 5.0)],
            [3, 1, 0]
        );
    }
}
