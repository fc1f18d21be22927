//! Sweeps of the paper's figures, at the paper's settings.

use super::{
    paper,
    setting::{Blip, Order, Outcome, Setting},
    world,
};
use crate::paper::{Comparison, Evaluation, Of, Point as PointOf};
use phalanx_bft::autobahn::{Spread, Tips};

/// A point of a sweep.
pub type Point = PointOf<Setting>;

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

const BASE: Setting = Setting::BASE;

/// The partition of `phalanx net --partition 0,1@6+5:loses`.
pub(super) const APART: Blip = Blip::Halves { from_ms: 6_000, until_ms: 11_000 };

/// Second in which blips begin.
pub(super) const BLIP: u64 = 4;

impl Figure {
    /// Returns true if the figure shows latency by second.
    #[must_use]
    pub const fn is_over_time(self) -> bool {
        matches!(self, Self::Seven | Self::Eight | Self::Processes)
    }
}

impl Evaluation for Figure {
    type Setting = Setting;
    type Outcome = Outcome;

    const ALL: &'static [Self] = &[Self::Five, Self::Six, Self::Seven, Self::Eight, Self::Ablation, Self::Processes];

    fn title(self) -> (&'static str, &'static str) {
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

    fn points(self) -> Vec<Point> {
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

    fn check(setting: &Setting) -> Result<(), &'static str> {
        setting.check()
    }

    fn run(setting: &Setting) -> Result<Outcome, &'static str> {
        world::run(setting)
    }

    fn numbers(self, of: &Of<'_, Outcome>) -> Vec<Comparison> {
        paper::numbers(self, of)
    }
}

fn point(series: &str, at: u64, setting: Setting) -> Point {
    Point::new(series, at as f64, setting)
}
