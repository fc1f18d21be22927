//! Plots of a result.

use super::{
    settled,
    summary::{Pace, Row, amount},
    svg::{Bar, Dots, Line, Picture, Segment, dots, lines, stacked},
    text,
};

/// Transactions per second over time, a line per run; repetitions share a colour.
pub(crate) fn tps(rows: &[Row<'_>]) -> Picture {
    let (mut groups, mut drawn) = (Vec::new(), Vec::new());
    for row in right(rows) {
        let repeats = if row.runs.len() > 1 { format!(" ({})", row.repeats()) } else { String::new() };
        let tps = row.tps().filter(|_| !row.is_empty()).map_or_else(|| text::NONE.to_owned(), text::count);
        for (i, run) in row.runs.iter().enumerate() {
            let number = if row.runs.len() > 1 { format!(" #{}", i + 1) } else { String::new() };
            drawn.push(Line { label: row.name() + &number, group: groups.len(), points: run.series.clone() });
        }
        let drifts = if matches!(row.pace(), Pace::Drifts(_)) { ", not steady" } else { "" };
        groups.push(format!("{}: {tps}{repeats}{drifts}", row.name()));
    }
    let y_label = "transactions per second, in each interval; in the legend, over the whole run";
    lines("Throughput over time", y_label, "seconds since the timer started", &groups, &drawn)
        .warned(&settled::warnings(rows))
}

/// Processor time per transaction, split by stage.
pub(crate) fn stages(rows: &[Row<'_>]) -> Picture {
    let bars: Vec<Bar> = right(rows)
        .map(|row| {
            let named = row.stages().named().into_iter().chain([("other", row.other())]);
            let segments: Vec<Segment> = named
                .enumerate()
                .map(|(colour, (name, ns))| Segment { name, value: amount(ns) / 1000.0, colour })
                .collect();
            // The process's clock, as in the table; the sum of the stages only if there is none.
            let sum = || segments.iter().map(|segment| segment.value).sum();
            let total = text::figure(Some(amount(row.us_core())).filter(|us| *us > 0.0).unwrap_or_else(sum));
            Bar { label: row.name(), total: format!("{total} µs"), segments }
        })
        .collect();
    let subtitle = "of one core, all threads together, by stage; shorter is better";
    stacked("Processor time per transaction", subtitle, "µs·core per transaction", &bars)
        .warned(&settled::warnings(rows))
}

/// Latency of blocks.
pub(crate) fn latency(rows: &[Row<'_>]) -> Picture {
    let dots_of_rows: Vec<Dots> = right(rows)
        .map(|row| {
            let q = row.latency();
            Dots { label: row.name(), values: [q.p50, q.p90, q.p99, q.max] }
        })
        .collect();
    let subtitle = "from a block's first transaction to its state root; further left is better";
    dots("Block latency", subtitle, "milliseconds", ["p50 (median)", "p90", "p99", "slowest"], &dots_of_rows)
        .warned(&settled::warnings(rows))
}

/// Rows with right results. Other rows have no figures, in plots as in tables.
fn right<'a>(rows: &'a [Row<'a>]) -> impl Iterator<Item = &'a Row<'a>> {
    rows.iter().filter(|row| !row.differs())
}
