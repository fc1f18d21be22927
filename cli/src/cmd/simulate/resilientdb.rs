//! `simulate resilientdb`: throughput and latency by the threads of replicas, in virtual time.

use super::{
    evaluation::{Shown, Swept},
    written::ResilientdbPoint,
};
use phalanx_lab::report::svg::Picture;
use phalanx_sim::{
    load::{Outcome, Utilisation},
    resilientdb::{Figure, Point},
};

impl Shown for Figure {
    const NAMES: &'static [&'static str] =
        &["1", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "text"];

    type Written = ResilientdbPoint;

    const SUBJECT: &'static str = "ResilientDB";
    const COLUMNS: &'static str = "figure,series,at,tps,latency_ms,little,primary_batch,primary_worker,backup_worker";

    fn head(swept: &Swept<Self>) -> String {
        let (title, axis) = swept.title();
        let columns = format!("{title}\n{:<20} {axis:>35} {:>9} {:>10} {:>7}", "", "tx/s", "latency ms", "little");
        let busy = format!("   busy: {:>6} {:>6} {:>6} {:>6} {:>6}\n", "input", "batch", "worker", "exec", "backup");
        columns + &busy
    }

    fn line(_: &Swept<Self>, point: &Point, outcome: &Outcome) -> String {
        let Utilisation { input, batch, worker, execute, .. } = outcome.primary;
        format!(
            "{:<20} {:>35} {:>9.0} {:>10.1} {:>7.3}         {:>5.0}% {:>5.0}% {:>5.0}% {:>5.0}% {:>5.0}%\n",
            point.series,
            point.at,
            outcome.tps,
            outcome.latency_s * 1000.0,
            outcome.little,
            input * 100.0,
            batch * 100.0,
            worker * 100.0,
            execute * 100.0,
            outcome.backup.worker * 100.0,
        )
    }

    /// Throughput and latency over the axis, a line per series, and our numbers beside the paper's.
    fn plots(swept: &Swept<Self>) -> Vec<(String, Picture)> {
        let throughput = swept.plot("transactions per second", |outcome| outcome.tps);
        let latency = swept.plot("mean latency, ms", |outcome| outcome.latency_s * 1000.0);
        let plots = [("throughput", throughput), ("latency", latency), ("compared", swept.beside())];
        plots.map(|(kind, plot)| (format!("figure-{}-{kind}", swept.name), plot)).into()
    }

    fn rows(swept: &Swept<Self>, point: &Point, outcome: &Outcome) -> String {
        let Outcome { tps, latency_s, little, primary, backup, .. } = outcome;
        format!(
            "\"{}\",\"{}\",{},{tps:.0},{:.3},{little:.4},{:.3},{:.3},{:.3}\n",
            swept.title().0,
            point.series,
            point.at,
            latency_s * 1000.0,
            primary.batch,
            primary.worker,
            backup.worker,
        )
    }

    fn written(point: &Point, outcome: &Outcome) -> ResilientdbPoint {
        ResilientdbPoint { series: point.series.clone(), at: point.at, outcome: outcome.clone() }
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
    fn a_figure_has_a_table_plots_and_the_papers_numbers() {
        let swept = Swept::figure(Named { figure: Figure::Seven, name: "7" }, &ui::immediate()).expect("possible");
        assert!(swept.table().contains("500000.000"));
        let plots = Figure::plots(&swept);
        assert_eq!(
            plots.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["figure-7-throughput", "figure-7-latency", "figure-7-compared"]
        );
        assert!(plots.iter().all(|(_, plot)| plot.standalone(&Origin::default()).contains("<svg")));
        assert!(plots[2].1.standalone(&Origin::default()).contains("without execution, tx/s, paper"));
        assert_eq!(csv(core::slice::from_ref(&swept)).lines().count(), 3);
        let value = to_json(&[swept]);
        assert_eq!(value["figures"][0]["points"].as_array().map(Vec::len), Some(2));
        assert_eq!(value["figures"][0]["compared"][0]["agrees"], true);
    }
}
