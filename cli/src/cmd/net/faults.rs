//! Faults on the command line, and their moments.

use phalanx_lab::error::Usage;
use phalanx_net::Cut;
use std::time::Duration;

/// The replica that a kill hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Index(usize),
    /// The leader at that moment.
    Primary,
}

/// Kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kill(Victim),
    Stop(Victim),
    Partition(Vec<usize>, Cut),
}

/// A fault, and its time since the load began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: Duration,
    pub(crate) length: Duration,
    pub(crate) kind: Kind,
    /// As it was given.
    pub(crate) text: String,
}

/// A step of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The fault with this number begins.
    Begin(usize),
    /// The fault with this number ends.
    End(usize),
}

impl Fault {
    pub(crate) fn parse_kill(text: &str) -> Result<Self, String> {
        Self::parse_victim(text, Kind::Kill)
    }

    pub(crate) fn parse_stop(text: &str) -> Result<Self, String> {
        Self::parse_victim(text, Kind::Stop)
    }

    fn parse_victim(text: &str, kind: impl FnOnce(Victim) -> Kind) -> Result<Self, String> {
        let (which, at, length) = split(text)?;
        let victim = match which {
            "primary" => Victim::Primary,
            index => Victim::Index(number(index)?),
        };
        Ok(Self { at, length, kind: kind(victim), text: text.into() })
    }

    pub(crate) fn parse_partition(text: &str) -> Result<Self, String> {
        let (timed, cut) = match text.rsplit_once(':') {
            Some((timed, "holds")) => (timed, Cut::Holds),
            Some((timed, "loses")) => (timed, Cut::Loses),
            Some((_, other)) => return Err(format!("{other:?} is none of holds, loses")),
            None => (text, Cut::Loses),
        };
        let (group, at, length) = split(timed)?;
        let group = group.split(',').map(number).collect::<Result<Vec<usize>, String>>()?;
        Ok(Self { at, length, kind: Kind::Partition(group, cut), text: text.into() })
    }

    /// Checks the fault against a run of `seconds` with `n` replicas.
    pub(crate) fn check(&self, n: usize, seconds: u64) -> Result<(), Usage> {
        let group: &[usize] = match &self.kind {
            Kind::Kill(Victim::Index(index)) | Kind::Stop(Victim::Index(index)) => &[*index],
            Kind::Kill(Victim::Primary) | Kind::Stop(Victim::Primary) => &[],
            Kind::Partition(group, _) => group,
        };
        if let Some(index) = group.iter().find(|index| **index >= n) {
            return Err(Usage(format!("{}: there is no replica {index}, they are 0 to {}", self.text, n - 1)));
        }
        if self.at > Duration::from_secs(seconds) {
            return Err(Usage(format!("{}: the load ends after {seconds} s", self.text)));
        }
        Ok(())
    }
}

/// Steps of all faults in the order of their times.
pub(crate) fn steps(faults: &[Fault]) -> Vec<(Duration, Step)> {
    let mut steps: Vec<(Duration, Step)> = Vec::new();
    for (number, fault) in faults.iter().enumerate() {
        steps.push((fault.at, Step::Begin(number)));
        steps.push((fault.at + fault.length, Step::End(number)));
    }
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// Text before the `@`, and the two times behind it.
fn split(text: &str) -> Result<(&str, Duration, Duration), String> {
    let (what, times) = text.split_once('@').ok_or("the moment is missing: WHAT@AT+LENGTH, in seconds")?;
    let (at, length) = times.split_once('+').ok_or("the length is missing: WHAT@AT+LENGTH, in seconds")?;
    Ok((what, seconds(at)?, seconds(length)?))
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is no index of a replica"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no number of seconds between 0 and 3600");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if (0.0..=3_600.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_wrong_words_are_named() {
        let kill = Fault::parse_kill("primary@3+1.5").expect("a fault");
        assert_eq!((kill.kind, kill.length), (Kind::Kill(Victim::Primary), Duration::from_millis(1_500)));
        let stop = Fault::parse_stop("2@3+1").expect("a fault");
        assert_eq!(stop.kind, Kind::Stop(Victim::Index(2)));
        let cut = Fault::parse_partition("0,2@1+2:holds").expect("a fault");
        assert_eq!(cut.kind, Kind::Partition(vec![0, 2], Cut::Holds));
        assert_eq!(Fault::parse_partition("1@1+2").expect("a fault").kind, Kind::Partition(vec![1], Cut::Loses));
        for (wrong, says) in
            [("0", "moment"), ("0@1", "length"), ("x@1+1", "index"), ("0@a+1", "seconds"), ("0@1+-1", "between")]
        {
            assert!(Fault::parse_kill(wrong).is_err_and(|error| error.contains(says)), "{wrong}");
        }
        assert!(Fault::parse_partition("0@1+1:bends").is_err());
        assert!(Fault::parse_kill("4@1+1").expect("a fault").check(4, 10).is_err());
        assert!(Fault::parse_kill("3@11+1").expect("a fault").check(4, 10).is_err());
    }

    #[test]
    fn steps_follow_their_times() {
        let fault = |text| Fault::parse_kill(text).expect("a fault");
        let steps: Vec<Step> = steps(&[fault("0@2+5"), fault("1@3+1")]).into_iter().map(|(_, step)| step).collect();
        assert_eq!(steps, [Step::Begin(0), Step::Begin(1), Step::End(1), Step::End(0)]);
    }
}
