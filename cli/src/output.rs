//! Where results go: files, stdout, a table.

use crate::{report, result::BenchResult};
use anyhow::Context as _;
use serde::Serialize;
use std::{fs, io::Write as _, path::Path};

/// Writes `value` to a file, or to stdout for `-`.
pub(crate) fn json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    if path == Path::new("-") {
        return print(&text);
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Prints to stdout. A reader that has gone away is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing to stdout"),
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The command as it was given, quoted where a shell would need it.
pub(crate) fn command() -> String {
    let arguments = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("phalanx".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Shows results as asked: JSON alone on stdout, or a table there and files beside it.
pub(crate) fn show(
    results: &[BenchResult],
    json_path: Option<&Path>,
    value: &impl Serialize,
    csv_path: Option<&Path>,
    report_dir: Option<&Path>,
) -> anyhow::Result<()> {
    // Stdout first: a file that cannot be written must not cost the result of a long run.
    let stdout = Path::new("-");
    if json_path == Some(stdout) {
        json(stdout, value)?;
    } else {
        let mut text = report::table(results);
        for tag in results.iter().flat_map(|result| &result.tags) {
            text.push_str(&format!("\n({tag})\n"));
        }
        print(&text)?;
    }
    let file = json_path.filter(|path| *path != stdout).map_or(Ok(()), |path| json(path, value));
    let rows = csv_path
        .map_or(Ok(()), |path| fs::write(path, csv(results)).with_context(|| format!("writing {}", path.display())));
    let page = report_dir.map_or(Ok(Vec::new()), |dir| {
        report::write(dir, results).with_context(|| format!("writing the report to {}", dir.display()))
    });
    if let (Ok(page), false) = (&page, json_path == Some(stdout))
        && let Some(index) = page.first()
    {
        print(&format!("\nReport: {}\n", index.display()))?;
    }
    file.and(rows).and(page.map(|_| ()))
}

/// A row per run.
fn csv(results: &[BenchResult]) -> String {
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
