use super::{figures::Figure, *};
use clap::{Parser, ValueEnum as _};

#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    args: ZaptosArgs,
}

fn parse(flags: &str) -> ZaptosArgs {
    Alone::try_parse_from(["zaptos"].into_iter().chain(flags.split_whitespace())).expect("flags").args
}

#[test]
fn the_defaults_are_the_calibrated_ones() {
    let paper = Experiment::paper();
    assert_eq!(parse("").experiment().expect("defaults"), paper);
}

#[test]
fn ideal_results_carry_the_formula() {
    let args =
        parse("--ideal --validators 4 --topology uniform:50,10,5 --tps 1000 --exec-us-per-tx 400 --commit-ms 60");
    let experiment = args.experiment().expect("possible");
    let reports = args.modes().iter().map(|mode| experiment.run(*mode).expect("runs")).collect();
    let point = Point { label: String::new(), experiment, reports };
    let value = value(&point_json(&args, &point));
    let p50 = |mode: usize| value["modes"][mode]["latency_ms"]["p50"].as_f64().expect("a number");
    // 2·10 + 2·5 + 4·50, and 50 + 2·60 + 2·60; or max(0, 60 - 50, 120 - 100).
    assert_eq!([p50(0), p50(1)], [520.0, 250.0]);
    for mode in 0..2 {
        assert_eq!(value["modes"][mode]["formula_ms"].as_f64(), Some(p50(mode)));
    }
    assert_eq!(value["schema"], 1);
    assert_eq!(value, super::value(&point_json(&args, &point)), "one seed prints the same bytes");
    assert!(table::one(&point).contains("the closed formula says 250.000 ms"));
    assert_eq!(table::csv(&[point]).lines().count(), 3);
}

#[test]
fn the_real_engine_takes_the_time_that_ideal_costs_say() {
    let flags = "--ideal --validators 4 --topology uniform:50,10,5 --tps 400 --exec-us-per-tx 1000 --commit-ms 60";
    let args = parse(&format!("{flags} --engine real"));
    let experiment = args.experiment().expect("possible");
    let plant = super::plant(&args, &experiment).expect("possible").expect("real engines");
    for mode in args.modes() {
        let (model, real) = (experiment.run(*mode).expect("runs"), plant.run(&experiment, *mode).expect("runs"));
        assert_eq!((real.latency, &real.stages, real.tps), (model.latency, &model.stages, model.tps), "{mode:?}");
        assert_eq!(real.latency.p50, experiment.formula(*mode, real.consensus_us), "{mode:?}");
        assert_eq!(plant.run(&experiment, *mode).expect("runs"), real, "one seed is one history");
    }
}

#[test]
fn measured_costs_of_the_real_engine_make_a_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("nodes");
    let flags =
        "--engine real --validators 4 --fullnodes 2 --topology uniform:10,2,1 --tps 400 --block-ms 50 --seconds 1";
    // On a busy machine a block's wall time can exceed the measured second.
    let args = parse(&format!("{flags} --clock cpu --store file:{}", place.display()));
    let experiment = args.experiment().expect("possible");
    let plant = super::plant(&args, &experiment).expect("possible").expect("real engines");
    let reports: Vec<_> = args.modes().iter().map(|mode| plant.run(&experiment, *mode).expect("runs")).collect();
    for report in &reports {
        // The figure depends on the machine.
        assert!(report.tps > 0.0);
        let work = |name: &str| report.stages.iter().find(|stage| stage.name == name).expect("a stage").work_us;
        assert!(work("execute") > 0 && work("stage") > 0, "real work takes time");
    }
    let value = value(&point_json(&args, &Point { label: String::new(), experiment: experiment.clone(), reports }));
    assert_eq!(value["config"]["costs"], "measured");
    assert_eq!(value["config"]["exec_us_per_tx"], Value::Null);
    assert_eq!(value["modes"].as_array().map(Vec::len), Some(2));
    assert!(super::plant(&args, &experiment).is_err(), "the place is not empty any more");
}

#[test]
fn the_papers_medians_stand_beside_ours_and_a_table_says_what_was_simulated() {
    let of = |label: &str, tps, equivocating| {
        let small = Experiment { validators: 4, fullnodes: 4, tps, measured_us: 1_000_000, ..Experiment::paper() };
        let reports = [Mode::Baseline, Mode::Optimistic].map(|mode| small.run(mode).expect("runs")).into();
        Point { label: label.into(), experiment: Experiment { equivocating, ..small }, reports }
    };
    let points = [of("32 CPUs, 1000 tps", 1_000, 0), of("32 CPUs, 5000 tps", 5_000, 1)];
    let stated = |figure: Figure| -> Vec<(String, f64)> {
        figure.beside(&points).into_iter().map(|of| (of.what, of.paper)).collect()
    };
    let two = |names: [&str; 2]| names.map(str::to_owned).into_iter().zip([750.0, 580.0]).collect::<Vec<_>>();
    assert_eq!(stated(Figure::Five), two(["32 CPUs, baseline, 1000 tps, ms", "32 CPUs, optimistic, 1000 tps, ms"]));
    assert_eq!(stated(Figure::Six), two(["32 CPUs, 1000 tps, baseline, ms", "32 CPUs, 1000 tps, optimistic, ms"]));
    assert!(stated(Figure::Eight).is_empty(), "the paper states none");
    assert!(Figure::Six.beside(&points).iter().all(|of| of.agrees.is_some() && of.sign.is_empty()));

    let said = table::setting(&points, false).replace('\n', " ");
    for part in ["4 validators, 0 or 1 of them equivocating", "45 µs", "1 s of virtual time, seed 1."] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(table::setting(&points, true).contains("as measured here"));
}

#[test]
fn every_point_of_every_figure_is_possible() {
    for figure in Figure::value_variants() {
        for (label, experiment) in figure.experiments(1, 1_000_000) {
            assert_eq!(experiment.check(), Ok(()), "{label}");
        }
    }
}

#[test]
fn wrong_flags_are_refused() {
    for flags in [
        "--validators 3",
        "--fullnodes 0",
        "--exec-us-per-tx -1",
        "--exec-us-per-tx NaN",
        "--commit-ms 1e300",
        "--block-ms 0",
        "--block-ms 18446744073709551615",
        "--seconds 18446744073709551615",
        "--ideal",
        "--equivocating 34",
    ] {
        let words = flags.replace("-1", "=-1").replace(" =", "=");
        assert!(parse(&words).experiment().is_err(), "{flags}");
    }
    for flags in ["--engine real", "--store mem", "--engine real --validators 4 --figure 5"] {
        let args = parse(flags);
        assert!(plant(&args, &args.experiment().expect("possible")).is_err(), "{flags}");
    }
}
