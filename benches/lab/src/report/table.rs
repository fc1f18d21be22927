//! Results as plain text for a terminal of 100 columns. Nothing is cut: prose is wrapped below the figures.

use super::{
    settled,
    summary::{Row, SEQUENTIAL, amount, rows},
    text,
};
use crate::{
    quality,
    result::{BenchResult, Building, OpenLoop, Reads, Run, Stages},
};
use std::collections::BTreeSet;

/// Text in place of the throughput of wrong results.
pub(crate) const DIFFERS: &str = "— (results differ from the oracle)";

/// Columns of the text, unless names are unusually long.
const WIDTH: usize = 100;
/// Text in place of the figures of a run without a block.
pub(crate) const NOTHING: &str = "— (interrupted before the first block)";

/// Table of results: a line per executor and number of threads, then stages in nanoseconds, then state roots.
///
/// Repetitions are one line of medians. No colours, no tabs, every line ends with a newline.
pub fn table(results: &[BenchResult]) -> String {
    let rows = rows(results);
    if rows.is_empty() {
        return "No runs.\n".to_owned();
    }
    let mut out = figures(&rows);
    out.push_str("\nProcessor time by stage, in nanoseconds per transaction\n");
    out.push_str(&stages(&rows));
    out.push_str("\nState after the last block\n");
    out.push_str(&states(&rows));
    out.push_str(&comparisons(&rows));
    if let Some(lines) = settled::lines(&rows) {
        out.push('\n');
        out.push_str(&lines);
    }
    out.push_str(&disks(results));
    out.push_str(&open_loops(results));
    let touched: BTreeSet<u64> = results.iter().map(|result| result.scope.touched_gib).collect();
    out.push_str(&text::touched(touched));
    for lines in results.iter().filter_map(building) {
        out.push('\n');
        out.push_str(&lines);
    }
    out.push_str(&settled::tags(results, &rows));
    out
}

/// Reads of states on disk, a line per run; empty for none.
fn disks(results: &[BenchResult]) -> String {
    let line = |run: &Run| {
        let Reads { per_s, per_tx, bytes_per_tx, written_bytes_per_tx, hit_rate, depth, .. } = run.reads?;
        let [per_s, read, written] = [per_s, bytes_per_tx, written_bytes_per_tx].map(text::count);
        let [per_tx, depth, hits] = [per_tx, depth, hit_rate * 100.0].map(text::figure);
        Some(format!(
            "Values on disk, {}: {per_s} reads per second, {per_tx} per transaction, {depth} in flight; {read} bytes read and \
             {written} written per transaction; {hits} % of the lookups found their value in memory\n",
            run.executor
        ))
    };
    let lines: String = results.iter().flat_map(|result| &result.runs).filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Latencies from arrivals on, a line per run of an open loop; empty for none.
fn open_loops(results: &[BenchResult]) -> String {
    let line = |run: &Run| {
        let OpenLoop { rate, latency_ms: of, behind_ms } = run.open_loop?;
        let [p50, p90, p99, max] = [of.p50, of.p90, of.p99, of.max].map(text::figure);
        let rate = text::count(rate as f64);
        Some(format!(
            "Open loop, {}: {rate} arrivals per second; from arrival to root p50 {p50} ms, p90 {p90} ms, p99 {p99} ms, \
             maximum {max} ms; the end came {} ms after the last arrival\n",
            run.executor,
            text::figure(behind_ms)
        ))
    };
    let lines: String = results.iter().flat_map(|result| &result.runs).filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// CSV of results, a row per run.
pub fn csv(results: &[BenchResult]) -> String {
    let mut text = "workload,executor,threads,tps,us_core_per_tx,p50_ms,p99_ms,tlp_frames,tlp_dag,escapes,\
                    recover_ns,analyse_ns,frame_ns,schedule_ns,execute_ns,seal_ns,merkle_ns,persist_ns,read_ns,\
                    state_root,oracle\n"
        .to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.3}"));
    for result in results {
        let workload = result.config.get("workload").and_then(|w| w.as_str()).unwrap_or_default();
        for run in &result.runs {
            let stages: Vec<_> = run.stages_ns_per_tx.named().iter().map(|(_, ns)| format!("{ns:.1}")).collect();
            text.push_str(&format!(
                "{workload},{},{},{},{:.4},{:.3},{:.3},{},{},{},{},{},{}\n",
                run.executor,
                run.threads,
                number(run.throughput.as_ref().map(|t| t.tps)),
                run.cpu.us_core_per_tx,
                run.block_latency_ms.p50,
                run.block_latency_ms.p99,
                number(run.parallelism.tlp_frames),
                number(run.parallelism.tlp_dag),
                run.parallelism.escapes,
                stages.join(","),
                run.integrity.state_root,
                run.integrity.oracle,
            ));
        }
    }
    text
}

/// Lines of a builder's result; `None` for other results.
pub(crate) fn building(result: &BenchResult) -> Option<String> {
    let Building { fairness, artefacts, cost_beside_run, predictions } = result.building.as_ref()?;
    let pool =
        rows(core::slice::from_ref(result)).iter().find(|row| row.executor == "build").map(|row| row.stages().pool);
    let places = |places: usize| text::count(places as f64);
    let lines = [
        ("In the pool, ns per transaction", pool.map(text::count)),
        ("Builder without recovery and pool ÷ bench run", cost_beside_run.map(text::figure)),
        ("Exceptions, bytes per transaction", artefacts.exceptions_bytes_per_tx.map(text::figure)),
        ("Access lists, bytes per transaction", artefacts.list_bytes_per_tx.map(text::figure)),
        ("Moved by the builder's order at most, in places", Some(places(fairness.max_displacement))),
        ("  half of all, and 99 of 100, by no more than", {
            Some(format!("{}, {}", places(fairness.p50_displacement), places(fairness.p99_displacement)))
        }),
        ("  back at most, in places", Some(places(fairness.max_delay))),
        ("  later at most, in blocks", Some(places(fairness.max_wait_blocks))),
    ];
    let lines = lines.into_iter().filter_map(|(what, figure)| Some(format!("{what:54} {:>10}\n", figure?)));
    let mut lines: String = lines.collect();
    if !predictions.is_empty() {
        lines.push_str("\nPredictions of the blocks' transactions, by source\n");
        lines.push_str(&quality::table(predictions));
    }
    Some(lines)
}

/// The stage that takes most processor time, and its share of all stages: `("none", 0.0)` when no time was measured.
pub(crate) fn bottleneck(stages: &Stages) -> (&'static str, f64) {
    let largest = stages.named().iter().fold(0.0, |most: f64, (_, ns)| most.max(amount(*ns)));
    let first = stages.named().into_iter().find(|(_, ns)| largest > 0.0 && *ns == largest);
    // Scaled before the sum, so that huge figures do not overflow.
    let total: f64 = stages.named().iter().map(|(_, ns)| amount(*ns) / largest).sum();
    first.map_or(("none", 0.0), |(name, _)| (name, 1.0 / total))
}

fn figures(rows: &[Row<'_>]) -> String {
    let repeated = rows.iter().any(|row| row.runs.len() > 1);
    let blank = |span| Cell { text: String::new(), span, right: false };
    let over = |text: &str, span| Cell { text: text.to_owned(), span, right: true };
    let compared = rows.iter().any(|row| row.executor == SEQUENTIAL);
    let mut above = vec![blank(if repeated { 5 } else { 4 })];
    above.extend(compared.then(|| over("× seq.", 1)));
    above.extend([over("Mgas", 1), over("µs·core", 1), over("block ms", 2), over("TLP", 2), blank(1)]);
    let mut head = identity_head();
    if repeated {
        head.push(blank(1));
    }
    head.push(over("TPS", 1));
    head.extend(compared.then(|| over("revm", 1)));
    head.extend(["per s", "per tx", "p50", "p99", "frames", "DAG"].map(|title| over(title, 1)));
    let figures = head.len() - identity_head().len() - usize::from(repeated);
    head.push(Cell::left("oracle".into()));
    let lines = rows.iter().map(|row| {
        let mut line = identity(row);
        if repeated {
            line.push(Cell::left(row.repeats()));
        }
        if row.differs() {
            line.push(Cell { text: DIFFERS.to_owned(), span: figures, right: false });
        } else if row.is_empty() {
            line.push(Cell { text: NOTHING.to_owned(), span: figures, right: false });
        } else {
            let latency = row.latency();
            line.push(Cell::right(row.tps().map_or_else(|| text::NONE.to_owned(), text::count)));
            line.extend(compared.then(|| Cell::right(text::optional(row.speed_up(rows)))));
            line.extend(
                [
                    text::optional(row.throughput(|t| t.gas_per_s / 1e6)),
                    text::figure(row.us_core()),
                    text::figure(latency.p50),
                    text::figure(latency.p99),
                    text::optional(row.tlp_frames()),
                    text::optional(row.tlp_dag()),
                ]
                .map(Cell::right),
            );
        }
        line.push(Cell::left(text::line(row.oracle(), 12)));
        line
    });
    grid(&[above, head].into_iter().chain(lines).collect::<Vec<_>>())
}

fn stages(rows: &[Row<'_>]) -> String {
    let names = Stages::default().named().map(|(name, _)| name);
    let mut head = identity_head();
    head.extend(names.into_iter().chain(["other"]).map(|name| Cell::right(name.to_owned())));
    let lines = rows.iter().map(|row| {
        let mut line = identity(row);
        if row.differs() || row.is_empty() {
            line.push(Cell { text: text::NONE.to_owned(), span: names.len() + 1, right: false });
        } else {
            let figures = row.stages().named().map(|(_, ns)| ns);
            line.extend(figures.into_iter().chain([row.other()]).map(|ns| Cell::right(text::count(amount(ns)))));
        }
        line
    });
    grid(&std::iter::once(head).chain(lines).collect::<Vec<_>>())
}

fn states(rows: &[Row<'_>]) -> String {
    let mut head = identity_head();
    head.extend(["most time in", "state root"].map(|title| Cell::left(title.into())));
    let lines = rows.iter().map(|row| {
        let mut line = identity(row);
        line.push(Cell::left(match bottleneck(&row.stages()) {
            _ if row.differs() || row.is_empty() => text::NONE.to_owned(),
            (stage, share) => format!("{stage} {}", text::percent(share)),
        }));
        let root = row.roots().first().copied().filter(|_| !row.is_empty()).unwrap_or(text::NONE);
        line.push(Cell::left(text::short_root(root)));
        line
    });
    grid(&std::iter::once(head).chain(lines).collect::<Vec<_>>())
}

/// Scope of each comparison with sequential revm, or the difference: one paragraph for all rows that are alike.
fn comparisons(rows: &[Row<'_>]) -> String {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.is_empty()) {
        let detail = match row.detail() {
            detail if row.diverged() => format!("{} different roots! {detail}", row.roots().len()),
            "" => row.oracle().to_owned(),
            detail => detail.to_owned(),
        };
        match told.iter_mut().find(|(known, _)| *known == detail) {
            Some((_, names)) => names.push(row.name()),
            None => told.push((detail, vec![row.name()])),
        }
    }
    let alike = told.len() == 1;
    let paragraph = |(detail, names): (String, Vec<String>)| {
        let about = if alike { String::new() } else { format!("{}: ", names.join("; ")) };
        let lines = text::wrapped(&format!("{about}{detail}"), WIDTH - 2);
        lines.into_iter().map(|line| format!("  {line}\n")).collect::<String>()
    };
    let paragraphs: String = told.into_iter().map(paragraph).collect();
    if paragraphs.is_empty() { paragraphs } else { format!("\nCompared with sequential revm\n{paragraphs}") }
}

/// Workload, executor, threads.
fn identity(row: &Row<'_>) -> Vec<Cell> {
    vec![
        Cell::left(text::line(&row.workload, 28)),
        Cell::left(text::line(row.executor, 16)),
        Cell::right(row.threads.to_string()),
    ]
}

fn identity_head() -> Vec<Cell> {
    vec![Cell::left("workload".into()), Cell::left("executor".into()), Cell::right("thr".into())]
}

/// Text over one or more columns.
#[derive(Clone, Debug)]
struct Cell {
    text: String,
    span: usize,
    right: bool,
}

impl Cell {
    fn left(text: String) -> Self {
        Self { text: text::line(&text, usize::MAX), span: 1, right: false }
    }

    const fn right(text: String) -> Self {
        Self { text, span: 1, right: true }
    }
}

/// Cells under each other, two blanks apart, or one where two would not fit.
fn grid(rows: &[Vec<Cell>]) -> String {
    let widths = widths(rows);
    let gap = if widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) <= WIDTH { 2 } else { 1 };
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        let mut column = 0;
        for cell in row {
            if column > 0 {
                line.extend(std::iter::repeat_n(' ', gap));
            }
            let width = widths[column..column + cell.span].iter().sum::<usize>() + gap * (cell.span - 1);
            let text = &cell.text;
            line.push_str(&if cell.right { format!("{text:>width$}") } else { format!("{text:<width$}") });
            column += cell.span;
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Width of each column, for its own cells and the cells that span it.
fn widths(rows: &[Vec<Cell>]) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    // Spanning cells last: they need only the width that single columns leave open.
    for spanning in [false, true] {
        for row in rows {
            let mut column = 0;
            for cell in row {
                let end = column + cell.span;
                widths.resize(widths.len().max(end), 0);
                if (cell.span > 1) == spanning {
                    let room = widths[column..end].iter().sum::<usize>() + cell.span - 1;
                    widths[end - 1] += cell.text.chars().count().saturating_sub(room);
                }
                column = end;
            }
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::{super::fixture, *};

    /// Column at which `word` ends in `line`.
    fn end(line: &str, word: &str) -> usize {
        let at = line.find(word).unwrap_or_else(|| panic!("no {word:?} in {line:?}"));
        line[..at].chars().count() + word.chars().count()
    }

    #[test]
    fn columns_line_up_within_the_width() {
        let mut results = fixture::demo();
        for run in results[0].runs.clone() {
            results[0].runs.extend(vec![run; 4]);
        }
        let table = table(&results);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{table}");
        assert!(lines.iter().all(|line| !line.ends_with(' ')));
        assert!(table.contains("812,345") && table.contains("×5 median"), "{table}");
        let row = lines.iter().find(|line| line.contains("812,345")).unwrap();
        for (title, figure) in [
            ("TPS", "812,345"),
            ("revm", "1.88"),
            ("per s", "17,059"),
            ("per tx", "2.41"),
            ("frames", "187"),
            ("p99", "18.3"),
        ] {
            assert_eq!(end(lines[1], title), end(row, figure), "{title}\n{table}");
        }
        let stages = lines.iter().position(|line| line.contains("schedule")).unwrap();
        for name in ["recover", "execute", "persist"] {
            let column = end(lines[stages], name);
            for line in &lines[stages + 1..stages + 3] {
                let c = line.chars().collect::<Vec<_>>();
                assert!(c[column - 1].is_ascii_digit() && c.get(column).is_none_or(|c| *c == ' '), "{table}");
            }
        }
    }

    #[test]
    fn no_detail_is_cut() {
        let mut results = fixture::demo();
        let long =
            "all 100 blocks: order, every result and log, gas, receipts root, state root; final balances by arithmetic";
        results.iter_mut().flat_map(|result| &mut result.runs).for_each(|run| run.integrity.detail = long.into());
        let whole = |table: &str| table.split_whitespace().collect::<Vec<_>>().join(" ");
        let alike = table(&results);
        assert_eq!(whole(&alike).matches(long).count(), 1, "{alike}");
        assert!(!alike.contains('…') || alike.matches('…').count() == 4, "only roots are short: {alike}");
        results[1].runs[0].integrity.detail = format!("{long} {long}");
        let table = table(&results);
        assert_eq!(whole(&table).matches(long).count(), 3, "{table}");
        assert!(table.contains("erc20 · dag · 2 threads: all 100"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
    }

    #[test]
    fn a_run_without_a_block_has_no_figures() {
        let mut results = fixture::demo();
        results.truncate(1);
        results[0].runs.truncate(1);
        results[0].tags.push("interrupted".into());
        let run = &mut results[0].runs[0];
        let throughput = run.throughput.as_mut().unwrap();
        (throughput.tps, throughput.succeeded) = (0.0, 0);
        run.integrity.state_root = format!("0x{}", "0".repeat(64));
        run.steady = Some(crate::steady::judge(&[], &[]));
        let table = table(&results);
        assert!(table.contains(NOTHING) && table.contains("(interrupted)"), "{table}");
        assert!(!table.contains("0x00") && !table.contains("0.00") && !table.contains("too few blocks"), "{table}");
    }

    #[test]
    fn tags_name_the_rows_that_they_are_about() {
        let mut results = fixture::demo();
        results[0].tags.push("not-steady".into());
        let steady = |steady, drift| Some(crate::result::Steady { steady, blocks: 20, drift, z: 4.0, tps: 1.0 });
        results[0].runs[0].steady = steady(None, 0.0);
        results[0].runs[1].steady = steady(Some(false), -0.2);
        let table = table(&results);
        assert!(table.contains("(not-steady: native · sequential · 1 thread)\n"), "{table}");
    }

    #[test]
    fn a_wrong_run_has_no_figures_but_says_what_differs() {
        let mut results = fixture::demo();
        fixture::spoil(&mut results[0].runs[0]);
        let table = table(&results);
        assert!(!table.contains("812,345"));
        let line = table.lines().find(|line| line.contains(DIFFERS)).unwrap();
        assert!(line.ends_with("mismatch"), "{line}");
        let oracle = table.lines().nth(1).unwrap().find("oracle").unwrap();
        let heads = table.lines().nth(1).unwrap();
        assert_eq!(line[..line.find("mismatch").unwrap()].chars().count(), heads[..oracle].chars().count());
        assert!(table.contains("block 3, transaction 41"), "{table}");
    }

    #[test]
    fn odd_input_stays_on_its_line() {
        assert_eq!(table(&[]), "No runs.\n");
        assert_eq!(table(&[fixture::bench("native", &[])]), "No runs.\n");
        let mut results = vec![fixture::bench("na\u{1b}[31mtive\n", &[("d\tag", 2, f64::NAN), ("b", 1, 1e300)])];
        results[0].runs[0].stages_ns_per_tx.merkle = f64::INFINITY;
        results[0].runs[0].cpu.us_core_per_tx = f64::NAN;
        results[0].runs[1].integrity.detail = "first\nsecond".into();
        let table = table(&results);
        assert!(!table.contains("NaN") && !table.contains("inf"), "{table}");
        assert!(table.chars().all(|c| c == '\n' || !c.is_control()), "{table}");
        assert_eq!(table.lines().count(), 4 + (2 + 3) + (2 + 3) + (2 + 2));
    }

    #[test]
    fn bottleneck_is_the_largest_share() {
        let stages = Stages { execute: 300.0, merkle: 100.0, seal: f64::NAN, persist: -5.0, ..Stages::default() };
        assert_eq!(bottleneck(&stages), ("execute", 0.75));
        assert_eq!(bottleneck(&Stages::default()), ("none", 0.0));
        assert_eq!(bottleneck(&Stages { frame: 1e308, merkle: 1e308, ..Stages::default() }), ("frame", 0.5));
    }
}
