//! Sweeps of the paper's figures, and its numbers beside ours.
//!
//! The numbers of Figures 7 and 8 are those of the artefact's files: means of the latency by second of submission.

use super::setting::{Blip, Order, Outcome, Setting};
use crate::resilientdb::{Comparison, Rule};
use phalanx_bft::autobahn::{Spread, Tips};

/// A figure of the paper's evaluation, or the numbers of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Latency over throughput, four replicas.
    Five,
    /// Peak throughput at 12 and 20 replicas.
    Six,
    /// Failed leaders.
    Seven,
    /// A partition of 20 s into halves.
    Eight,
    /// Fast path, tips and form: numbers of the text.
    Ablation,
    /// Real processes of `phalanx net`, as the model has them: their timers, no mempool, certified answers.
    Processes,
}

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Name of its line in the plot.
    pub series: String,
    /// Value on the axis.
    pub at: f64,
    /// The setting.
    pub setting: Setting,
    /// The paper's latency by second of submission from the blip on, in seconds; empty if it prints none.
    pub paper: &'static [f64],
}

const BASE: Setting = Setting::BASE;

/// The partition of `phalanx net --partition 0,1@6+5:loses`.
const APART: Blip = Blip::Halves { from_ms: 6_000, until_ms: 11_000 };

/// Second in which blips begin.
const BLIP: u64 = 4;

impl Figure {
    /// All figures, in the order of the paper.
    pub const ALL: [Self; 6] = [Self::Five, Self::Six, Self::Seven, Self::Eight, Self::Ablation, Self::Processes];

    /// Title, and the name of the axis.
    #[must_use]
    pub const fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Five => ("Figure 5: latency over throughput", "transactions per second"),
            Self::Six => ("Figure 6: many replicas", "replicas"),
            Self::Seven => ("Figure 7: failed leaders", "second of submission"),
            Self::Eight => ("Figure 8: a partition into halves", "second of submission"),
            Self::Ablation => ("Fast path, tips and form (text)", "transactions per second"),
            Self::Processes => {
                ("Four processes at 2,000 transactions per second, as the model has them", "second of submission")
            }
        }
    }

    /// Returns true if the figure shows latency by second.
    #[must_use]
    pub const fn is_over_time(self) -> bool {
        matches!(self, Self::Seven | Self::Eight | Self::Processes)
    }

    /// The sweep, at the paper's settings.
    #[must_use]
    pub fn points(self) -> Vec<Point> {
        match self {
            Self::Five => [
                (Order::Autobahn, &[20_000, 100_000, 180_000, 220_000, 234_000][..]),
                (Order::BatchedHotStuff, &[20_000, 100_000, 180_000, 189_000]),
                (Order::VanillaHotStuff, &[3_000, 8_000, 12_426, 15_000]),
            ]
            .into_iter()
            .flat_map(|(order, loads)| {
                loads.iter().map(move |tps| point(order.name(), *tps, Setting { order, tps: *tps, ..BASE }))
            })
            .collect(),
            Self::Six => {
                let at = |order: Order, n: usize, tps| point(order.name(), n as u64, Setting { order, n, tps, ..BASE });
                vec![
                    at(Order::Autobahn, 12, 229_089),
                    at(Order::Autobahn, 20, 227_562),
                    at(Order::BatchedHotStuff, 12, 159_226),
                    at(Order::BatchedHotStuff, 20, 111_875),
                    at(Order::VanillaHotStuff, 12, 1_628),
                    at(Order::VanillaHotStuff, 20, 1_550),
                ]
            }
            Self::Seven => {
                let blip = |order, tps, timeout_ms, at_ms, views, late| Setting {
                    order,
                    tps,
                    timeout_ms,
                    fast_ms: Some(200),
                    block_batches: 10,
                    blip: Some(Blip::Leader { at_ms, views, late }),
                    total_ms: 24_000,
                    ..BASE
                };
                let (autobahn, vanilla) = (Order::Autobahn, Order::VanillaHotStuff);
                let over = |name, paper, setting| Point { paper, ..point(name, 0, setting) };
                vec![
                    over("Autobahn 1 s", &[0.82, 0.26], blip(autobahn, 220_000, 1_000, 4_000, 1, false)),
                    over(
                        "Autobahn 5 s",
                        &[1.97, 4.50, 3.50, 2.50, 1.50, 0.55, 0.29],
                        blip(autobahn, 220_000, 5_000, 3_600, 1, false),
                    ),
                    over(
                        "VanillaHS 1 s",
                        &[0.72, 2.27, 1.73, 1.20, 0.63, 0.28],
                        blip(vanilla, 15_000, 1_000, 3_600, 1, true),
                    ),
                    over(
                        "VanillaHS Dbl",
                        &[1.79, 5.13, 4.35, 3.35, 2.74, 2.28, 1.76, 1.09, 0.52],
                        blip(vanilla, 15_000, 1_000, 3_600, 2, false),
                    ),
                    over(
                        "VanillaHS 5 s",
                        &[6.31, 7.19, 6.19, 5.19, 5.25, 4.90, 3.95, 2.99, 2.75, 2.27, 1.58, 0.93, 0.48],
                        blip(vanilla, 15_000, 5_000, 4_000, 1, true),
                    ),
                ]
            }
            Self::Eight => {
                let halves = |order, batch_ms, block_batches| Setting {
                    order,
                    tps: 15_000,
                    timeout_ms: 1_000,
                    fast_ms: Some(200),
                    batch_ms,
                    block_batches,
                    blip: Some(Blip::Halves { from_ms: BLIP * 1_000, until_ms: 24_000 }),
                    total_ms: 60_000,
                    ..BASE
                };
                let batched = "BatchedHS";
                vec![
                    Point { paper: &[21.1], ..point("Autobahn", 0, halves(Order::Autobahn, 200, 64)) },
                    point(batched, 0, halves(Order::BatchedHotStuff, 200, 6)),
                    Point { paper: &[22.5], ..point("VanillaHS", 0, halves(Order::VanillaHotStuff, 20, 10)) },
                ]
            }
            Self::Ablation => {
                let all = |tps| {
                    let base = Setting { tps, ..BASE };
                    [
                        point("Autobahn", tps, base),
                        point("no fast path", tps, Setting { fast_ms: None, ..base }),
                        point("certified tips", tps, Setting { tips: Tips::Certified, ..base }),
                        point("own tip", tps, Setting { tips: Tips::Own, ..base }),
                        point("all to all", tps, Setting { spread: Spread::AllToAll, ..base }),
                        point("one slot at a time", tps, Setting { parallel: 1, ..base }),
                    ]
                };
                [20_000, 150_000, 220_000].into_iter().flat_map(all).collect()
            }
            Self::Processes => vec![
                point("no fault", 0, Setting::PROCESSES),
                point("halves apart for 5 s", 0, Setting { blip: Some(APART), ..Setting::PROCESSES }),
                point(
                    "the same, 3,000 clients",
                    0,
                    Setting { blip: Some(APART), clients: Some(3_000), ..Setting::PROCESSES },
                ),
            ],
        }
    }

    /// The paper's numbers beside those of `outcomes`, which are the outcomes of [`Figure::points`] in their order.
    #[must_use]
    pub fn compare(self, outcomes: &[Outcome]) -> Vec<Comparison> {
        let of = Of(outcomes);
        let mut all = match self {
            Self::Five => five(&of),
            Self::Six => six(&of),
            Self::Seven => seven(&of),
            Self::Eight => eight(&of),
            Self::Ablation => vec![
                near("no fast path, ms more", 40.0, of.latency(7) - of.latency(6)),
                near("certified tips, ms more", 33.0, of.latency(8) - of.latency(6)).because(TIPS),
                near("certified tips at low load, ms more, model", 23.5, of.latency(2) - of.latency(0)),
                near("no fast path at low load, ms more, model", 44.5, of.latency(1) - of.latency(0)),
            ],
            Self::Processes => vec![
                at_least("no fault: share that is answered", 0.999, of.sustained(0)),
                at_least("halves apart: share that is answered", 0.999, of.sustained(1)),
                at_most("halves apart for 5 s: hangover, s", 1.5, of.until_usual(1, APART)),
                at_most("the same, 3,000 clients: hangover, s", 1.5, of.until_usual(2, APART)),
            ],
        };
        for comparison in &mut all {
            if comparison.agrees() {
                comparison.reason = "";
            }
        }
        all
    }
}

const TIPS: &str = "the nearest replica's round trip is 23.5 ms on average; queues of votes are not part of the model";
const MORE_REPLICAS: &str =
    "a leader's own batches wait for its turn of n views; the paper's latency was held at 2 s by lowering the load";
const NEAR: &str = "with three or five replicas per region a car is certified within its region, and small cars keep the stations busier";
const SYNC: &str =
    "what is fetched before a vote is in flight already and costs little here; at equal load Autobahn is faster";
const DRAIN: &str = "a backlog drains at the rate of full blocks, which the paper does not print";

fn five(of: &Of<'_>) -> Vec<Comparison> {
    vec![
        Comparison { rule: Rule::Fitted, ..near("Autobahn at 234,000: share that is ready", 1.0, of.sustained(4)) },
        near("Autobahn at its peak, ms", 280.0, of.latency(4)),
        Comparison { rule: Rule::Input, ..near("Autobahn at low load, ms", 221.0, of.latency(0)) },
        at_least("BatchedHS at 189,000: share that is ready", 0.98, of.sustained(8)),
        near("BatchedHS at its peak, ms", 333.0, of.latency(8)).because(SYNC),
        near("BatchedHS at low load, ms", 283.0, of.latency(5)),
        Comparison { rule: Rule::Input, ..near("VanillaHS at 12,426: share that is ready", 1.0, of.sustained(11)) },
        near("VanillaHS at its peak, ms", 365.0, of.latency(11)),
        near("VanillaHS at low load, ms", 293.0, of.latency(9)),
        at_least("low load, BatchedHS over Autobahn", 1.0, of.latency(5) / of.latency(0)),
        at_least("at 180,000, BatchedHS over Autobahn", 1.0, of.latency(7) / of.latency(2)),
        at_least("peak latency, BatchedHS over Autobahn", 1.0, of.latency(8) / of.latency(4)).because(SYNC),
        at_least("peak latency, VanillaHS over Autobahn", 1.0, of.latency(11) / of.latency(4)),
    ]
}

fn six(of: &Of<'_>) -> Vec<Comparison> {
    vec![
        at_least("Autobahn, n = 12 at 229,089: share that is ready", 0.98, of.sustained(0)),
        near("Autobahn, n = 12, ms", 304.0, of.latency(0)).because(NEAR),
        at_least("Autobahn, n = 20 at 227,562: share that is ready", 0.98, of.sustained(1)),
        near("Autobahn, n = 20, ms", 303.0, of.latency(1)).because(NEAR),
        at_least("BatchedHS, n = 12 at 159,226: share that is ready", 0.98, of.sustained(2)),
        near("BatchedHS, n = 12, ms", 306.0, of.latency(2)),
        at_least("BatchedHS, n = 20 at 111,875: share that is ready", 0.98, of.sustained(3)),
        near("BatchedHS, n = 20, ms", 308.0, of.latency(3)),
        near("VanillaHS, n = 12 at 1,628, ms", 1_922.0, of.latency(4)).because(MORE_REPLICAS),
        near("VanillaHS, n = 20 at 1,550, ms", 2_002.0, of.latency(5)).because(MORE_REPLICAS),
    ]
}

fn seven(of: &Of<'_>) -> Vec<Comparison> {
    vec![
        near("Autobahn 1 s: worst second, s", 0.82, of.worst(0)),
        at_most("Autobahn 1 s: hangover, s", 1.5, of.hangover(0, 5.0)),
        near("Autobahn 5 s: worst second, s", 4.50, of.worst(1)),
        at_most("Autobahn 5 s: hangover, s", 1.5, of.hangover(1, 8.6)),
        near("VanillaHS 1 s: worst second, s", 2.27, of.worst(2)).because(DRAIN),
        near("VanillaHS Dbl: worst second, s", 5.13, of.worst(3)).because(DRAIN),
        near("VanillaHS 5 s: worst second, s", 7.19, of.worst(4)).because(DRAIN),
        near("VanillaHS 1 s: hangover over blip of 1 s", 1.6, of.hangover(2, 4.6)).because(DRAIN),
        near("VanillaHS Dbl: hangover over blip of 3 s", 1.3, of.hangover(3, 6.6) / 3.0).because(DRAIN),
        near("VanillaHS 5 s: hangover over blip of 5 s", 1.2, of.hangover(4, 9.0) / 5.0).because(DRAIN),
    ]
}

fn eight(of: &Of<'_>) -> Vec<Comparison> {
    let end = (BLIP + 20) as f64;
    vec![
        near("Autobahn: worst second, s", 21.1, of.worst(0)),
        at_most("Autobahn: hangover, s", 1.5, of.hangover(0, end)),
        Comparison { rule: Rule::Input, ..near("BatchedHS: hangover, s", 8.5, of.hangover(1, end)) },
        near("VanillaHS: worst second, s", 22.5, of.worst(2)),
        near("VanillaHS: hangover, s", 20.0, of.hangover(2, end)).because(DRAIN),
        at_least("hangover, BatchedHS over Autobahn", 1.0, of.hangover(1, end) / of.hangover(0, end).max(0.1)),
        at_least("hangover, VanillaHS over BatchedHS", 1.0, of.hangover(2, end) / of.hangover(1, end).max(0.1)),
    ]
}

/// Outcomes of a sweep, by the numbers of their points. A point that is missing agrees with nothing.
struct Of<'a>(&'a [Outcome]);

impl Of<'_> {
    fn latency(&self, at: usize) -> f64 {
        self.0.get(at).map_or(f64::NAN, |outcome| outcome.latency_ms)
    }

    fn sustained(&self, at: usize) -> f64 {
        self.0.get(at).map_or(f64::NAN, |outcome| outcome.answered)
    }

    /// Largest mean latency of a second, in s.
    fn worst(&self, at: usize) -> f64 {
        self.0.get(at).map_or(f64::NAN, |outcome| seconds(outcome).into_iter().fold(0.0, f64::max))
    }

    /// Time in s from the end of a blip until transactions take their usual time again, by tenths of a second.
    fn until_usual(&self, at: usize, blip: Blip) -> f64 {
        self.0.get(at).and_then(|outcome| outcome.hangover_s(blip)).unwrap_or(f64::NAN)
    }

    /// Time from the end of a blip to the first second from which on latency is normal: at most a quarter above that before it.
    fn hangover(&self, at: usize, end: f64) -> f64 {
        let Some(outcome) = self.0.get(at) else { return f64::NAN };
        let seconds = seconds(outcome);
        let normal = seconds.get(2).copied().unwrap_or(f64::NAN);
        let last = seconds.iter().rposition(|latency| latency.is_nan() || *latency > 1.25 * normal);
        last.map_or(0.0, |last| (last as f64 + 1.0 - end).max(0.0))
    }
}

/// Mean latency by second of submission, in s, without the last two; not a number where nothing is ready.
fn seconds(outcome: &Outcome) -> Vec<f64> {
    let all = outcome.series.seconds();
    let shown = all.len().saturating_sub(2);
    all[..shown].iter().map(|second| second.latency_s().unwrap_or(f64::NAN)).collect()
}

fn point(series: &str, at: u64, setting: Setting) -> Point {
    Point { series: series.to_owned(), at: at as f64, setting, paper: &[] }
}

const fn compared(what: &'static str, paper: f64, ours: f64, rule: Rule) -> Comparison {
    Comparison { what, paper, ours, rule, reason: "" }
}

const fn near(what: &'static str, paper: f64, ours: f64) -> Comparison {
    compared(what, paper, ours, Rule::Near)
}

const fn at_least(what: &'static str, paper: f64, ours: f64) -> Comparison {
    compared(what, paper, ours, Rule::AtLeast)
}

const fn at_most(what: &'static str, paper: f64, ours: f64) -> Comparison {
    compared(what, paper, ours, Rule::AtMost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_of_every_figure_is_possible() {
        for point in Figure::ALL.into_iter().flat_map(Figure::points) {
            assert_eq!(point.setting.check(), Ok(()), "{} {}", point.series, point.at);
        }
    }

    #[test]
    fn a_missing_point_agrees_with_nothing() {
        for figure in Figure::ALL {
            let numbers = figure.compare(&[]);
            assert!(!numbers.is_empty() && numbers.iter().all(|number| !number.agrees()), "{figure:?}");
        }
    }
}
