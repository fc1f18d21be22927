//! Table of the replay: a row per line, and the speed of each executor relative to sequential revm.

use super::line::Line;
use phalanx_lab::report::text::pinned;
use std::{collections::BTreeMap, fmt::Write as _};

/// Heads of the columns; true for numbers, which stand at the right.
const HEADS: [(&str, bool); 14] = [
    ("block", true),
    ("spec", false),
    ("txs", true),
    ("executor", false),
    ("thr", true),
    ("hints", false),
    ("checks", false),
    ("ms", true),
    ("seq. ms", true),
    ("speed", true),
    ("again", true),
    ("escapes", true),
    ("us/tx", true),
    ("seq. us", true),
];

/// Comparisons behind the column of checks.
const CHECKS: &str = "checks: gas used, receipts root, logs bloom, requests hash, senders, state, the block's own hashes, sequential \
                      revm; n/a: cannot be compared\n";

/// Table of blocks that each ran `repeat` times. Columns are as wide as their cells.
pub(crate) fn text(lines: &[Line], repeat: usize) -> String {
    let rows: Vec<[String; HEADS.len()]> = lines.iter().map(cells).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADS[column].0.len()]).max().unwrap_or(0)
    };
    let widths: [usize; HEADS.len()] = core::array::from_fn(width);
    let row = |cells: [&str; HEADS.len()]| {
        let pad = |(at, cell): (usize, &str)| {
            let width = widths[at];
            if HEADS[at].1 { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        };
        let line = cells.into_iter().enumerate().map(pad).collect::<Vec<_>>().join(" ");
        line.trim_end().to_owned() + "\n"
    };
    let mut text = row(HEADS.map(|(head, _)| head));
    for (line, cells) in lines.iter().zip(&rows) {
        text.push_str(&row(cells.each_ref().map(String::as_str)));
        if line.differs() {
            let place = line.bundle.as_ref().map_or_else(String::new, |path| format!("; see {}", path.display()));
            _ = writeln!(text, "          {}{place}", line.words());
        }
    }
    if !lines.is_empty() {
        text.push_str(CHECKS);
    }
    text.push_str(&summary(lines));
    if !lines.is_empty() {
        let times =
            if repeat == 1 { "one execution each, ours in cold memory".into() } else { format!("medians of {repeat}") };
        let cores = lines.iter().map(|line| &line.pinned[..]).max_by_key(|cores| cores.len()).unwrap_or_default();
        _ = writeln!(text, "Times are {times}{}.", pinned(cores));
    }
    text
}

/// Cells of a line.
fn cells(line: &Line) -> [String; HEADS.len()] {
    let checks = match line.checks() {
        [_, wrong, _] if wrong > 0 => format!("{wrong} DIFFER"),
        [right, _, 0] => format!("{right} ok"),
        [right, _, absent] => format!("{right} ok, {absent} n/a"),
    };
    [
        line.number.to_string(),
        line.spec.clone(),
        line.txs.to_string(),
        line.executor.clone(),
        line.threads.to_string(),
        line.hints.clone(),
        checks,
        format!("{:.3}", line.exec_ms),
        format!("{:.3}", line.sequential_ms),
        line.speed().map_or_else(String::new, |speed| format!("{speed:.2}")),
        line.reexecutions.to_string(),
        line.escapes.to_string(),
        format!("{:.2}", line.us_core_per_tx),
        format!("{:.2}", line.sequential_us_core_per_tx),
    ]
}

/// Median and worst speed per executor and kind of hints, of the blocks that are right: a fast wrong answer is no measurement.
fn summary(all: &[Line]) -> String {
    let lines = || all.iter().filter(|line| !line.differs());
    let left_out = all.len() - lines().count();
    let mut speeds: BTreeMap<(&str, &str), Vec<(f64, u64)>> = BTreeMap::new();
    for line in lines() {
        if let Some(speed) = line.speed() {
            speeds.entry((&line.executor, &line.hints)).or_default().push((speed, line.number));
        }
    }
    let mut text = String::new();
    // Sums over all blocks: processor time, sequential processor time (both in microseconds), transactions.
    let mut costs: BTreeMap<(&str, &str), (f64, f64, usize)> = BTreeMap::new();
    for line in lines() {
        let (ours, sequential, txs) = costs.entry((&line.executor, &line.hints)).or_default();
        *ours += line.us_core_per_tx * line.txs as f64;
        *sequential += line.sequential_us_core_per_tx * line.txs as f64;
        *txs += line.txs;
    }
    for ((executor, hints), mut speeds) in speeds {
        speeds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let median = speeds[speeds.len() / 2].0;
        let (worst, block) = speeds[0];
        let blocks = speeds.len();
        let (ours, sequential, txs) = costs.get(&(executor, hints)).copied().unwrap_or_default();
        let each = txs.max(1) as f64;
        let plural = if blocks == 1 { "block" } else { "blocks" };
        _ = writeln!(
            text,
            "\n{executor}, {hints}: {median:.2} times sequential revm in the median of {blocks} {plural}, {worst:.2} in the worst (block {block}); {:.2} us of a core per transaction with the root, sequential {:.2}",
            ours / each,
            sequential / each,
        );
    }
    if left_out > 0 {
        _ = writeln!(text, "\n{left_out} of {} executions differ, and are in no figure", all.len());
    }
    text
}
