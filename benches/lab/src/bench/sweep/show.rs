//! A sweep as table, rows, pictures and JSON.

use super::{
    axis::Axis,
    cell::{Cell, ENOUGH, FLAT, GAMMAS, Judged, Swept, place},
};
use crate::{
    config::RunConfig,
    head::Head,
    machine::host,
    papers,
    report::{
        Claim,
        svg::{Line, Picture, Published, lines, lines_beside},
        text,
    },
    written::{self, Named},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

pub(super) fn table(swept: &Swept, judged: Option<&Judged>) -> String {
    let cells = &swept.cells;
    let mut out = String::new();
    for (name, _) in cells.first().map_or(&[][..], |cell| &cell.at) {
        out.push_str(&format!("{name:>10}"));
    }
    let repeated = cells.iter().any(|cell| cell.tps_spread.is_some());
    let spread = |low: &str, high: &str| if repeated { format!("{low:>12}{high:>12}") } else { String::new() };
    out.push_str(&format!(
        "{:>14}{}{:>15}{:>12}{:>10}{:>9}  oracle\n",
        if repeated { "TPS, median" } else { "TPS" },
        spread("lowest", "highest"),
        "µs·core per tx",
        "TLP frames",
        "TLP DAG",
        "escapes"
    ));
    for cell in cells {
        cell.at.iter().for_each(|(_, value)| out.push_str(&format!("{value:>10}")));
        let [low, high] =
            [0, 1].map(|end| cell.tps_spread.map_or_else(|| text::NONE.to_owned(), |of| text::count(of[end])));
        out.push_str(&format!(
            "{:>14}{}{:>15}{:>12}{:>10}{:>9}  {}\n",
            cell.tps.map_or_else(|| text::NONE.to_owned(), text::count),
            spread(&low, &high),
            text::figure(cell.us_core_per_tx),
            text::optional(cell.tlp_frames),
            text::optional(cell.tlp_dag),
            cell.escapes,
            if cell.tps.is_none() { format!("{}: {}", cell.oracle, cell.detail) } else { cell.oracle.clone() }
        ));
    }
    if let Some(Judged { flat, held: (held, all), worst, best }) = judged {
        let (worst, best) = (&cells[*worst], &cells[*best]);
        let tps = |cell: &Cell| cell.tps.unwrap_or(0.0);
        let below = (1.0 - tps(worst) / tps(best).max(f64::MIN_POSITIVE)) * 100.0;
        out.push_str(&format!(
            "\nThe DAG's parallelism is at least {ENOUGH} in {held} of {all} cells. Of {}, the worst ({}) reaches {} TPS, {below:.0} % \
             below the best ({}). {}\n",
            if *held == 0 { "all" } else { "those" },
            place(&worst.at),
            text::count(tps(worst)),
            place(&best.at),
            if *flat { "Throughput is flat within 10 %." } else { "Throughput is NOT flat within 10 %." }
        ));
    }
    for tag in swept.tags() {
        let cells = cells.iter().filter(|cell| cell.tags.iter().any(|own| own == tag));
        let cells: Vec<String> = cells.map(|cell| place(&cell.at)).collect();
        out.push_str(&format!("\n({tag}: {})\n", cells.join("; ")));
    }
    out
}

pub(super) fn csv(cells: &[Cell]) -> String {
    let names: Vec<&str> = cells.first().map_or(&[][..], |cell| &cell.at).iter().map(|(name, _)| *name).collect();
    let mut out =
        format!("{},tps,us_core_per_tx,tlp_frames,tlp_dag,escapes,oracle,tps_lowest,tps_highest\n", names.join(","));
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let whole = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
    for cell in cells {
        let at: Vec<String> = cell.at.iter().map(|(_, value)| value.to_string()).collect();
        out.push_str(&format!(
            "{},{},{:.4},{},{},{},{},{},{}\n",
            at.join(","),
            whole(cell.tps),
            cell.us_core_per_tx,
            optional(cell.tlp_frames),
            optional(cell.tlp_dag),
            cell.escapes,
            cell.oracle,
            whole(cell.tps_spread.map(|of| of[0])),
            whole(cell.tps_spread.map(|of| of[1]))
        ));
    }
    out
}

/// The lowest and the highest rate, the runs behind them, and the oracle's verdict.
pub(super) fn claim(swept: &Swept, title: &str) -> Claim {
    let mut rates: Vec<f64> = swept.cells.iter().filter_map(|cell| cell.tps).collect();
    rates.sort_by(f64::total_cmp);
    let range = match rates.as_slice() {
        [] => "nothing was measured".to_owned(),
        [only] => format!("{} transactions per second", text::count(*only)),
        [least, .., most] => format!("{} to {} transactions per second", text::count(*least), text::count(*most)),
    };
    let runs = if swept.cells.iter().any(|cell| cell.tps_spread.is_some()) {
        "Medians of several runs of each setting, whose lowest and highest are in the table"
    } else {
        "One run of each setting, whose spread is unknown: --runs 5 tells it"
    };
    let verdicts: Vec<&str> = swept.cells.iter().map(|cell| cell.oracle.as_str()).collect();
    let worst = ["mismatch", "off", "sampled"].into_iter().find(|verdict| verdicts.contains(verdict));
    Claim {
        what: format!("{title}: {range}"),
        sure: format!("{runs}; results {}.", text::compared(worst.unwrap_or("match"))),
    }
}

pub(super) fn curve(axis: &Axis, cells: &[Cell]) -> Picture {
    let points = cells.iter().filter_map(|cell| Some((cell.at[0].1, cell.tps?))).collect();
    let mut drawn = vec![Line { label: axis.name.to_owned(), group: 0, points }];
    let mut groups = vec!["the only run".to_owned()];
    if cells.iter().any(|cell| cell.tps_spread.is_some()) {
        groups = ["median of the runs", "lowest run", "highest run"].map(str::to_owned).to_vec();
        for (group, end) in [(1, 0), (2, 1)] {
            let end = |cell: &Cell| cell.tps_spread.map(|of| (cell.at[0].1, of[end]));
            drawn.push(Line { label: groups[group].clone(), group, points: cells.iter().filter_map(end).collect() });
        }
    }
    let title = format!("Throughput by {}", axis.name);
    lines(&title, "transactions per second", axis.name, &groups, &drawn)
}

/// A line per gamma, and the paper's own points.
pub(super) fn by_alpha(cells: &[Cell]) -> Picture {
    let drawn: Vec<Line> = GAMMAS
        .iter()
        .enumerate()
        .map(|(group, gamma)| {
            let own = cells.iter().filter(|cell| cell.at[1].1 == *gamma as f64);
            let points = own.filter_map(|cell| Some((cell.at[0].1, cell.tps?))).collect();
            Line { label: format!("gamma {gamma}"), group, points }
        })
        .collect();
    let groups: Vec<String> =
        GAMMAS.iter().map(|gamma| format!("{} hot accounts", text::count(*gamma as f64))).collect();
    let x = "alpha: probability that the hot side of a transaction is hot";
    // Series of the table are numbers of hot accounts.
    let of = |mark: Published| {
        let hot = mark
            .series
            .parse::<u64>()
            .map_or(mark.series.clone(), |hot| format!("{} hot accounts", text::count(hot as f64)));
        Published { label: format!("paper, at least: {hot}"), series: hot, ..mark }
    };
    let papers: Vec<_> = papers::published("fafo-4", |_| true).into_iter().map(of).collect();
    let labels = ["Throughput by contention (FAFO, Figure 4)", "transactions per second", x];
    lines_beside(labels, &groups, &drawn, &papers)
}

/// The output.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Every flag as resolved.
    config: Map<String, Value>,
    /// Settings that were run.
    cells: &'a [Cell],
    /// Verdict on FAFO's claim. Null without `--figure fafo-4`, or beside a wrong or missing cell.
    judged: Option<Judgement<'a>>,
    /// Tags of the cells.
    tags: Vec<&'a str>,
}

/// Verdict on the claim that throughput does not depend on contention where the load is parallel.
#[derive(Serialize, JsonSchema)]
struct Judgement<'a> {
    /// True if the claim holds.
    flat: bool,
    /// Cells with at least `parallelism`.
    cells_with_parallelism: usize,
    /// Parallelism of the DAG from which on a cell counts.
    parallelism: f64,
    /// Largest share by which the worst cell may be below the best.
    floor: f64,
    /// Cell with the lowest rate.
    worst: &'a Cell,
    /// Cell with the highest rate.
    best: &'a Cell,
}

/// Schema of what is written.
pub(in crate::bench) fn schema() -> Named {
    written::schema::<Written<'_>>("bench-sweep", "bench sweep --json")
}

pub(super) fn value(config: &RunConfig, swept: &Swept, judged: Option<&Judged>) -> Value {
    let Swept { cells, .. } = swept;
    let judged = judged.map(|judged| Judgement {
        flat: judged.flat,
        cells_with_parallelism: judged.held.0,
        parallelism: ENOUGH,
        floor: FLAT,
        worst: &cells[judged.worst],
        best: &cells[judged.best],
    });
    written::value(&Written {
        head: Head::here(config.store.path(), &config.command),
        config: config.resolved(config.threads.unwrap_or_else(host::cores)),
        cells,
        judged,
        tags: swept.tags(),
    })
}
