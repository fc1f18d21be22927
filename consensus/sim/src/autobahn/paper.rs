//! The paper's numbers beside ours.
//!
//! Those of Figures 7 and 8 are of the artefact's files: means of the latency by second of submission.

use super::{
    figures::{APART, BLIP, Figure},
    setting::{Blip, Outcome},
};
use crate::paper::{Comparison, Of, at_least, at_most, fitted, input, near};

/// The paper's numbers beside those of a figure's points.
pub(super) fn numbers(figure: Figure, of: &Of<'_, Outcome>) -> Vec<Comparison> {
    match figure {
        Figure::Five => five(of),
        Figure::Six => six(of),
        Figure::Seven => seven(of),
        Figure::Eight => eight(of),
        Figure::Ablation => vec![
            near("no fast path, ms more", 40.0, of.latency(7) - of.latency(6)),
            near("certified tips, ms more", 33.0, of.latency(8) - of.latency(6)).because(TIPS),
            near("certified tips at low load, ms more, model", 23.5, of.latency(2) - of.latency(0)),
            near("no fast path at low load, ms more, model", 44.5, of.latency(1) - of.latency(0)),
        ],
        Figure::Processes => vec![
            at_least("no fault: share that is answered", 0.999, of.sustained(0)),
            at_least("halves apart: share that is answered", 0.999, of.sustained(1)),
            at_most("halves apart for 5 s: hangover, s", 1.5, of.until_usual(1, APART)),
            at_most("the same, 3,000 clients: hangover, s", 1.5, of.until_usual(2, APART)),
        ],
    }
}

const TIPS: &str = "the nearest replica's round trip is 23.5 ms on average; queues of votes are not part of the model";
const MORE_REPLICAS: &str =
    "a leader's own batches wait for its turn of n views; the paper's latency was held at 2 s by lowering the load";
const NEAR: &str = "with three or five replicas per region a car is certified within its region, and small cars keep the stations busier";
const SYNC: &str =
    "what is fetched before a vote is in flight already and costs little here; at equal load Autobahn is faster";
const DRAIN: &str = "a backlog drains at the rate of full blocks, which the paper does not print";

fn five(of: &Of<'_, Outcome>) -> Vec<Comparison> {
    vec![
        fitted("Autobahn at 234,000: share that is ready", 1.0, of.sustained(4), 0.01),
        near("Autobahn at its peak, ms", 280.0, of.latency(4)),
        input("Autobahn at low load, ms", 221.0, of.latency(0), 0.25),
        at_least("BatchedHS at 189,000: share that is ready", 0.98, of.sustained(8)),
        near("BatchedHS at its peak, ms", 333.0, of.latency(8)).because(SYNC),
        near("BatchedHS at low load, ms", 283.0, of.latency(5)),
        input("VanillaHS at 12,426: share that is ready", 1.0, of.sustained(11), 0.25),
        near("VanillaHS at its peak, ms", 365.0, of.latency(11)),
        near("VanillaHS at low load, ms", 293.0, of.latency(9)),
        at_least("low load, BatchedHS over Autobahn", 1.0, of.latency(5) / of.latency(0)),
        at_least("at 180,000, BatchedHS over Autobahn", 1.0, of.latency(7) / of.latency(2)),
        at_least("peak latency, BatchedHS over Autobahn", 1.0, of.latency(8) / of.latency(4)).because(SYNC),
        at_least("peak latency, VanillaHS over Autobahn", 1.0, of.latency(11) / of.latency(4)),
    ]
}

fn six(of: &Of<'_, Outcome>) -> Vec<Comparison> {
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

fn seven(of: &Of<'_, Outcome>) -> Vec<Comparison> {
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

fn eight(of: &Of<'_, Outcome>) -> Vec<Comparison> {
    let end = (BLIP + 20) as f64;
    vec![
        near("Autobahn: worst second, s", 21.1, of.worst(0)),
        at_most("Autobahn: hangover, s", 1.5, of.hangover(0, end)),
        input("BatchedHS: hangover, s", 8.5, of.hangover(1, end), 0.25),
        near("VanillaHS: worst second, s", 22.5, of.worst(2)),
        near("VanillaHS: hangover, s", 20.0, of.hangover(2, end)).because(DRAIN),
        at_least("hangover, BatchedHS over Autobahn", 1.0, of.hangover(1, end) / of.hangover(0, end).max(0.1)),
        at_least("hangover, VanillaHS over BatchedHS", 1.0, of.hangover(2, end) / of.hangover(1, end).max(0.1)),
    ]
}

impl Of<'_, Outcome> {
    fn latency(&self, at: usize) -> f64 {
        self.at(at, |outcome| outcome.latency_ms)
    }

    fn sustained(&self, at: usize) -> f64 {
        self.at(at, |outcome| outcome.answered)
    }

    /// Largest mean latency of a second, in s.
    fn worst(&self, at: usize) -> f64 {
        self.at(at, |outcome| seconds(outcome).into_iter().fold(0.0, f64::max))
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
