//! The paper's numbers beside ours. Its pictures are not at hand: only numbers of its text are compared.

use super::{
    figures::{CLIENTS, Figure, LADDER},
    setting::Outcome,
};
use crate::paper::{Comparison, Of, above, at_most, fitted, input, near};

/// Distance of a number that the table of costs has, or is fitted to.
const FITTED: f64 = 0.05;

/// The paper's numbers beside those of a figure's points.
pub(super) fn numbers(figure: Figure, of: &Of<'_, Outcome>) -> Vec<Comparison> {
    let rate = |at: usize| of.at(at, |outcome| outcome.per_second);
    let median = |at: usize| of.at(at, |outcome| outcome.median_ms);
    // By crashed replicas, rung of the ladder and clients.
    let ladder =
        |crashed: usize, rung: usize| rate((crashed * LADDER.len() + rung) * CLIENTS.len() + CLIENTS.len() - 1);
    match figure {
        Figure::Contracts => vec![
            input("no replication, tx/s", 840.0, rate(0), FITTED),
            fitted("PBFT on a continent, tx/s", 204.0, rate(1), FITTED),
            fitted("SBFT on a continent, tx/s", 378.0, rate(3), FITTED),
            near("PBFT on a continent, median in ms", 538.0, median(1)),
            near("SBFT on a continent, median in ms", 254.0, median(3)),
            near("PBFT in the world, tx/s", 98.0, rate(2)),
            near("SBFT in the world, tx/s", 172.0, rate(4)),
            near("PBFT in the world, median in ms", 934.0, median(2)),
            near("SBFT in the world, median in ms", 622.0, median(4)),
            near("SBFT over PBFT on a continent", 1.85, rate(3) / rate(1)),
            near("SBFT over PBFT in the world", 1.76, rate(4) / rate(2)),
            near("no replication over SBFT on a continent", 2.2, rate(0) / rate(3)),
            near("no replication over SBFT in the world", 4.9, rate(0) / rate(4)),
        ],
        Figure::Batched => vec![
            near("PBFT, puts per second at 256 clients", 1_500.0, ladder(0, 0)),
            near("linear PBFT, puts per second", 2_000.0, ladder(0, 1)),
            near("with a fast path, puts per second", 2_800.0, ladder(0, 2)),
            above("linear PBFT over PBFT", 1.0, ladder(0, 1) / ladder(0, 0)),
            above("with a fast path over linear PBFT", 1.0, ladder(0, 2) / ladder(0, 1)),
            above("SBFT, c = 0, over that", 1.0, ladder(0, 3) / ladder(0, 2)),
            above("SBFT, c = 8, over c = 0", 1.0, ladder(0, 4) / ladder(0, 3)),
            at_most("8 crashed: a fast path over linear PBFT", 1.05, ladder(1, 2) / ladder(1, 1)),
            above("8 crashed: SBFT, c = 8, over c = 0", 1.25, ladder(1, 4) / ladder(1, 3)),
            above("64 crashed: SBFT, c = 8, over c = 0", 1.0, ladder(2, 4) / ladder(2, 3)),
        ],
        Figure::Single => vec![
            above("linear PBFT over PBFT at 256 clients", 1.0, ladder(0, 1) / ladder(0, 0)),
            above("SBFT, c = 8, over PBFT", 1.0, ladder(0, 4) / ladder(0, 0)),
            above("8 crashed: SBFT, c = 8, over c = 0", 1.25, ladder(1, 4) / ladder(1, 3)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{paper::Evaluation as _, sbft::figures::CRASHED};

    #[test]
    fn numbers_are_those_of_a_ladder() {
        assert_eq!(CRASHED.len() * LADDER.len() * CLIENTS.len(), Figure::Batched.points().len());
    }
}
