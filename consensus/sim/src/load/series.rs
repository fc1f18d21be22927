//! Answers by the second of submission.

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
    fn answers_count_in_the_second_of_their_submission() {
        let mut series = Series::default();
        for (second, latency_ms) in [(0, 10), (1, 900), (2, 300), (3, 10), (4, 40), (6, 10)] {
            let sent = second * 1_000_000_000;
            series.note(sent, sent + latency_ms * 1_000_000, 3);
        }
        assert_eq!(series.seconds()[5].latency_s(), None);
        assert_eq!(series.seconds()[1].latency_s(), Some(0.9));
    }
}
