//! Results as plain text for a terminal of 100 columns.

use super::{
    summary::{Row, amount, rows},
    text,
};
use crate::{
    quality,
    result::{BenchResult, Building, Stages},
};
use std::collections::BTreeSet;

/// Text in place of the throughput of wrong results.
pub(crate) const DIFFERS: &str = "— (results differ from the oracle)";

/// Columns of the text, unless names are unusually long.
const WIDTH: usize = 100;
/// Width from which a last column counts as prose, which does not narrow the gaps between the others.
const PROSE: usize = 24;

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
    if let Some(lines) = super::settled::lines(&rows) {
        out.push('\n');
        out.push_str(&lines);
    }
    let touched: BTreeSet<u64> = results.iter().map(|result| result.scope.touched_gib).collect();
    out.push_str(&text::touched(touched));
    for lines in results.iter().filter_map(building) {
        out.push('\n');
        out.push_str(&lines);
    }
    out
}

/// CSV of results, a row per run.
pub fn csv(results: &[BenchResult]) -> String {
    let mut text = "workload,executor,threads,tps,us_core_per_tx,p50_ms,p99_ms,tlp_frames,tlp_dag,escapes,\
                    recover_ns,analyse_ns,frame_ns,schedule_ns,execute_ns,seal_ns,merkle_ns,persist_ns,\
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
    let mut above = vec![blank(if repeated { 5 } else { 4 })];
    above.extend([over("µs·core", 1), over("block ms", 2), over("TLP", 2), blank(1)]);
    let mut head = identity_head();
    if repeated {
        head.push(blank(1));
    }
    head.extend(["TPS", "per tx", "p50", "p99", "frames", "DAG"].map(|title| over(title, 1)));
    head.push(Cell::left("oracle".into()));
    let lines = rows.iter().map(|row| {
        let mut line = identity(row);
        if repeated {
            line.push(Cell::left(row.repeats()));
        }
        if row.differs() {
            line.push(Cell { text: DIFFERS.to_owned(), span: 6, right: false });
        } else {
            let latency = row.latency();
            line.extend(
                [
                    row.tps().map_or_else(|| text::NONE.to_owned(), text::count),
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
        if row.differs() {
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
    head.extend(["most time in", "state root", "compared with sequential revm"].map(|title| Cell::left(title.into())));
    let lines = rows.iter().map(|row| {
        let mut line = identity(row);
        let most = bottleneck(&row.stages());
        line.push(Cell::left(match most {
            _ if row.differs() => text::NONE.to_owned(),
            (stage, share) => format!("{stage} {}", text::percent(share)),
        }));
        let roots = row.roots();
        line.push(Cell::left(text::short_root(roots.first().copied().unwrap_or(text::NONE))));
        let verdict = match row.detail() {
            detail if row.diverged() => format!("{} different roots! {detail}", roots.len()),
            "" => row.oracle().to_owned(),
            detail => detail.to_owned(),
        };
        line.push(Cell::left(verdict));
        line
    });
    let lines = std::iter::once(head).chain(lines).collect::<Vec<_>>();
    // A difference is worth a long line; other details are cut to the width.
    let cut = |line: &str, row: Option<&Row<'_>>| match row {
        Some(row) if row.differs() || row.diverged() => text::line(line, usize::MAX),
        _ => text::line(line, WIDTH),
    };
    let rows = std::iter::once(None).chain(rows.iter().map(Some));
    grid(&lines).lines().zip(rows).map(|(line, row)| cut(line, row) + "\n").collect()
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
    // A long last column is prose: it may run over the edge without squeezing the figures.
    let figures: usize = widths.iter().rev().skip(1).sum();
    let last = widths.last().map_or(0, |width| *width.min(&PROSE));
    let gap = if figures + last + 2 * widths.len().saturating_sub(1) <= WIDTH { 2 } else { 1 };
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
        for (title, figure) in [("TPS", "812,345"), ("per tx", "2.41"), ("frames", "187"), ("p99", "18.3")] {
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
        assert_eq!(table.lines().count(), 4 + 2 + 3 + 2 + 3);
    }

    #[test]
    fn bottleneck_is_the_largest_share() {
        let stages = Stages { execute: 300.0, merkle: 100.0, seal: f64::NAN, persist: -5.0, ..Stages::default() };
        assert_eq!(bottleneck(&stages), ("execute", 0.75));
        assert_eq!(bottleneck(&Stages::default()), ("none", 0.0));
        assert_eq!(bottleneck(&Stages { frame: 1e308, merkle: 1e308, ..Stages::default() }), ("frame", 0.5));
    }
}
