//! The figures of every row, as tables.

use super::tag::{section, tag};
use crate::report::{
    summary::{Row, amount},
    table::{DIFFERS, NOTHING, bottleneck},
    text::{self, escape},
};

/// Throughput and cost.
pub(super) fn table(rows: &[Row<'_>]) -> String {
    let heads = [
        "TPS",
        "× sequential revm",
        "µs·core / tx",
        "Mgas/s",
        "p50 ms",
        "p99 ms",
        "TLP frames",
        "TLP DAG",
        "disk MB/s",
        "peak memory",
    ];
    let body = rows.iter().map(|row| {
        let verdict = tag("td", row.oracle());
        if row.differs() {
            let span = heads.len();
            return format!(
                "<tr class=\"wrong\">{}<td colspan=\"{span}\">{}</td>{verdict}</tr>\n",
                identity(row),
                escape(DIFFERS)
            );
        }
        if row.is_empty() {
            let span = heads.len();
            return format!("<tr>{}<td colspan=\"{span}\">{}</td>{verdict}</tr>\n", identity(row), escape(NOTHING));
        }
        let latency = row.latency();
        let disk = |run: &crate::result::Run| {
            let seconds = run.throughput.as_ref().map_or(0.0, |t| t.seconds);
            run.resources.disk_written_bytes as f64 / 1e6 / seconds
        };
        let figures = [
            row.tps().map_or_else(|| text::NONE.to_owned(), text::count),
            text::optional(row.speed_up(rows)),
            text::figure(row.us_core()),
            row.throughput(|t| t.gas_per_s / 1e6).map_or_else(|| text::NONE.to_owned(), text::count),
            text::figure(latency.p50),
            text::figure(latency.p99),
            text::optional(row.tlp_frames()),
            text::optional(row.tlp_dag()),
            text::figure(row.median(disk)),
            text::bytes(amount(row.median(|run| run.resources.rss_peak_bytes as f64)) as u64),
        ];
        let cells: String = figures.iter().map(|figure| number(figure)).collect();
        format!("<tr>{}{cells}{verdict}</tr>\n", identity(row))
    });
    let heads: String = heads.iter().map(|head| format!("<th class=\"n\">{}</th>", escape(head))).collect();
    section("Results", &grid(&format!("{heads}<th>oracle</th>"), &body.collect::<String>()))
}

/// Parallelism, resources and integrity.
pub(super) fn inside(rows: &[Row<'_>]) -> String {
    let heads = ["reverted", "invalid", "escapes", "re-executions", "replayed calls", "fallback blocks"];
    let body = rows.iter().map(|row| {
        let count = |value: Option<f64>| number(&value.map_or_else(|| text::NONE.to_owned(), text::count));
        let parallelism = |pick: fn(&crate::result::Parallelism) -> u64| count(Some(row.median(|run| pick(&run.parallelism) as f64)));
        let most = match bottleneck(&row.stages()) {
            _ if row.differs() => text::NONE.to_owned(),
            (_, 0.0) => text::NONE.to_owned(),
            (stage, share) => format!("{stage} {}", text::percent(share)),
        };
        let roots: String = row.roots().into_iter().map(|root| tag("code", root)).collect::<Vec<_>>().join(" ");
        format!(
            "<tr{class}>{identity}{most}{reverted}{invalid}{escapes}{again}{replayed}{fallback}<td>{roots}<p class=\"fine\">{detail}</p></td></tr>\n",
            class = if row.differs() { " class=\"wrong\"" } else { "" },
            identity = identity(row),
            most = tag("td", &most),
            reverted = count(row.throughput(|t| t.reverted as f64)),
            invalid = count(row.throughput(|t| t.invalid as f64)),
            escapes = parallelism(|p| p.escapes),
            again = parallelism(|p| p.reexecutions),
            replayed = parallelism(|p| p.replayed),
            fallback = parallelism(|p| p.fallback_blocks),
            detail = escape(row.detail()),
        )
    });
    let heads: String = heads.iter().map(|head| format!("<th class=\"n\">{head}</th>")).collect();
    let heads = format!("<th>most time in</th>{heads}<th>state root after the last block; scope of the oracle</th>");
    section("What happened inside", &grid(&heads, &body.collect::<String>()))
}

fn grid(heads: &str, body: &str) -> String {
    let first = "<th>workload</th><th>executor</th><th class=\"n\">threads</th>";
    format!(
        "<div class=\"scroll\"><table class=\"grid\">\n<thead>\n<tr>{first}{heads}</tr>\n</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

fn identity(row: &Row<'_>) -> String {
    let repeats = if row.runs.len() > 1 { format!(" <small>{}</small>", row.repeats()) } else { String::new() };
    format!(
        "{}<td>{}{repeats}</td>{}",
        tag("td", &row.workload),
        escape(row.executor),
        number(&row.threads.to_string())
    )
}

fn number(text: &str) -> String {
    format!("<td class=\"n\">{}</td>", escape(text))
}
