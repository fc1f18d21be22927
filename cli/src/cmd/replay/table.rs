//! Table of the replay: a row per line, and the speed of each executor relative to sequential revm.

use super::line::Line;
use phalanx_lab::report::text::pinned;
use std::{collections::BTreeMap, fmt::Write as _};

/// Table of blocks that each ran `repeat` times.
pub(crate) fn text(lines: &[Line], repeat: usize) -> String {
    let mut text = format!(
        "{:>9} {:17} {:>5} {:11} {:>3} {:22} {:4} {:8} {:5} {:7} {:5} {:5} {:>9} {:>9} {:>6} {:>7} {:>7} {:>8} {:>8}\n",
        "block",
        "spec",
        "txs",
        "executor",
        "thr",
        "hints",
        "gas",
        "receipts",
        "bloom",
        "senders",
        "state",
        "equal",
        "ms",
        "seq. ms",
        "speed",
        "again",
        "escapes",
        "us/tx",
        "seq. us"
    );
    for line in lines {
        let speed = line.speed().map_or_else(String::new, |speed| format!("{speed:.2}"));
        _ = writeln!(
            text,
            "{:>9} {:17} {:>5} {:11} {:>3} {:22} {:4} {:8} {:5} {:7} {:5} {:5} {:>9.3} {:>9.3} {:>6} {:>7} {:>7} {:>8.2} {:>8.2}",
            line.number,
            line.spec,
            line.txs,
            line.executor,
            line.threads,
            line.hints,
            mark(line.gas_used_matches),
            mark(line.receipts_root_matches),
            mark(line.logs_bloom_matches),
            mark(line.senders_recovered_match),
            mark(line.post_state_digest_matches),
            mark(Some(line.equals_sequential)),
            line.exec_ms,
            line.sequential_ms,
            speed,
            line.reexecutions,
            line.escapes,
            line.us_core_per_tx,
            line.sequential_us_core_per_tx,
        );
        if line.differs() {
            let place = line.bundle.as_ref().map_or_else(String::new, |path| format!("; see {}", path.display()));
            _ = writeln!(text, "          {}{place}", line.words());
        }
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

const fn mark(matches: Option<bool>) -> &'static str {
    match matches {
        Some(true) => "ok",
        Some(false) => "NO",
        None => "-",
    }
}

/// Median and worst speed per executor and kind of hints.
fn summary(lines: &[Line]) -> String {
    let mut speeds: BTreeMap<(&str, &str), Vec<(f64, u64)>> = BTreeMap::new();
    for line in lines {
        if let Some(speed) = line.speed() {
            speeds.entry((&line.executor, &line.hints)).or_default().push((speed, line.number));
        }
    }
    let mut text = String::new();
    // Sums over all blocks: processor time, sequential processor time (both in microseconds), transactions.
    let mut costs: BTreeMap<(&str, &str), (f64, f64, usize)> = BTreeMap::new();
    for line in lines {
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
    text
}
