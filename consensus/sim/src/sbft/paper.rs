//! The paper's numbers beside ours. Its pictures are not at hand: only numbers of its text are compared.

use super::{
    figures::{CLIENTS, Figure, LADDER},
    setting::Outcome,
};

/// Rule by which two numbers agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The table of costs is fitted to this number: within 5 %.
    Fitted,
    /// An input: the table has this number, within 5 %.
    Input,
    /// A prediction: within 25 %.
    Near,
    /// A prediction: ours is the greater one.
    Above,
    /// A prediction: ours is the smaller one, or equal.
    AtMost,
}

/// A number of the paper beside ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Subject of the comparison.
    pub what: &'static str,
    /// The paper's number.
    pub paper: f64,
    /// Ours.
    pub ours: f64,
    /// Rule by which they agree.
    pub rule: Rule,
}

impl Comparison {
    /// Returns true if the numbers agree.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let Self { paper, ours, .. } = *self;
        match self.rule {
            Rule::Fitted | Rule::Input => (ours / paper - 1.0).abs() <= 0.05,
            Rule::Near => ours <= paper * 1.25 && ours >= paper / 1.25,
            Rule::Above => ours > paper,
            Rule::AtMost => ours <= paper,
        }
    }
}

const fn row(what: &'static str, paper: f64, ours: f64, rule: Rule) -> Comparison {
    Comparison { what, paper, ours, rule }
}

impl Figure {
    /// The paper's numbers beside those of `outcomes`, which are the outcomes of [`Figure::points`] in their order.
    #[must_use]
    pub fn compare(self, outcomes: &[Outcome]) -> Vec<Comparison> {
        let rate = |at: usize| outcomes.get(at).map_or(f64::NAN, |outcome| outcome.per_second);
        let median = |at: usize| outcomes.get(at).map_or(f64::NAN, |outcome| outcome.median_ms);
        // By crashed replicas, rung of the ladder and clients.
        let ladder =
            |crashed: usize, rung: usize| rate((crashed * LADDER.len() + rung) * CLIENTS.len() + CLIENTS.len() - 1);
        match self {
            Self::Contracts => vec![
                row("no replication, tx/s", 840.0, rate(0), Rule::Input),
                row("PBFT on a continent, tx/s", 204.0, rate(1), Rule::Fitted),
                row("SBFT on a continent, tx/s", 378.0, rate(3), Rule::Fitted),
                row("PBFT on a continent, median in ms", 538.0, median(1), Rule::Near),
                row("SBFT on a continent, median in ms", 254.0, median(3), Rule::Near),
                row("PBFT in the world, tx/s", 98.0, rate(2), Rule::Near),
                row("SBFT in the world, tx/s", 172.0, rate(4), Rule::Near),
                row("PBFT in the world, median in ms", 934.0, median(2), Rule::Near),
                row("SBFT in the world, median in ms", 622.0, median(4), Rule::Near),
                row("SBFT over PBFT on a continent", 1.85, rate(3) / rate(1), Rule::Near),
                row("SBFT over PBFT in the world", 1.76, rate(4) / rate(2), Rule::Near),
                row("no replication over SBFT on a continent", 2.2, rate(0) / rate(3), Rule::Near),
                row("no replication over SBFT in the world", 4.9, rate(0) / rate(4), Rule::Near),
            ],
            Self::Batched => vec![
                row("PBFT, puts per second at 256 clients", 1_500.0, ladder(0, 0), Rule::Near),
                row("linear PBFT, puts per second", 2_000.0, ladder(0, 1), Rule::Near),
                row("with a fast path, puts per second", 2_800.0, ladder(0, 2), Rule::Near),
                row("linear PBFT over PBFT", 1.0, ladder(0, 1) / ladder(0, 0), Rule::Above),
                row("with a fast path over linear PBFT", 1.0, ladder(0, 2) / ladder(0, 1), Rule::Above),
                row("SBFT, c = 0, over that", 1.0, ladder(0, 3) / ladder(0, 2), Rule::Above),
                row("SBFT, c = 8, over c = 0", 1.0, ladder(0, 4) / ladder(0, 3), Rule::Above),
                row("8 crashed: a fast path over linear PBFT", 1.05, ladder(1, 2) / ladder(1, 1), Rule::AtMost),
                row("8 crashed: SBFT, c = 8, over c = 0", 1.25, ladder(1, 4) / ladder(1, 3), Rule::Above),
                row("64 crashed: SBFT, c = 8, over c = 0", 1.0, ladder(2, 4) / ladder(2, 3), Rule::Above),
            ],
            Self::Single => vec![
                row("linear PBFT over PBFT at 256 clients", 1.0, ladder(0, 1) / ladder(0, 0), Rule::Above),
                row("SBFT, c = 8, over PBFT", 1.0, ladder(0, 4) / ladder(0, 0), Rule::Above),
                row("8 crashed: SBFT, c = 8, over c = 0", 1.25, ladder(1, 4) / ladder(1, 3), Rule::Above),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sbft::figures::CRASHED;

    #[test]
    fn a_missing_point_agrees_with_nothing() {
        assert_eq!(CRASHED.len() * LADDER.len() * CLIENTS.len(), Figure::Batched.points().len());
        for figure in Figure::ALL {
            assert!(figure.compare(&[]).iter().all(|number| !number.agrees()), "{figure:?}");
        }
    }
}
