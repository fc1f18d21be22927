//! The evaluation of Autobahn: the paper's numbers beside ours, hangovers, equal traces.
//!
//! `PHALANX_FIGURES=all` sweeps every figure of the paper.

use phalanx_sim::{
    autobahn::{Blip, Figure, Order, Outcome, Setting, run},
    paper::{Evaluation as _, Rule},
};

fn outcome(setting: &Setting) -> Outcome {
    run(setting).expect("a possible setting")
}

/// Numbers of the paper that ours differ from; `docs/explanation/0026-autobahn.md` has the reasons.
const OUTSIDE: &[&str] = &[
    "peak latency, BatchedHS over Autobahn",
    "Autobahn, n = 12, ms",
    "Autobahn, n = 20, ms",
    "VanillaHS, n = 12 at 1,628, ms",
    "VanillaHS, n = 20 at 1,550, ms",
    "VanillaHS 1 s: worst second, s",
    "VanillaHS Dbl: worst second, s",
    "certified tips, ms more",
];

#[test]
fn the_papers_numbers_agree_but_for_those_that_are_named() {
    let all = std::env::var("PHALANX_FIGURES").is_ok_and(|which| which == "all");
    let figures = if all { Figure::ALL } else { &[Figure::Seven, Figure::Processes][..] };
    for figure in figures {
        let outcomes: Vec<Outcome> = figure.points().iter().map(|point| outcome(&point.setting)).collect();
        println!("{}", figure.title().0);
        for (point, outcome) in figure.points().iter().zip(&outcomes) {
            let Outcome { tps, latency_ms, answered, busy, views, .. } = outcome;
            println!(
                "  {} {}: {tps:.0} tx/s {latency_ms:.1} ms, {answered:.3} ready, busy {busy:.2?}, {views} views",
                point.series, point.at
            );
            if figure.is_over_time() {
                let shown = outcome.series.seconds().iter().map(|second| second.latency_s().unwrap_or(f64::NAN));
                println!("    {:.2?}", shown.collect::<Vec<_>>());
            }
        }
        for c in figure.compare(&outcomes) {
            let agrees = c.agrees();
            println!("| {} | {} | {:.3} | {} |", c.what, c.paper, c.ours, if agrees { "" } else { "**outside**" });
            assert!(c.ours.is_finite(), "{}", c.what);
            if !agrees && c.rule != Rule::Input {
                assert!(OUTSIDE.contains(&c.what), "{}: {} and not {}", c.what, c.ours, c.paper);
                assert!(!c.reason.is_empty(), "{}: no reason", c.what);
            }
        }
    }
}

/// After a partition, Autobahn has its old latency within two seconds; HotStuff with data in its blocks does not.
#[test]
fn a_partition_leaves_autobahn_no_hangover() {
    let halves = |order, batch_ms| Setting {
        order,
        tps: 15_000,
        timeout_ms: 1_000,
        fast_ms: Some(200),
        batch_ms,
        block_batches: 10,
        blip: Some(Blip::Halves { from_ms: 3_000, until_ms: 8_000 }),
        total_ms: 16_000,
        ..Setting::BASE
    };
    let latency = |outcome: &Outcome, at: usize| outcome.series.seconds()[at].latency_s().unwrap_or(f64::NAN);
    let autobahn = outcome(&halves(Order::Autobahn, 200));
    assert!(autobahn.answered > 0.999);
    assert!(latency(&autobahn, 4) > 3.0, "the partition shows");
    let (before, after) = (latency(&autobahn, 2), latency(&autobahn, 10));
    assert!(after < 1.1 * before, "{after} s, {before} s before");
    let vanilla = outcome(&halves(Order::VanillaHotStuff, 20));
    // Sum of what seconds after the partition have above normal.
    let excess = |outcome: &Outcome| (8..14).map(|at| latency(outcome, at) - latency(outcome, 2)).sum::<f64>();
    assert!(excess(&vanilla) > 1.5 * excess(&autobahn), "{} s, {} s", excess(&vanilla), excess(&autobahn));
}

#[test]
fn equal_settings_give_equal_traces_and_all_protocols_serve_all() {
    for order in [Order::Autobahn, Order::Pbft, Order::Sbft, Order::BatchedHotStuff, Order::VanillaHotStuff] {
        let setting = Setting { order, tps: 5_000, total_ms: 4_000, warm_up_ms: 1_000, ..Setting::BASE };
        let (a, b) = (outcome(&setting), outcome(&setting));
        assert_eq!(a.trace, b.trace);
        assert!(a.answered > 0.999 && a.latency_ms < 500.0, "{order:?}: {:.3} ready, {} ms", a.answered, a.latency_ms);
        assert_ne!(a.trace, outcome(&Setting { tps: 6_000, ..setting }).trace);
    }
}

/// Requests from before, during and after a fault are ready in the end.
#[test]
fn all_protocols_recover_from_a_failed_leader_and_from_a_partition() {
    for order in [Order::Autobahn, Order::BatchedHotStuff, Order::VanillaHotStuff, Order::Pbft, Order::Sbft] {
        for blip in
            [Blip::Leader { at_ms: 5_000, views: 1, late: false }, Blip::Halves { from_ms: 5_000, until_ms: 10_000 }]
        {
            let (timeout_ms, fast_ms, blip) = (1_000, Some(200), Some(blip));
            let setting = Setting { order, tps: 2_000, timeout_ms, fast_ms, blip, total_ms: 25_000, ..Setting::BASE };
            let outcome = outcome(&setting);
            println!("{order:?} {blip:?}: {:.4} ready, {:.1} ms", outcome.answered, outcome.latency_ms);
            assert!(outcome.answered > 0.99, "{order:?} {blip:?}: {}", outcome.answered);
        }
    }
}

#[test]
fn impossible_settings_are_named() {
    for broken in [
        Setting { n: 3, ..Setting::BASE },
        Setting { tps: 0, ..Setting::BASE },
        Setting { timeout_ms: 0, ..Setting::BASE },
        Setting { total_ms: 100, ..Setting::BASE },
        Setting { parallel: 0, ..Setting::BASE },
    ] {
        assert!(run(&broken).is_err());
    }
}
