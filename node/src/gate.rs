//! Decision whether a call of another node is worth its wait, by what earlier calls have found. Time is passed in.

use std::time::{Duration, Instant};

/// Time for which a node that did not answer is not asked again for a client.
const SHUT: Duration = Duration::from_secs(1);

/// Open while the other node answers. Behind a call without an answer it is shut for a while, and then lets one call find out.
#[derive(Debug, Default)]
pub(crate) struct Gate(Option<Shut>);

#[derive(Debug)]
struct Shut {
    until: Option<Instant>,
    why: String,
}

impl Gate {
    /// Lets a call pass, which ends by itself after `patience`.
    ///
    /// # Errors
    /// The reason for which the node is taken to be away.
    pub(crate) fn enter(&mut self, now: Instant, patience: Duration) -> Result<(), String> {
        let Some(shut) = &mut self.0 else { return Ok(()) };
        if shut.until.is_none_or(|until| now < until) {
            return Err(shut.why.clone());
        }
        // This call finds out; the others do not wait for it.
        shut.until = now.checked_add(patience);
        Ok(())
    }

    /// Notes the end of a call, also of one that did not enter: the reason for which there was no answer, if there was none.
    pub(crate) fn note(&mut self, now: Instant, away: Option<String>) {
        self.0 = away.map(|why| Shut { until: now.checked_add(SHUT), why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_finds_out_whether_the_node_is_back() {
        let (begun, patience) = (Instant::now(), Duration::from_secs(5));
        let at = |millis| begun + Duration::from_millis(millis);
        let mut gate = Gate::default();
        assert_eq!(gate.enter(at(0), patience), Ok(()));
        gate.note(at(100), Some("gone".into()));
        let gone = Err("gone".to_owned());
        assert_eq!(gate.enter(at(100), patience), gone);
        assert_eq!(gate.enter(at(1_099), patience), gone);
        assert_eq!(gate.enter(at(1_100), patience), Ok(()), "it finds out");
        assert_eq!(gate.enter(at(1_100), patience), gone, "the next one does not");
        assert_eq!(gate.enter(at(6_099), patience), gone);
        assert_eq!(gate.enter(at(6_100), patience), Ok(()), "a call that never ends holds no other up");
        gate.note(at(6_200), Some("still gone".into()));
        assert_eq!(gate.enter(at(6_300), patience), Err("still gone".into()));
        // An answer opens it at once, for all.
        gate.note(at(6_400), None);
        (0..3).for_each(|_| assert_eq!(gate.enter(at(6_400), patience), Ok(())));
    }
}
