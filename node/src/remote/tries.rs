//! Decision which failures of a remote node are tried again, and when. Time is passed in.

use std::time::{Duration, Instant};

/// Pause behind the first failure; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(200);

/// Longest pause, whatever the remote node asks for.
const LONGEST: Duration = Duration::from_secs(10);

/// Whether another try may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// It may; the remote node may have said how long to wait.
    Passing(Option<Duration>),
    /// It gives the same answer.
    Final,
}

/// Pause before the next try behind so many failures; `None` if there is none.
pub(super) fn pause(outlook: Outlook, failures: u32, retries: u32) -> Option<Duration> {
    let Outlook::Passing(said) = outlook else { return None };
    if failures > retries {
        return None;
    }
    let own = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(8));
    Some(own.max(said.unwrap_or_default()).min(LONGEST))
}

/// Outlook of an HTTP status that is no success, with the seconds of its `Retry-After`.
pub(super) fn of_status(status: u16, after: Option<u64>) -> Outlook {
    match status {
        408 | 425 | 429 | 500..=599 => Outlook::Passing(after.map(Duration::from_secs)),
        _ => Outlook::Final,
    }
}

/// Outlook of an error of JSON-RPC: limits of providers have codes and texts of their own.
pub(super) fn of_refusal(code: i64, message: &str) -> Outlook {
    let text = message.to_ascii_lowercase();
    let is_limit = ["rate limit", "too many requests", "limit exceeded", "compute units", "capacity", "try again"];
    match code {
        429 | -32005 | -32603 => Outlook::Passing(None),
        _ if is_limit.iter().any(|said| text.contains(said)) => Outlook::Passing(None),
        _ => Outlook::Final,
    }
}

/// Pace of requests: at most so many per second.
#[derive(Debug, Default)]
pub(super) struct Pace {
    per_second: Option<u32>,
    /// Time from which the next requests may go.
    next: Option<Instant>,
}

impl Pace {
    pub(super) const fn new(per_second: Option<u32>) -> Self {
        Self { per_second, next: None }
    }

    /// Time to wait before so many requests go together.
    pub(super) fn enter(&mut self, now: Instant, requests: usize) -> Duration {
        let Some(per_second) = self.per_second else { return Duration::ZERO };
        let at = self.next.map_or(now, |next| next.max(now));
        let take = Duration::from_secs_f64(requests as f64 / f64::from(per_second.max(1)));
        self.next = at.checked_add(take);
        at.duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_failures_are_tried_again_after_longer_and_longer_pauses() {
        let passing = Outlook::Passing(None);
        let pauses: Vec<_> = (1..=4).map(|failures| pause(passing, failures, 3)).collect();
        let millis = Duration::from_millis;
        assert_eq!(pauses, [Some(millis(200)), Some(millis(400)), Some(millis(800)), None]);
        assert_eq!(pause(Outlook::Passing(Some(Duration::from_secs(3))), 1, 3), Some(Duration::from_secs(3)));
        assert_eq!(pause(Outlook::Passing(Some(Duration::from_secs(999))), 1, 3), Some(LONGEST));
        assert_eq!(pause(passing, u32::MAX - 1, u32::MAX), Some(LONGEST));
        assert_eq!(pause(Outlook::Final, 1, 3), None);
    }

    #[test]
    fn limits_and_faults_of_the_server_pass_and_refusals_do_not() {
        assert_eq!(of_status(429, Some(2)), Outlook::Passing(Some(Duration::from_secs(2))));
        assert_eq!([500, 502, 503, 599].map(|status| of_status(status, None)), [Outlook::Passing(None); 4]);
        assert_eq!([301, 400, 401, 403, 404].map(|status| of_status(status, Some(1))), [Outlook::Final; 5]);
        assert_eq!(of_refusal(-32005, "x"), Outlook::Passing(None));
        assert_eq!(of_refusal(-32000, "Your app has exceeded its compute units"), Outlook::Passing(None));
        assert_eq!(of_refusal(-32000, "missing trie node"), Outlook::Final);
    }

    #[test]
    fn requests_keep_their_pace_and_nothing_waits_without_one() {
        let now = Instant::now();
        assert_eq!(Pace::new(None).enter(now, 1_000_000), Duration::ZERO);
        let mut pace = Pace::new(Some(10));
        assert_eq!(pace.enter(now, 5), Duration::ZERO);
        assert_eq!(pace.enter(now, 20), Duration::from_millis(500));
        assert_eq!(pace.enter(now, 1), Duration::from_millis(2_500));
        assert_eq!(pace.enter(now + Duration::from_secs(60), 1), Duration::ZERO, "a break saves nothing up");
    }
}
