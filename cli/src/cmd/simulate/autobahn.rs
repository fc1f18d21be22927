//! `simulate autobahn`: the evaluation of Autobahn against HotStuff in virtual time.

use super::{
    evaluation::{Shown, Swept, series},
    written::{AutobahnPoint, trace},
};
use phalanx_lab::report::svg::{Picture, lines};
use phalanx_sim::autobahn::{Figure, Outcome, Point};
use std::fmt::Write as _;

/// Mean latency by second of submission, in s; `None` where nothing is ready.
fn seconds(outcome: &Outcome) -> Vec<Option<f64>> {
    outcome.series.seconds().iter().map(|second| second.latency_s()).collect()
}

/// True for a figure that shows latency by second.
fn is_over_time(swept: &Swept<Figure>) -> bool {
    swept.figure.is_some_and(Figure::is_over_time)
}

impl Shown for Figure {
    const NAMES: &'static [&'static str] = &["5", "6", "7", "8", "ablation", "processes"];

    type Written = AutobahnPoint;

    const SUBJECT: &'static str = "Autobahn";
    const ROWS: &'static str = "autobahn.csv";
    const COLUMNS: &'static str = "figure,series,at,second,latency_ms,tps,ready";

    fn head(swept: &Swept<Self>) -> String {
        let (title, axis) = swept.title();
        format!(
            "{title}\n{:<20} {axis:>24} {:>9} {:>10} {:>7} {:>7} {:>8} {:>10}\n",
            "", "tx/s", "latency ms", "ready", "busy", "views", "messages/s"
        )
    }

    fn line(swept: &Swept<Self>, point: &Point, outcome: &Outcome) -> String {
        let Outcome { tps, latency_ms, answered, busy, views, messages, .. } = outcome;
        let at = if is_over_time(swept) { String::new() } else { point.at.to_string() };
        let mut text = format!(
            "{:<20} {at:>24} {tps:>9.0} {latency_ms:>10.1} {:>6.1}% {:>6.0}% {views:>8} {messages:>10.0}\n",
            point.series,
            answered * 100.0,
            busy.0.max(busy.1) * 100.0,
        );
        if is_over_time(swept) {
            let shown = seconds(outcome).into_iter().map(|latency| latency.map_or("-".into(), |s| format!("{s:.2}")));
            let _ = writeln!(text, "    s by second: {}", shown.collect::<Vec<_>>().join(" "));
        }
        text
    }

    /// Latency over the axis or over time, a line per series, the paper's beside ours where it prints one.
    fn plots(swept: &Swept<Self>) -> Vec<(String, Picture)> {
        let mut points = Vec::new();
        for (point, outcome) in swept.pairs() {
            if !is_over_time(swept) {
                points.push((point.series.clone(), vec![(point.at, outcome.latency_ms)]));
                continue;
            }
            let ours = (0..).map(f64::from).zip(seconds(outcome));
            let ours = ours.filter_map(|(at, latency)| Some((at, latency? * 1000.0))).collect();
            points.push((point.series.clone(), ours));
            if point.paper.len() > 1 {
                let begin = point.setting.blip.map_or(0, |blip| blip.begin_ms() / 1_000) as f64;
                let paper = point.paper.iter().enumerate().map(|(at, s)| (begin + at as f64, s * 1000.0));
                points.push((format!("{}, paper", point.series), paper.collect()));
            }
        }
        let ((groups, drawn), (title, axis)) = (series(points), swept.title());
        vec![(format!("autobahn-{}", swept.name), lines(title, "mean latency, ms", axis, &groups, &drawn))]
    }

    fn rows(swept: &Swept<Self>, point: &Point, outcome: &Outcome) -> String {
        let (figure, series, at) = (swept.title().0, &point.series, point.at);
        let Outcome { tps, latency_ms, answered, .. } = outcome;
        let mut text = format!("\"{figure}\",\"{series}\",{at},,{latency_ms:.3},{tps:.0},{answered:.4}\n");
        if is_over_time(swept) {
            for (second, latency) in seconds(outcome).into_iter().enumerate() {
                let latency = latency.map_or(String::new(), |s| format!("{:.3}", s * 1000.0));
                let _ = writeln!(text, "\"{figure}\",\"{series}\",,{second},{latency},,");
            }
        }
        text
    }

    fn written(point: &Point, outcome: &Outcome) -> AutobahnPoint {
        AutobahnPoint {
            series: point.series.clone(),
            at: point.at,
            tps: outcome.tps,
            latency_ms: outcome.latency_ms,
            ready: outcome.answered,
            views_given_up: outcome.views,
            messages_per_second: outcome.messages,
            seconds: seconds(outcome),
            paper_seconds: point.paper.to_vec(),
            trace_hash: trace(outcome.trace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::evaluation::{Named, csv, to_json},
        *,
    };
    use crate::ui;
    use phalanx_lab::report::svg::Origin;

    #[test]
    fn a_figure_has_a_table_a_plot_and_the_papers_numbers() {
        let swept = Swept::figure(Named { figure: Figure::Seven, name: "7" }, &ui::immediate()).expect("possible");
        let (name, plot) = Figure::plots(&swept).remove(0);
        assert!(swept.table().contains("hangover") && plot.standalone(&Origin::default()).contains("<svg"));
        assert_eq!(name, "autobahn-7");
        let value = to_json(core::slice::from_ref(&swept));
        assert_eq!(value["figures"][0]["points"].as_array().map(Vec::len), Some(5));
        assert!(csv(&[swept]).lines().count() > 100);
    }
}
