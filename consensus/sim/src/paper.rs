//! A paper's evaluation: its figures as sweeps, and its numbers beside ours.

use core::fmt::Debug;
use serde::Serializer;

/// A figure of a paper's evaluation, or the numbers of its text.
pub trait Evaluation: Copy + Debug + 'static {
    /// Setting of a point.
    type Setting;
    /// Result of a point.
    type Outcome;

    /// All figures, in the order of the paper.
    const ALL: &'static [Self];

    /// Title, and the name of the axis of [`Point::at`].
    fn title(self) -> (&'static str, &'static str);

    /// Points of the sweep, at the paper's settings.
    fn points(self) -> Vec<Point<Self::Setting>>;

    /// Checks a setting.
    ///
    /// # Errors
    /// Names what is impossible.
    fn check(setting: &Self::Setting) -> Result<(), &'static str>;

    /// Simulates a setting.
    ///
    /// # Errors
    /// Names what is impossible.
    fn run(setting: &Self::Setting) -> Result<Self::Outcome, &'static str>;

    /// The paper's numbers beside those of the figure's points.
    fn numbers(self, of: &Of<'_, Self::Outcome>) -> Vec<Comparison>;

    /// The paper's numbers beside those of `outcomes`, which are the outcomes of [`Evaluation::points`] in their order. A number
    /// that agrees needs no reason.
    #[must_use]
    fn compare(self, outcomes: &[Self::Outcome]) -> Vec<Comparison> {
        let because =
            |number: Comparison| Comparison { reason: if number.agrees() { "" } else { number.reason }, ..number };
        self.numbers(&Of(outcomes)).into_iter().map(because).collect()
    }
}

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<S> {
    /// Name of its line in the plot.
    pub series: String,
    /// Value on the axis.
    pub at: f64,
    /// The setting.
    pub setting: S,
    /// The paper's latency by second of submission from the blip on, in seconds; empty if it prints none.
    pub paper: &'static [f64],
}

impl<S> Point<S> {
    /// A point without numbers by second.
    pub fn new(series: impl Into<String>, at: f64, setting: S) -> Self {
        Self { series: series.into(), at, setting, paper: &[] }
    }
}

/// Writes seconds in ms.
///
/// # Errors
/// Those of the writer.
pub(crate) fn in_ms<S: Serializer>(seconds: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(seconds * 1000.0)
}

/// Writes the hash of all events of a run: equal settings, equal hashes.
///
/// # Errors
/// Those of the writer.
pub(crate) fn in_hex<S: Serializer>(hash: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("0x{hash:016x}"))
}

/// Outcomes of a sweep, by the numbers of their points. A point that is missing agrees with nothing.
#[derive(Clone, Copy, Debug)]
pub struct Of<'a, O>(pub(crate) &'a [O]);

impl<O> Of<'_, O> {
    /// A number of a point.
    pub(crate) fn at(&self, point: usize, number: impl Fn(&O) -> f64) -> f64 {
        self.0.get(point).map_or(f64::NAN, number)
    }
}

/// Rule by which two numbers agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Constants are fitted to this number.
    Fitted,
    /// The paper's number decides a parameter: no prediction.
    Input,
    /// A prediction: the numbers are close to each other.
    Near,
    /// A prediction: ours is the greater one, or equal.
    AtLeast,
    /// A prediction: ours is the greater one.
    Above,
    /// A prediction: ours is the smaller one, or equal.
    AtMost,
}

impl Rule {
    /// Returns true for a prediction, which can fail.
    #[must_use]
    pub const fn predicts(self) -> bool {
        !matches!(self, Self::Fitted | Self::Input)
    }

    /// Sign of a bound before the paper's number; empty for a number.
    #[must_use]
    pub const fn sign(self) -> &'static str {
        match self {
            Self::AtLeast => "≥ ",
            Self::Above => "> ",
            Self::AtMost => "≤ ",
            Self::Fitted | Self::Input | Self::Near => "",
        }
    }
}

/// A number of a paper beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Subject of the comparison.
    pub what: &'static str,
    /// The paper's number.
    pub paper: f64,
    /// Ours.
    pub ours: f64,
    /// Rule by which they agree.
    pub rule: Rule,
    /// Relative distance of two close numbers.
    pub within: f64,
    /// Known cause of a difference; empty without one.
    pub reason: &'static str,
}

impl Comparison {
    /// Returns true if the numbers agree.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let Self { paper, ours, within, .. } = *self;
        match self.rule {
            Rule::Fitted | Rule::Input | Rule::Near => ours <= paper * (1.0 + within) && ours >= paper / (1.0 + within),
            Rule::AtLeast => ours >= paper,
            Rule::Above => ours > paper,
            Rule::AtMost => ours <= paper,
        }
    }

    pub(crate) const fn because(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }
}

const fn compared(what: &'static str, paper: f64, ours: f64, rule: Rule, within: f64) -> Comparison {
    Comparison { what, paper, ours, rule, within, reason: "" }
}

pub(crate) const fn fitted(what: &'static str, paper: f64, ours: f64, within: f64) -> Comparison {
    compared(what, paper, ours, Rule::Fitted, within)
}

pub(crate) const fn input(what: &'static str, paper: f64, ours: f64, within: f64) -> Comparison {
    compared(what, paper, ours, Rule::Input, within)
}

/// Numbers that agree within a quarter.
pub(crate) const fn near(what: &'static str, paper: f64, ours: f64) -> Comparison {
    compared(what, paper, ours, Rule::Near, 0.25)
}

pub(crate) const fn at_least(what: &'static str, paper: f64, ours: f64) -> Comparison {
    compared(what, paper, ours, Rule::AtLeast, 0.0)
}

pub(crate) const fn above(what: &'static str, paper: f64, ours: f64) -> Comparison {
    compared(what, paper, ours, Rule::Above, 0.0)
}

pub(crate) const fn at_most(what: &'static str, paper: f64, ours: f64) -> Comparison {
    compared(what, paper, ours, Rule::AtMost, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_by_their_rule() {
        let agrees = |ours, number: fn(f64) -> Comparison| number(ours).agrees();
        let fit = |ours| fitted("x", 2.0, ours, 0.01);
        assert!(agrees(2.01, fit) && !agrees(2.03, fit));
        let close = |ours| near("x", 2.0, ours);
        assert!(agrees(2.49, close) && agrees(1.61, close) && !agrees(2.51, close) && !agrees(1.59, close));
        assert!(at_least("x", 2.0, 2.0).agrees() && !at_least("x", 2.0, 1.99).agrees());
        assert!(above("x", 2.0, 2.01).agrees() && !above("x", 2.0, 2.0).agrees());
        assert!(at_most("x", 2.0, 2.0).agrees() && !at_most("x", 2.0, 2.01).agrees() && !agrees(f64::NAN, close));
    }

    /// Every point of every figure is possible, and a missing one agrees with nothing.
    fn figures_are_sound<E: Evaluation>() {
        for figure in E::ALL {
            for point in figure.points() {
                assert_eq!(E::check(&point.setting), Ok(()), "{} {}", point.series, point.at);
            }
            let numbers = figure.compare(&[]);
            assert!(!numbers.is_empty() && numbers.iter().all(|number| !number.agrees()), "{figure:?}");
        }
    }

    #[test]
    fn the_figures_of_all_papers_are_sound() {
        figures_are_sound::<crate::resilientdb::Figure>();
        figures_are_sound::<crate::sbft::Figure>();
        figures_are_sound::<crate::autobahn::Figure>();
    }
}
