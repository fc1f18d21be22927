//! The paper's formulas, to the microsecond, and its experiments.

use phalanx_pipeline::Mode;
use phalanx_sim::{
    Topology,
    zaptos::{Experiment, ExperimentError},
};

const MODES: [Mode; 2] = [Mode::Baseline, Mode::Optimistic];

/// An ideal experiment: execution and commit in µs, with one transaction per block.
fn ideal(n: u32, delay: u64, client: u64, fullnode: u64, execute: u64, commit: u64) -> Experiment {
    let block_us = 1000 * delay.max(execute).max(commit).div_ceil(1000);
    Experiment {
        validators: n,
        fullnodes: n - 1,
        topology: Topology::Uniform { validators: delay, client, fullnode },
        tps: 1_000_000u64.div_ceil(block_us),
        block_us,
        execute_ns_per_tx: execute * 1000,
        commit_us: commit,
        ideal: true,
        measured_us: 2_000_000,
        ..Experiment::paper()
    }
}

#[test]
fn ideal_latencies_are_the_closed_formulas_to_the_microsecond() {
    let mut below_the_bound = 0;
    for n in [4, 7] {
        for (client, fullnode) in [(0, 0), (3_000, 7_001)] {
            for delay in [10_000u64, 33_333] {
                for execute in [0, delay / 2, delay, delay + 1, 2 * delay, 3 * delay + 7] {
                    for commit in [1, delay / 3, delay, 2 * delay, 3 * delay] {
                        let experiment = ideal(n, delay, client, fullnode, execute, commit);
                        assert_eq!(experiment.ideal_execute_us(), execute, "one transaction per block");
                        for mode in MODES {
                            let report = experiment.run(mode).expect("an ideal experiment");
                            let what = format!("{mode:?} {experiment:?}");
                            // Forwarding to the leader, and three rounds.
                            assert_eq!(report.consensus_us, 4 * delay, "{what}");
                            let exact = experiment.formula(mode, report.consensus_us);
                            let q = report.latency;
                            assert_eq!([q.p25, q.p50, q.p75, q.p99], [exact; 4], "{what}");
                            if mode == Mode::Optimistic {
                                let bound = experiment.upper_bound(report.consensus_us);
                                assert!(q.p99 <= bound, "{what}: above Equation (2)");
                                below_the_bound += usize::from(q.p99 < bound);
                            }
                            assert_eq!(report.wasted, 0.0, "{what}");
                        }
                    }
                }
            }
        }
    }
    assert!(below_the_bound > 20, "Equation (2) counts twice what fullnodes do meanwhile");
}

#[test]
fn short_stages_hide_behind_the_order() {
    let experiment = ideal(4, 20_000, 0, 0, 10_000, 10_000);
    let report = experiment.run(Mode::Optimistic).expect("an ideal experiment");
    assert_eq!(report.shadowed, 1.0);
    let report = experiment.run(Mode::Baseline).expect("an ideal experiment");
    assert_eq!(report.shadowed, 0.0);
}

#[test]
fn equivocating_leaders_delay_the_order_of_both_modes_equally() {
    let paper = Experiment::paper();
    let experiment = Experiment { validators: 10, fullnodes: 10, equivocating: 3, tps: 500, ..paper };
    let run = |mode| experiment.run(mode).expect("a result");
    let (baseline, optimistic) = (run(Mode::Baseline), run(Mode::Optimistic));
    // The same transactions are measured, the last ones too.
    assert_eq!(baseline.consensus_us, optimistic.consensus_us);
    assert!(optimistic.latency.p50 < baseline.latency.p50, "{optimistic:?}\n{baseline:?}");
    assert!(optimistic.wasted > 0.0 && baseline.wasted == 0.0, "{optimistic:?}\n{baseline:?}");
}

#[test]
fn one_seed_prints_one_result() {
    let experiment = Experiment { validators: 10, fullnodes: 10, measured_us: 3_000_000, ..Experiment::paper() };
    for mode in MODES {
        assert_eq!(experiment.run(mode), experiment.run(mode));
    }
}

#[test]
fn impossible_experiments_are_refused() {
    let paper = Experiment::paper();
    let wrong = [
        Experiment { validators: 3, ..paper.clone() },
        Experiment { validators: 129, ..paper.clone() },
        Experiment { fullnodes: 0, ..paper.clone() },
        Experiment { fullnodes: 101, ..paper.clone() },
        Experiment { equivocating: 34, ..paper.clone() },
        Experiment { tps: 0, ..paper.clone() },
        Experiment { block_us: 1_500, ..paper.clone() },
        Experiment { ideal: true, ..paper },
        Experiment { commit_us: 400_000, ..ideal(4, 10_000, 0, 0, 1, 1) },
    ];
    for experiment in wrong {
        assert!(experiment.run(Mode::Optimistic).is_err(), "{experiment:?}");
    }
    let stalled = Experiment { tps: 1, validators: 10, fullnodes: 1, measured_us: 1_000_000, ..paper };
    assert_eq!(stalled.run(Mode::Optimistic), Err(ExperimentError::Nothing));
}
