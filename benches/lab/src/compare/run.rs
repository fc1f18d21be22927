//! Runs of a comparison: of two files, or of variants in turns.

use super::{
    comparison::{CompareConfig, Expectation, Measured, missed},
    files::SIDES,
    live,
    samples::{Compared, Sample, Samples},
    show, table,
};
use crate::{error::Usage, report::Output, result::Ending, ui::Ui};
use std::path::PathBuf;

/// Compares the second of two files with the first.
///
/// # Errors
/// If a file is no result, the results are of different settings, or an expectation names no side.
pub fn files(config: &CompareConfig, paths: &[PathBuf; 2]) -> anyhow::Result<(Output, Ending)> {
    config.check()?;
    check_names(&config.expect, &SIDES)?;
    let super::files::Outcome { compared, partial } = super::files::compare(paths, &config.allow)?;
    let name = |samples: &Samples, what: &str| Samples { name: format!("{} {what}", samples.name), ..samples.clone() };
    let both = |of: &Compared| [name(&of.baseline, &of.what), name(&of.candidate, &of.what)];
    let variants = compared.iter().flat_map(both).collect();
    show(config, &Measured { variants, compared, are_files: true, interrupted: false, partial })
}

/// Compares variants with each other; `once` runs a variant, by its index, in a round.
///
/// `once` gives `None` if the user stopped it.
///
/// # Errors
/// If a run fails, a variant's runs end in different states, or an expectation names no variant.
pub fn variants(
    config: &CompareConfig,
    names: &[String],
    once: &mut dyn FnMut(usize, usize) -> anyhow::Result<Option<Sample>>,
    ui: &Ui,
) -> anyhow::Result<(Output, Ending)> {
    config.check()?;
    check_names(&config.expect, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let live::Outcome { variants, interrupted } = live::run(names, config.pairs, once, ui)?;
    let compared = pairs(&variants);
    show(config, &Measured { compared, variants, are_files: false, interrupted, partial: false })
}

fn show(config: &CompareConfig, measured: &Measured) -> anyhow::Result<(Output, Ending)> {
    let rows = measured.rows(&config.method())?;
    let missed = missed(&config.expect, &rows);
    let ending = match () {
        () if measured.interrupted => Ending::Interrupted,
        () if !missed.is_empty() => Ending::Missed,
        () => Ending::Complete,
    };
    let value = show::value(config, measured, &rows, &missed);
    Ok((
        Output { value, claim: None, text: table::text(config, measured, &rows, &missed), csv: None, picture: None },
        ending,
    ))
}

/// Pairs every variant with every earlier one.
fn pairs(variants: &[Samples]) -> Vec<Compared> {
    let mut pairs = Vec::new();
    for (index, candidate) in variants.iter().enumerate() {
        for baseline in &variants[..index] {
            pairs.push(Compared {
                what: format!("{}/{}", candidate.name, baseline.name),
                baseline: baseline.clone(),
                candidate: candidate.clone(),
                sides: [baseline.name.clone(), candidate.name.clone()],
                paired: true,
            });
        }
    }
    // Comparisons with the first variant come first.
    pairs.sort_by_key(|pair| pair.baseline.name != variants[0].name);
    pairs
}

/// Refuses expectations of unknown names.
fn check_names(expectations: &[Expectation], names: &[&str]) -> Result<(), Usage> {
    for Expectation { candidate, baseline, .. } in expectations {
        if let Some(name) = [candidate, baseline].into_iter().find(|name| !names.contains(&name.as_str())) {
            return Err(Usage(format!("--expect names {name}, and there are {}", names.join(", "))));
        }
        if candidate == baseline {
            return Err(Usage(format!("--expect sets {candidate} beside itself")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            comparison::Row,
            stats::{Method, Verdict},
        },
        *,
    };

    fn variant(name: &str, tps: &[f64]) -> Samples {
        let sample = |(round, tps): (usize, &f64)| Sample {
            round: Some(round),
            tps: *tps,
            us_core_per_tx: 2.0,
            state_root: "0x".into(),
            oracle: "match".into(),
            pinned: vec![],
            steady: None,
        };
        Samples { name: name.into(), samples: tps.iter().enumerate().map(sample).collect() }
    }

    fn measured(variants: &[Samples]) -> Measured {
        Measured {
            variants: variants.into(),
            compared: pairs(variants),
            are_files: false,
            interrupted: false,
            partial: false,
        }
    }

    fn rows(variants: &[Samples]) -> Vec<Row> {
        measured(variants).rows(&METHOD).unwrap()
    }

    const METHOD: Method = Method { resamples: 500, seed: 1, floor: 0.01 };

    #[test]
    fn all_pairs_are_compared_with_the_first_variant_first() {
        let rows = rows(&[variant("A", &[1.0, 1.1]), variant("B", &[2.0, 2.2]), variant("C", &[4.0, 4.4])]);
        let told: Vec<_> =
            rows.iter().map(|row| (row.what.as_str(), (row.throughput().ratio * 10.0).round())).collect();
        assert_eq!(told, [("B/A", 20.0), ("C/A", 40.0), ("C/B", 20.0)]);
        assert!(rows.iter().all(|row| row.estimates[1].verdict == Verdict::NoDifference));
    }

    #[test]
    fn expectations_hold_in_both_directions_or_are_missed() {
        let rows = rows(&[variant("A", &[1.0, 1.0]), variant("B", &[2.0, 2.0])]);
        let missed = |text: &str| missed(&[text.parse().unwrap()], &rows).len();
        let all = ["B/A>=1.9", "A/B>=0.45", "B/A >= 2.1", "A/B>=0.55", "C/A>=1"].map(missed);
        assert_eq!(all, [0, 0, 1, 1, 1]);
        for wrong in ["B/A", "B>=1", "B/A>=x", "B/A>=-1"] {
            assert!(wrong.parse::<Expectation>().is_err(), "{wrong}");
        }
        let refused = |text: &str| check_names(&[text.parse().unwrap()], &["A", "B"]).is_err();
        assert_eq!(["A/B>=1", "B/A>=1", "A/C>=1", "C/A>=1", "A/A>=1"].map(refused), [false, false, true, true, true]);
    }

    #[test]
    fn an_expectation_of_files_must_hold_for_every_group() {
        let of = |what: &str, tps: f64| Compared {
            what: what.into(),
            baseline: variant("dir/one.json", &[1.0, 1.0]),
            candidate: variant("dir/two.json", &[tps, tps]),
            sides: SIDES.map(str::to_owned),
            paired: false,
        };
        let compared = vec![of("dag", 2.0), of("sequential", 0.5)];
        let measured = Measured { variants: vec![], compared, are_files: true, interrupted: false, partial: false };
        let rows = measured.rows(&METHOD).unwrap();
        let missed = |text: &str| -> Vec<_> {
            missed(&[text.parse().unwrap()], &rows).into_iter().map(|missed| missed.of).collect()
        };
        assert!(missed("B/A>=0.4").is_empty());
        assert_eq!(missed("B/A>=1.5"), [Some("sequential".to_owned())]);
        assert_eq!(missed("A/B>=1.5"), [Some("dag".to_owned())]);
    }

    #[test]
    fn samples_without_a_ratio_are_refused_by_name() {
        let halted = measured(&[variant("A", &[1.0, 1.0]), variant("B", &[2.0, 0.0])]);
        let why = halted.rows(&METHOD).unwrap_err().to_string();
        assert!(why.contains("B, round 2: tps is 0"), "{why}");
        let nothing = measured(&[variant("A", &[]), variant("B", &[])]);
        assert!(nothing.rows(&METHOD).is_err());
        let stopped = Measured { interrupted: true, ..nothing };
        assert!(stopped.rows(&METHOD).unwrap().is_empty(), "nothing was finished");
    }

    #[test]
    fn unsteady_runs_are_tagged() {
        let mut variants = [variant("A", &[1.0, 1.0]), variant("B", &[2.0, 2.0])];
        variants[0].samples[0].steady = Some(true);
        assert!(measured(&variants).tags().is_empty());
        variants[1].samples[1].steady = Some(false);
        assert_eq!(measured(&variants).tags(), ["not-steady"]);
        let partial = Measured { partial: true, ..measured(&variants) };
        assert_eq!(partial.tags(), ["interrupted", "not-steady"]);
        let told = table::unsteady(&variants).unwrap();
        assert!(told.contains("B in 1 of 2 runs") && !told.contains("A in"), "{told}");
    }
}
