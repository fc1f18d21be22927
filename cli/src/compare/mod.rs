//! `bench compare`: is one faster than the other, by how much, and how sure is that?
//!
//! ```text
//! two files ─► same thing? ─► unpaired runs ─┐
//!                                            ├─► ratios ─► bootstrap ─► interval beside the floor ─► table, JSON
//! variants ─► ABBA ─► child processes ─► pairs ┘
//! ```

mod files;
mod live;
mod samples;
mod stats;
mod table;
pub(crate) mod words;

pub(crate) use live::Different;

use crate::{
    args::{CompareArgs, Expectation},
    exit::{self, Usage},
    host,
    output::{self, command},
    result::SCHEMA,
    ui::Ui,
};
use samples::{Metric, Sample, Samples};
use serde_json::{Value, json};
use stats::{Estimate, Method};
use std::path::Path;

/// Two variants that are set against each other.
#[derive(Clone, Debug)]
struct Compared {
    /// What both are runs of.
    what: String,
    baseline: Samples,
    candidate: Samples,
    /// Run *i* of one was beside run *i* of the other.
    paired: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
struct Row {
    what: String,
    baseline: String,
    candidate: String,
    runs: (usize, usize),
    estimates: [Estimate; 2],
}

impl Row {
    const fn throughput(&self) -> Estimate {
        self.estimates[0]
    }
}

/// Compares and shows it.
pub(crate) fn run(args: &CompareArgs, ui: &Ui) -> anyhow::Result<u8> {
    args.check()?;
    let method = Method { resamples: args.resamples, seed: args.seed, floor: args.floor };
    let (variants, compared, interrupted) = if args.files.is_empty() {
        let wanted = args.live()?;
        let names: Vec<&str> = wanted.iter().map(|variant| variant.name.as_str()).collect();
        check_names(&args.expect, &names)?;
        let live::Outcome { variants, interrupted } = live::run(&wanted, &args.common, args.pairs, ui)?;
        let compared = pairs(&variants);
        (variants, compared, interrupted)
    } else {
        let compared = files::compare(&args.files, &args.allow)?;
        let name =
            |samples: &Samples, what: &str| Samples { name: format!("{} {what}", samples.name), ..samples.clone() };
        let both = |of: &Compared| [name(&of.baseline, &of.what), name(&of.candidate, &of.what)];
        (compared.iter().flat_map(both).collect(), compared, false)
    };
    let rows: Vec<Row> = compared.iter().filter_map(|compared| row(compared, &method)).collect();
    let missed = missed(&args.expect, &rows);
    let value = result(args, &variants, &rows, &missed, interrupted);
    if let Some(path) = &args.json {
        output::json(path, &value)?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        output::print(&table::text(args, &variants, &rows, &missed, interrupted))?;
    }
    Ok(match () {
        () if interrupted => exit::INTERRUPTED,
        () if !missed.is_empty() => exit::EXPECTATION,
        () => exit::OK,
    })
}

/// Every variant beside every earlier one.
fn pairs(variants: &[Samples]) -> Vec<Compared> {
    let mut pairs = Vec::new();
    for (index, candidate) in variants.iter().enumerate() {
        for baseline in &variants[..index] {
            pairs.push(Compared {
                what: format!("{}/{}", candidate.name, baseline.name),
                baseline: baseline.clone(),
                candidate: candidate.clone(),
                paired: true,
            });
        }
    }
    // All beside the first come first.
    pairs.sort_by_key(|pair| pair.baseline.name != variants[0].name);
    pairs
}

fn row(compared: &Compared, method: &Method) -> Option<Row> {
    let Compared { what, baseline, candidate, paired } = compared;
    let estimate = |metric: Metric| {
        let (theirs, ours) = (candidate.figures(metric), baseline.figures(metric));
        if *paired {
            let ratios: Vec<f64> = theirs.iter().zip(&ours).map(|(candidate, baseline)| candidate / baseline).collect();
            method.paired(&ratios)
        } else {
            method.unpaired(&theirs, &ours)
        }
    };
    Some(Row {
        what: what.clone(),
        baseline: baseline.name.clone(),
        candidate: candidate.name.clone(),
        runs: (candidate.samples.len(), baseline.samples.len()),
        estimates: [estimate(Metric::Throughput)?, estimate(Metric::Processor)?],
    })
}

/// Refuses expectations of what is not there.
fn check_names(expectations: &[Expectation], names: &[&str]) -> Result<(), Usage> {
    let unknown = expectations
        .iter()
        .flat_map(|expected| [&expected.candidate, &expected.baseline])
        .find(|name| !names.contains(&name.as_str()));
    unknown
        .map_or(Ok(()), |name| Err(Usage(format!("--expect names {name}, and the variants are {}", names.join(", ")))))
}

/// Expectations that the ratio of throughputs does not meet, with that ratio.
fn missed(expectations: &[Expectation], rows: &[Row]) -> Vec<(Expectation, Option<f64>)> {
    let ratio = |expected: &Expectation| {
        rows.iter().find_map(|row| {
            let ratio = row.throughput().ratio;
            match (&row.candidate, &row.baseline) {
                (c, b) if (c, b) == (&expected.candidate, &expected.baseline) => Some(ratio),
                (c, b) if (b, c) == (&expected.candidate, &expected.baseline) => Some(1.0 / ratio),
                _ => None,
            }
        })
    };
    let measured = expectations.iter().map(|expected| (expected.clone(), ratio(expected)));
    measured.filter(|(expected, ratio)| ratio.is_none_or(|ratio| ratio < expected.at_least)).collect()
}

fn result(
    args: &CompareArgs,
    variants: &[Samples],
    rows: &[Row],
    missed: &[(Expectation, Option<f64>)],
    interrupted: bool,
) -> Value {
    let comparisons: Vec<Value> = rows
        .iter()
        .flat_map(|row| {
            Metric::ALL.into_iter().zip(row.estimates).map(|(metric, estimate)| {
                json!({
                    "what": row.what, "candidate": row.candidate, "baseline": row.baseline, "metric": metric.name(),
                    "runs": [row.runs.0, row.runs.1], "ratio": estimate.ratio, "low": estimate.low,
                    "high": estimate.high, "verdict": estimate.verdict,
                })
            })
        })
        .collect();
    let missed: Vec<Value> = missed
        .iter()
        .map(|(expected, ratio)| {
            let what = format!("{}/{}", expected.candidate, expected.baseline);
            json!({ "what": what, "at_least": expected.at_least, "ratio": ratio })
        })
        .collect();
    let tags: &[&str] = if interrupted { &["interrupted"] } else { &[] };
    json!({
        "schema": SCHEMA, "tool": host::tool(), "host": host::host(None),
        "config": {
            "floor": args.floor, "resamples": args.resamples, "seed": args.seed, "pairs": args.pairs,
            "common": args.common, "allow": args.allow,
        },
        "variants": variants, "comparisons": comparisons, "missed": missed, "tags": tags, "command": command(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(name: &str, tps: &[f64]) -> Samples {
        let sample = |(round, tps): (usize, &f64)| Sample {
            round: Some(round),
            tps: *tps,
            us_core_per_tx: 2.0,
            state_root: "0x".into(),
            oracle: "match".into(),
        };
        Samples { name: name.into(), samples: tps.iter().enumerate().map(sample).collect() }
    }

    const METHOD: Method = Method { resamples: 500, seed: 1, floor: 0.01 };

    #[test]
    fn all_pairs_are_compared_those_with_the_first_first() {
        let variants = [variant("A", &[1.0, 1.1]), variant("B", &[2.0, 2.2]), variant("C", &[4.0, 4.4])];
        let rows: Vec<Row> = pairs(&variants).iter().filter_map(|pair| row(pair, &METHOD)).collect();
        let told: Vec<_> =
            rows.iter().map(|row| (row.what.as_str(), (row.throughput().ratio * 10.0).round())).collect();
        assert_eq!(told, [("B/A", 20.0), ("C/A", 40.0), ("C/B", 20.0)]);
        assert!(rows.iter().all(|row| row.estimates[1].verdict == stats::Verdict::NoDifference));
    }

    #[test]
    fn expectations_hold_in_both_directions_or_are_missed() {
        let variants = [variant("A", &[1.0, 1.0]), variant("B", &[2.0, 2.0])];
        let rows: Vec<Row> = pairs(&variants).iter().filter_map(|pair| row(pair, &METHOD)).collect();
        let missed = |text: &str| missed(&[text.parse().unwrap()], &rows).len();
        let all = ["B/A>=1.9", "A/B>=0.45", "B/A >= 2.1", "A/B>=0.55", "C/A>=1"].map(missed);
        assert_eq!(all, [0, 0, 1, 1, 1]);
        for wrong in ["B/A", "B>=1", "B/A>=x", "B/A>=-1"] {
            assert!(wrong.parse::<Expectation>().is_err(), "{wrong}");
        }
    }
}
