//! The paper's numbers beside ours.
//!
//! The paper prints "increases by 1.39×" and means 2.39 times: its latencies agree with that by Little's law, and not with 1.39.

use super::Figure;
use crate::{
    load::Outcome,
    paper::{Comparison, Of, at_least, at_most, fitted, input, near},
};

/// Distance of a number that costs are fitted to.
const FITTED: f64 = 0.01;

/// The paper's numbers beside those of a figure's points.
pub(super) fn numbers(figure: Figure, of: &Of<'_, Outcome>) -> Vec<Comparison> {
    match figure {
        Figure::One => vec![
            fitted("PBFT at 16 replicas, tx/s", 175_000.0, of.tps(2), FITTED),
            near("PBFT over Zyzzyva 1E0B, at most", 1.79, (0..4).map(|at| of.gain(at, at + 4)).fold(0.0, f64::max)),
            at_least("PBFT over Zyzzyva 1E0B at 16", 1.0, of.gain(2, 6)),
            at_least("PBFT over Zyzzyva 0E0B at 16", 1.0, of.gain(2, 10)),
        ],
        Figure::Seven => vec![
            fitted("without execution, tx/s", 500_000.0, of.tps(0), FITTED),
            at_most("without execution, latency in s", 0.25, of.latency(0)),
            at_most("with execution, latency in s", 0.25, of.latency(1)),
            at_most("with execution over without", 1.0, of.gain(1, 0)),
        ],
        Figure::Eight => eight(of),
        Figure::Nine => nine(of),
        Figure::Ten => vec![
            near("best over single transactions, throughput", 66.0, of.best(0..8) / of.tps(0)),
            near("1,000 over single transactions, latency", 0.016, of.slower(5, 0)),
            at_least("1,000 over 500", 1.0, of.gain(5, 4)),
            at_most("3,000 over 1,000", 0.99, of.gain(6, 5)).because(LARGE_BATCHES),
            at_most("5,000 over 3,000", 0.99, of.gain(7, 6)).because(LARGE_BATCHES),
        ],
        Figure::Eleven => {
            let most = (0..5).map(|at| of.gain(15 + at, at)).fold(0.0, f64::max);
            let quickest = (0..5).map(|at| of.slower(15 + at, at)).fold(f64::MAX, f64::min);
            vec![
                near("2B: 50 operations over 1, throughput", 0.07, of.gain(4, 0)).because(OPERATIONS),
                near("2B: 50 operations over 1, latency", 14.29, of.slower(4, 0)).because(OPERATIONS),
                near("5B over 2B, throughput, at most", 1.66, most).because(OPERATIONS),
                near("5B over 2B, latency, at least", 0.61, quickest).because(OPERATIONS),
                at_most("5B over 2B: gap at 50 over the largest", 1.0, of.gain(19, 4) / most),
                at_least("2B: operations per second, 50 over 1", 1.0, 50.0 * of.gain(4, 0)),
            ]
        }
        Figure::Twelve => vec![
            near("64 KB over 8 KB, throughput", 0.48, of.gain(3, 0)).because(NETWORK),
            near("64 KB over 8 KB, latency", 2.09, of.slower(3, 0)).because(NETWORK),
            at_most("64 KB: worker of a backup", 0.9, of.backup(3, |u| u.worker)).because(NETWORK),
            at_most("64 KB: batch threads", 0.9, of.primary(3, |u| u.batch)).because(NETWORK),
        ],
        Figure::Thirteen => vec![
            near("MAC and Ed25519 over none", 0.51, of.gain(1, 0)).because(MACS),
            at_least("none over MAC and Ed25519", 1.0, of.gain(0, 1)),
            at_least("MAC and Ed25519 over Ed25519", 1.0, of.gain(1, 2)),
            at_least("Ed25519 over RSA", 1.0, of.gain(2, 3)),
            near("MAC and Ed25519 over RSA, throughput", 103.0, of.gain(1, 3)).because(RSA),
            near("RSA over MAC and Ed25519, latency", 125.0, of.slower(3, 1)).because(RSA),
        ],
        Figure::Fourteen => vec![
            near("SQLite over memory, throughput", 0.06, of.gain(1, 0)),
            near("SQLite over memory, latency", 24.0, of.slower(1, 0))
                .because("the paper's two factors contradict Little's law: 0.06 is 17 times the latency"),
        ],
        Figure::Fifteen => vec![
            near("80K over 16K clients, throughput", 1.0144, of.gain(5, 2)),
            near("80K over 16K clients, latency", 5.0, of.slower(5, 2)),
            near("80K over 32K clients, throughput", 1.0, of.gain(5, 3)),
        ],
        Figure::Sixteen => vec![
            near("8 cores over 1", 8.92, of.gain(3, 0)),
            at_least("8 cores over 4", 1.0, of.gain(3, 2)),
            at_least("4 cores over 2", 1.0, of.gain(2, 1)),
            at_least("2 cores over 1", 1.0, of.gain(1, 0)),
        ],
        Figure::Seventeen => vec![
            near("PBFT: one down over none", 1.0, of.gain(1, 0)),
            near("PBFT: five down over none", 1.0, of.gain(2, 0)),
            input("Zyzzyva: none down over one", 39.0, of.gain(3, 4), 0.25),
            near("Zyzzyva: five down over one", 1.0, of.gain(5, 4)),
            at_least("one down: PBFT over Zyzzyva", 1.0, of.gain(1, 4)),
        ],
        Figure::Text => vec![
            near("out-of-order slots over one at a time", 1.60, of.gain(1, 0)).because(WINDOW),
            near("decoupled execution", 1.10, of.gain(3, 2)),
        ],
    }
}

const LARGE_BATCHES: &str =
    "the paper names length and time of creation; both grow in proportion here, and caches are no part of the model";
const OPERATIONS: &str = "each further operation costs a batch thread and a backup's worker what a transaction does, so that the worker is full first";
const NETWORK: &str =
    "the printed bandwidth of the machines is not reached; threads that authenticate 15 copies are full first";
const MACS: &str = "a MAC takes 1.1 µs here; the paper's loss means about 5 µs in its library";
const RSA: &str = "RSA of OpenSSL signs in 0.44 ms; the paper's latency and throughput factors differ from each other";
const WINDOW: &str = "the paper does not say how slots were kept in order";

fn eight(of: &Of<'_, Outcome>) -> Vec<Comparison> {
    // At 16 replicas: four architectures of PBFT, and those of Zyzzyva.
    let (pbft, zyzzyva) = (8, 24);
    let basic = of.tps(zyzzyva).min(of.tps(zyzzyva + 1));
    let lower = (0..16).filter(|at| of.latency(*at) < of.latency(16 + at)).count();
    vec![
        near("PBFT: 1E2B over 0E0B, throughput", 2.39, of.gain(pbft + 3, pbft)).because(ONE_THREAD),
        near("PBFT: 1E2B over 0E0B, latency", 0.416, of.slower(pbft + 3, pbft)).because(ONE_THREAD),
        near("Zyzzyva: 1E2B over 0E0B, throughput", 2.72, of.gain(zyzzyva + 3, zyzzyva)),
        near("Zyzzyva: 1E2B over 0E0B, latency", 0.368, of.slower(zyzzyva + 3, zyzzyva)),
        near("Zyzzyva 1E2B, tx/s", 200_000.0, of.tps(zyzzyva + 3)),
        near("PBFT 1E2B over basic Zyzzyva, at most", 2.07, of.tps(pbft + 3) / basic),
        at_least("PBFT 1E2B over Zyzzyva 0E0B", 1.0, of.gain(pbft + 3, zyzzyva)),
        at_least("PBFT 1E2B over Zyzzyva 1E0B", 1.0, of.gain(pbft + 3, zyzzyva + 1)),
        at_least("PBFT 1E2B over Zyzzyva 1E1B", 1.0, of.gain(pbft + 3, zyzzyva + 2)),
        at_most("PBFT 1E2B over Zyzzyva 1E2B", 1.0, of.gain(pbft + 3, zyzzyva + 3)),
        at_least("PBFT 1E1B over Zyzzyva 0E0B", 1.0, of.gain(pbft + 2, zyzzyva)),
        at_least("PBFT 1E1B over Zyzzyva 1E0B", 1.0, of.gain(pbft + 2, zyzzyva + 1)),
        at_least("settings of 16 in which PBFT's latency is lower", 9.0, lower as f64).because(CLOSED_LOOP),
    ]
}

const ONE_THREAD: &str =
    "the paper's Zyzzyva and PBFT on one thread are equally fast, though PBFT's thread handles 30 votes more per batch";
const CLOSED_LOOP: &str =
    "in a full closed loop, latency is clients over throughput, so that it is lower where throughput is higher";

fn nine(of: &Of<'_, Outcome>) -> Vec<Comparison> {
    vec![
        at_least("PBFT 0E0B: worker of the primary", 0.95, of.primary(0, |u| u.worker)),
        at_least("PBFT 1E0B: worker of the primary", 0.95, of.primary(1, |u| u.worker)),
        at_least("PBFT 1E1B: batch thread", 0.95, of.primary(2, |u| u.batch)),
        at_most("PBFT 1E1B: worker of the primary", 0.99, of.primary(2, |u| u.worker)),
        at_most("PBFT 1E2B: batch threads", 0.99, of.primary(3, |u| u.batch)),
        at_most("PBFT 1E2B: worker of the primary", 0.99, of.primary(3, |u| u.worker)),
        at_least("PBFT 1E2B: worker of a backup", 0.9, of.backup(3, |u| u.worker)),
        at_least("Zyzzyva 0E0B: worker of the primary", 0.95, of.primary(4, |u| u.worker)),
    ]
}

impl Of<'_, Outcome> {
    fn tps(&self, at: usize) -> f64 {
        self.at(at, |outcome| outcome.tps)
    }

    fn latency(&self, at: usize) -> f64 {
        self.at(at, |outcome| outcome.latency_s)
    }

    fn gain(&self, a: usize, b: usize) -> f64 {
        self.tps(a) / self.tps(b)
    }

    fn slower(&self, a: usize, b: usize) -> f64 {
        self.latency(a) / self.latency(b)
    }

    fn best(&self, points: core::ops::Range<usize>) -> f64 {
        points.map(|at| self.tps(at)).fold(0.0, f64::max)
    }

    fn primary(&self, at: usize, share: impl Fn(&crate::load::Utilisation) -> f64) -> f64 {
        self.at(at, |outcome| share(&outcome.primary))
    }

    fn backup(&self, at: usize, share: impl Fn(&crate::load::Utilisation) -> f64) -> f64 {
        self.at(at, |outcome| share(&outcome.backup))
    }
}
