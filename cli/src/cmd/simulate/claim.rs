//! Claims of pages in virtual time.

use super::point::{Point, ms, name};
use phalanx_lab::report::{
    Claim,
    svg::Picture,
    text::{count, counted, figure},
};
use phalanx_pipeline::Mode;

/// Claim of a page whose figures are computed, not measured.
pub(super) fn virtual_time(what: &str, pictures: &[(String, Picture)]) -> Claim {
    let mut sure =
        "Virtual time: the same command of the same version gives the same figures on every machine.".to_owned();
    if pictures.iter().any(|(_, picture)| picture.is_beside_paper()) {
        sure.push_str(" Squares are the paper's own numbers.");
    }
    Claim { what: what.to_owned(), sure }
}

/// A number of a paper beside ours.
pub(super) struct Beside {
    pub(super) what: String,
    pub(super) paper: f64,
    /// Sign of a bound before the paper's number; empty for a number.
    pub(super) sign: &'static str,
    pub(super) ours: f64,
    /// `None` if the number is fitted or an input.
    pub(super) agrees: Option<bool>,
}

/// Agreement with a paper in a sentence, and each number that does not agree.
pub(super) fn agreement(subject: &str, compared: impl IntoIterator<Item = Beside>) -> (String, Vec<String>) {
    let all: Vec<Beside> = compared.into_iter().collect();
    let judged = all.iter().filter(|of| of.agrees.is_some()).count();
    let outside: Vec<String> = all
        .iter()
        .filter(|of| of.agrees == Some(false))
        .map(|of| format!("{}: {}{} in the paper, {} here", of.what, of.sign, figure(of.paper), figure(of.ours)))
        .collect();
    let claim = match (all.len(), judged) {
        (0, _) => format!("{subject}: the paper states no number of these points"),
        (all, 0) => {
            format!(
                "{subject}: the paper's {} here are fitted or inputs, so they prove nothing",
                counted(all, "number")
            )
        }
        (all, judged) => {
            let given = match all - judged {
                0 => String::new(),
                1 => "; 1 number beside was fitted or put in".to_owned(),
                given => format!("; {} beside were fitted or put in", counted(given, "number")),
            };
            let met = judged - outside.len();
            format!("{subject}: {met} of {} of the paper are met{given}", counted(judged, "number"))
        }
    };
    (claim, outside)
}

/// The gain of the optimistic pipeline in a sentence: at one point, or over many.
pub(super) fn gains(points: &[Point]) -> String {
    let median = |point: &Point, mode| {
        let report = point.reports.iter().find(|report| report.mode == mode)?;
        Some(ms(report.latency.p50))
    };
    let pairs: Vec<(&Point, f64, f64)> = points
        .iter()
        .filter_map(|point| Some((point, median(point, Mode::Baseline)?, median(point, Mode::Optimistic)?)))
        .collect();
    let less = |(_, baseline, optimistic): &(&Point, f64, f64)| 100.0 * (1.0 - optimistic / baseline);
    match (&pairs[..], points) {
        ([pair @ (point, baseline, optimistic)], _) => format!(
            "At {} transactions per second a client waits {} ms with the optimistic pipeline and {} ms with the baseline, \
             {:.0} % less, at the median",
            count(point.experiment.tps as f64),
            figure(*optimistic),
            figure(*baseline),
            less(pair)
        ),
        ([_, ..], _) => {
            let gains = pairs.iter().map(less);
            let (least, most) =
                gains.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), gain| (least.min(gain), most.max(gain)));
            let loads = counted(pairs.len(), "load");
            format!(
                "Over {loads} the optimistic pipeline's median latency is {least:.0} to {most:.0} % below the baseline's"
            )
        }
        ([], [point]) => point.reports.first().map_or_else(
            || "Nothing was simulated".to_owned(),
            |report| {
                let (wait, tps) = (figure(ms(report.latency.p50)), count(point.experiment.tps as f64));
                let mode = name(report.mode);
                format!(
                    "At {tps} transactions per second a client waits {wait} ms with the {mode} pipeline, at the median"
                )
            },
        ),
        ([], _) => format!("Latency of one pipeline over {}", counted(points.len(), "load")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_lab::report::svg::{Line, Published, lines_beside};

    #[test]
    fn squares_are_explained_where_there_are_squares() {
        let drawn = |published: &[Published]| {
            let line = Line { label: "ours".into(), group: 0, points: vec![(1.0, 2.0)] };
            let picture = lines_beside(["t", "y", "x"], &["ours".into()], &[line], published);
            virtual_time("ours", &[("figure".into(), picture)]).sure
        };
        let points = vec![(1.0, 3.0)];
        let of = Published { series: "ours".into(), label: "paper".into(), source: "Figure 1".into(), points };
        assert!(drawn(core::slice::from_ref(&of)).contains("Squares"));
        assert!(
            !drawn(&[]).contains("Squares") && !drawn(&[Published { points: Vec::new(), ..of }]).contains("Squares")
        );
    }

    #[test]
    fn gains_are_stated_with_their_loads() {
        let experiment = phalanx_sim::zaptos::Experiment {
            validators: 4,
            fullnodes: 4,
            tps: 1_000,
            measured_us: 1_000_000,
            ..phalanx_sim::zaptos::Experiment::paper()
        };
        let run = |mode| experiment.run(mode).expect("runs");
        let point = |modes: &[Mode]| Point {
            label: String::new(),
            experiment: experiment.clone(),
            reports: modes.iter().map(|mode| run(*mode)).collect(),
        };
        let both = point(&[Mode::Baseline, Mode::Optimistic]);
        let one = gains(core::slice::from_ref(&both));
        assert!(one.starts_with("At 1,000 transactions per second") && one.contains("% less"), "{one}");
        let swept = gains(&[both.clone(), both]);
        assert!(swept.starts_with("Over 2 loads") && swept.contains(" % below the baseline's"), "{swept}");
        assert!(gains(&[point(&[Mode::Baseline])]).contains("with the baseline pipeline"));
    }

    #[test]
    fn agreement_counts_what_could_have_failed_and_names_what_did() {
        let of = |agrees| Beside { what: "latency, ms".into(), paper: 2.0, sign: "≤ ", ours: 3.0, agrees };
        let said = |compared: &[Option<bool>]| agreement("SBFT", compared.iter().copied().map(of));
        let (claim, outside) = said(&[Some(true), Some(false), None]);
        assert_eq!(claim, "SBFT: 1 of 2 numbers of the paper are met; 1 number beside was fitted or put in");
        assert_eq!(outside, ["latency, ms: ≤ 2.00 in the paper, 3.00 here"]);
        assert!(said(&[None]).0.ends_with("prove nothing") && said(&[]).0.contains("states no number"));
    }
}
