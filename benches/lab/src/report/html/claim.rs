//! Claims: a result in a sentence, or the reason why it claims nothing.

use super::{context, tag::tag};
use crate::{
    report::{
        settled,
        summary::{BUILD, Pace, Row, SEQUENTIAL},
        table::{DIFFERS, bottleneck},
        text::{self, escape},
    },
    result::{BenchResult, INTERRUPTED, NOT_STEADY, Verdict},
};

/// Begin of the names of a builder's validators.
const GIVEN: &str = "given-";

/// Boxes, one per result: a claim, or a red box with the difference.
pub(super) fn claims(results: &[BenchResult], names: &[String], rows: &[Row<'_>]) -> String {
    if results.is_empty() {
        return card("caution", "Nothing was measured: there are no results.", &[]);
    }
    let boxes = results.iter().zip(names).enumerate().map(|(index, (result, name))| {
        let rows: Vec<&Row<'_>> = rows.iter().filter(|row| row.result == index).collect();
        if rows.iter().any(|row| row.differs()) { refusal(name, &rows) } else { claim(result, name, &rows) }
    });
    format!("<div class=\"claims\">\n{}</div>\n", boxes.collect::<String>())
}

/// Box of a wrong result, without a figure.
fn refusal(name: &str, rows: &[&Row<'_>]) -> String {
    let lines = rows.iter().filter(|row| row.differs()).map(|row| {
        let found = if row.detail().is_empty() { "the place is not recorded" } else { row.detail() };
        format!("{}: {}. State root {}.", row.name(), found.trim_end_matches('.'), row.roots().join(" and "))
    });
    let mut lines: Vec<String> = lines.collect();
    lines.push(
        "A fast wrong answer is not a measurement, so no throughput is claimed. Please report this as a bug.".into(),
    );
    card("wrong", &format!("{name}: {}", DIFFERS.trim_matches(['—', ' ', '(', ')'])), &lines)
}

/// Box with the builder or the best parallel run in a sentence, and every reason to doubt it.
fn claim(result: &BenchResult, name: &str, rows: &[&Row<'_>]) -> String {
    let is_parallel = |row: &&&Row<'_>| row.executor != SEQUENTIAL;
    let builder = rows.iter().find(|row| row.executor == BUILD);
    let parallel = builder.or_else(|| rows.iter().filter(is_parallel).max_by(by_tps));
    let Some((best, tps)) =
        parallel.or_else(|| rows.iter().max_by(by_tps)).and_then(|row| row.tps().map(|tps| (*row, tps)))
    else {
        return card("caution", &format!("{name}: nothing was measured."), &doubts(result, None, rows));
    };
    if best.is_empty() {
        return card("caution", &format!("{name}: interrupted before the first block."), &[]);
    }
    let doubts = doubts(result, Some(best), rows);
    let sentence = format!(
        "transactions per second {}on {}, {} µs·core each, {}",
        if builder.is_some() { "built into blocks " } else { "" },
        text::threads(best.threads),
        text::figure(best.us_core()),
        equality(best.oracle()),
    );
    let mut lines = doubts.clone();
    lines.extend(rows.iter().filter(|row| !core::ptr::eq(**row, best)).filter_map(|row| remark(row)));
    let headline = if result.scope.access_source == "oracle" {
        lines.push(format!("{} {sentence}", text::count(tps)));
        format!("{}: access sets were handed in, which makes no headline", escape(name))
    } else {
        format!("{}: <b>{}</b> {}", escape(name), escape(&text::count(tps)), escape(&sentence))
    };
    lines.push(beside(result, best, rows));
    lines.extend(builder.and_then(|builder| validated(builder, rows)));
    raw_card(if doubts.is_empty() { "good" } else { "caution" }, &headline, &lines)
}

fn by_tps(a: &&&Row<'_>, b: &&&Row<'_>) -> core::cmp::Ordering {
    a.tps().unwrap_or(0.0).total_cmp(&b.tps().unwrap_or(0.0))
}

/// Line on the fastest validator of the blocks of `builder`.
fn validated(builder: &Row<'_>, rows: &[&Row<'_>]) -> Option<String> {
    let of_the_blocks = |row: &&&Row<'_>| row.blocks == builder.blocks && row.executor.starts_with(GIVEN);
    let best = rows.iter().filter(of_the_blocks).max_by(by_tps)?;
    let ratio = speed_up(best, rows).map_or_else(String::new, |ratio| format!(", {ratio}"));
    let (tps, threads) = (text::count(best.tps()?), text::threads(best.threads));
    Some(format!(
        "The same blocks are validated at {tps} transactions per second on {threads} ({}){ratio}.",
        best.executor
    ))
}

/// `row` beside the sequential executor, in words.
fn speed_up(row: &Row<'_>, rows: &[&Row<'_>]) -> Option<String> {
    let all: Vec<Row<'_>> = rows.iter().map(|row| (*row).clone()).collect();
    let ratio = row.speed_up(&all).filter(|_| row.executor != SEQUENTIAL)?;
    Some(format!("{}× the sequential executor on the same blocks", text::figure(ratio)))
}

/// Box with a claim, the reasons to doubt it, and last what speaks for it.
pub(super) fn sentence(what: &str, doubts: &[&String], sure: &str) -> String {
    let lines: Vec<String> = doubts.iter().map(|doubt| (*doubt).clone()).chain([sure.to_owned()]).collect();
    let kind = if doubts.is_empty() { "good" } else { "caution" };
    format!("<div class=\"claims\">\n{}</div>\n", card(kind, what, &lines))
}

fn equality(oracle: &str) -> &'static str {
    match oracle {
        "match" => "every result equal to sequential revm",
        "sampled" => "every result in the sampled blocks equal to sequential revm",
        _ => "results not compared with sequential revm",
    }
}

/// Reasons not to quote the figure as it stands.
fn doubts(result: &BenchResult, best: Option<&Row<'_>>, rows: &[&Row<'_>]) -> Vec<String> {
    let mut doubts = Vec::new();
    if result.scope.access_source == "oracle" {
        doubts.push("The generator handed in the access sets; a real chain has to predict them.".into());
    }
    if best.is_some_and(|row| !matches!(row.oracle(), "match" | "sampled")) {
        doubts.push("The results are not checked: run it with --oracle full or sampled.".into());
    }
    match best.map_or(Pace::Unjudged, Row::pace) {
        Pace::Drifts(drift) => doubts.push(format!(
            "Its rate still drifted by {:+.0} % over the second half: let it run longer, or on a quieter machine.",
            drift * 100.0
        )),
        Pace::Undecided => {
            doubts.push(
                "Too few blocks, or too much noise, to tell whether its rate is steady: let it run longer.".into(),
            );
        }
        Pace::Unjudged | Pace::Steady(_) => {}
    }
    if let Some(of) = best.and_then(Row::disturbance) {
        doubts.push(format!("The machine did other work beside it: {}.", settled::disturbance(of)));
    }
    if let Some(row) = best.filter(|row| row.threads > row.cores) {
        doubts.push(format!("It had {} on {} cores.", text::threads(row.threads), row.cores));
    }
    let spoils = result.host.findings.iter().filter(|finding| finding.verdict == Verdict::Spoils);
    doubts.extend(spoils.map(|finding| {
        let (check, found) = context::remark(finding);
        format!("The machine was unfit before it: {check} {found}.")
    }));
    let judged = result.runs.iter().any(|run| run.steady.is_some());
    if !result.is_interrupted() && diverged(rows) {
        doubts.push("Runs of the same blocks ended in different states.".into());
    }
    for tag in &result.tags {
        doubts.push(match tag.as_str() {
            INTERRUPTED => "It was interrupted: the figures cover only the blocks that had run.".into(),
            // The verdict belongs to a run, and the runs have been asked.
            NOT_STEADY if judged => continue,
            other => format!("Tagged: {other}."),
        });
    }
    if !matches!(result.tool.profile.as_str(), "release" | "bench" | "profiling") {
        doubts.push(format!("The program was built with the profile {:?}, not for speed.", result.tool.profile));
    }
    doubts
}

/// True if two runs of one list of blocks ended in different states.
fn diverged(rows: &[&Row<'_>]) -> bool {
    rows.iter().any(|row| row.diverged() || rows.iter().any(|of| of.blocks == row.blocks && of.roots() != row.roots()))
}

/// Remark on a run beside the best: it does not touch the headline, but the ratio to it.
fn remark(row: &Row<'_>) -> Option<String> {
    if let Pace::Drifts(drift) = row.pace() {
        return Some(format!("The rate of {} drifted by {:+.0} %: a ratio to it is rough.", row.name(), drift * 100.0));
    }
    let disturbed = settled::disturbance(row.disturbance()?);
    Some(format!("The machine did other work beside {}, and a ratio to it is rough: {disturbed}.", row.name()))
}

/// Figures that belong beside a throughput: the settings that change it most, the sequential executor's figure, spread,
/// latency, and the busiest stage.
fn beside(result: &BenchResult, best: &Row<'_>, rows: &[&Row<'_>]) -> String {
    let mut parts = Vec::new();
    // A builder also recovers and chooses, which no validator does.
    parts.extend(speed_up(best, rows).filter(|_| best.executor != BUILD));
    parts.push(format!("executor {}", best.executor));
    if !result.scope.signatures {
        parts.push("signatures not inside".to_owned());
    }
    parts.push(format!("durability {}", result.scope.durability));
    if let Some((slowest, fastest)) = best.spread() {
        parts.push(format!("{} of {} to {}", best.repeats(), text::count(slowest), text::count(fastest)));
    }
    let latency = best.latency();
    parts.push(format!(
        "half of the blocks within {} ms, 99 % within {} ms",
        text::figure(latency.p50),
        text::figure(latency.p99)
    ));
    let (stage, share) = bottleneck(&best.stages());
    if share > 0.0 {
        parts.push(format!("most of the time in {stage} ({})", text::percent(share)));
    }
    parts.join(" · ")
}

fn card(kind: &str, sentence: &str, lines: &[String]) -> String {
    raw_card(kind, &escape(sentence), lines)
}

/// `sentence` is HTML.
fn raw_card(kind: &str, sentence: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| tag("p", line) + "\n").collect();
    format!("<div class=\"claim {kind}\">\n<h2>{sentence}</h2>\n{lines}</div>\n")
}
