//! Lines on the steadiness of a run, the balance of its workers, and their cores; and warnings. A verdict belongs to a row, and what
//! the text warns of is in the pictures too.

use super::{
    summary::{Pace, Row},
    text,
};
use crate::result::{BenchResult, Disturbance, INTERRUPTED, NOT_STEADY};

/// Warnings that belong into a picture of these rows.
pub(crate) fn warnings(rows: &[Row<'_>]) -> Vec<String> {
    let named = |what: &str, holds: &dyn Fn(&Row<'_>) -> bool| {
        let names: Vec<String> = rows.iter().filter(|row| !row.differs() && holds(row)).map(Row::name).collect();
        (!names.is_empty()).then(|| format!("{what}: {}", names.join("; ")))
    };
    let warnings = [
        named("INTERRUPTED, figures of the blocks that had run", &|row| row.interrupted),
        named("NOT STEADY, the rate drifts over the second half", &|row| matches!(row.pace(), Pace::Drifts(_))),
        named("Too few blocks, or too much noise, to tell whether the rate is steady", &|row| {
            row.pace() == Pace::Undecided
        }),
        named("DISTURBED by other work of the machine", &|row| row.disturbance().is_some()),
        named("MORE THREADS THAN CORES", &|row| row.threads > row.cores),
        named("NOT COMPARED with sequential revm", &|row| !matches!(row.oracle(), "match" | "sampled")),
    ];
    warnings.into_iter().flatten().collect()
}

/// Lines of tags, each with the rows that it is about.
pub(crate) fn tags(results: &[BenchResult], rows: &[Row<'_>]) -> String {
    let line = |(result, tag): (usize, &String)| {
        let drifts = |row: &&Row<'_>| row.result == result && matches!(row.pace(), Pace::Drifts(_));
        let names: Vec<String> = match tag.as_str() {
            NOT_STEADY => rows.iter().filter(drifts).map(Row::name).collect(),
            INTERRUPTED if results.len() > 1 => {
                rows.iter().find(|row| row.result == result).map(|row| row.workload.clone()).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let about = if names.is_empty() { String::new() } else { format!(": {}", names.join("; ")) };
        format!("\n({}{about})\n", text::line(tag, usize::MAX))
    };
    let tags = results.iter().enumerate().flat_map(|(at, result)| result.tags.iter().map(move |tag| (at, tag)));
    tags.map(line).collect()
}

/// Lines of the rows that have a verdict; `None` if no row has one.
pub(crate) fn lines(rows: &[Row<'_>]) -> Option<String> {
    let lines: String = rows.iter().filter(|row| !row.differs()).filter_map(line).collect();
    (!lines.is_empty()).then_some(lines)
}

fn line(row: &Row<'_>) -> Option<String> {
    let judged = || row.runs.iter().filter_map(|run| run.steady.as_ref());
    if judged().next().is_none() && row.disturbance().is_none() && row.threads <= row.cores {
        return None;
    }
    let half = judged().map(|steady| steady.tps).sum::<f64>() / judged().count() as f64;
    let steady = match row.pace() {
        Pace::Drifts(drift) => format!("NOT STEADY: the rate drifts by {:+.0} % over the second half", drift * 100.0),
        Pace::Undecided => "too few blocks, or too much noise, to tell whether it is steady".to_owned(),
        Pace::Unjudged if row.is_empty() => return None,
        Pace::Unjudged if judged().next().is_none() => "its steadiness was not judged".to_owned(),
        Pace::Unjudged => "interrupted, so that there is no second half to judge".to_owned(),
        Pace::Steady(drift) => {
            // Older results lack this figure.
            let half = if half > 0.0 { format!(", {} TPS in it", text::figure(half)) } else { String::new() };
            format!("steady ({:+.0} % over the second half{half})", drift * 100.0)
        }
    };
    let busy = row.runs.first().map(|run| run.balance.as_slice()).unwrap_or_default();
    let busy: Vec<String> = busy.iter().map(|worker| text::percent(worker.busy)).collect();
    let busy = match busy.len() {
        0 => String::new(),
        1..=8 => format!("; workers busy {}", busy.join(", ")),
        n => format!("; {n} workers busy {} to {}", least(row, f64::min), least(row, f64::max)),
    };
    let disturbed = row.disturbance().map_or_else(String::new, |of| format!("; DISTURBED: {}", disturbance(of)));
    let crowded =
        if row.threads > row.cores { format!("; MORE THREADS THAN CORES ({})", row.cores) } else { String::new() };
    let pinned = row.runs.first().map_or_else(String::new, |run| text::pinned(&run.pinned));
    Some(text::line(&format!("{}: {steady}{busy}{pinned}{disturbed}{crowded}", row.name()), usize::MAX) + "\n")
}

/// A disturbance in words.
pub(super) fn disturbance(of: Disturbance) -> String {
    let stolen =
        if of.stolen < 0.0005 { String::new() } else { format!(", {:.1} % of the time was stolen", of.stolen * 100.0) };
    format!("other work kept {:.1} cores busy{stolen}", of.other_cores)
}

/// Extreme share of a worker in the first run.
fn least(row: &Row<'_>, choose: fn(f64, f64) -> f64) -> String {
    let shares = row.runs.first().into_iter().flat_map(|run| run.balance.iter().map(|worker| worker.busy));
    text::percent(shares.reduce(choose).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::{super::fixture, *};
    use crate::{
        report::summary::rows,
        result::{Steady, WorkerShare},
    };

    #[test]
    fn the_worst_repetition_counts_and_no_verdict_is_no_line() {
        let mut bench = fixture::bench("native", &[("dag", 2, 100.0), ("dag", 2, 110.0)]);
        assert_eq!(lines(&rows(&[bench.clone()])), None);
        let judged = |steady, drift| Some(Steady { steady, blocks: 50, drift, z: 3.0, tps: 1_000.0 });
        bench.runs[0].steady = judged(Some(true), 0.012);
        bench.runs[0].balance =
            [0.934, 0.91].map(|busy| WorkerShare { worker: "w".into(), busy, cpu_seconds: 1.0 }).into();
        bench.runs[1].steady = judged(Some(true), -0.02);
        let text = lines(&rows(&[bench.clone()])).unwrap();
        assert_eq!(
            text,
            "native · dag · 2 threads: steady (-2 % over the second half, 1,000 TPS in it); workers busy 93 %, 91 %\n"
        );
        bench.runs[0].pinned = vec![0, 4];
        assert!(lines(&rows(&[bench.clone()])).unwrap().ends_with("; workers busy 93 %, 91 %; pinned to cores 0, 4\n"));
        bench.runs[1].steady = judged(Some(false), -0.2);
        assert!(lines(&rows(&[bench.clone()])).unwrap().contains("NOT STEADY: the rate drifts by -20 %"));
        bench.runs[1].steady = judged(None, 0.78);
        let undecided = lines(&rows(&[bench.clone()])).unwrap();
        assert!(undecided.contains("too few blocks, or") && !undecided.contains("78"), "{undecided}");
        bench.runs[1].steady = None;
        assert!(lines(&rows(&[bench.clone()])).unwrap().contains("too few blocks, or"), "one was not judged");
        bench.runs.truncate(1);
        bench.runs[0].steady = judged(None, 0.0);
        assert!(lines(&rows(&[bench])).unwrap().contains("too few blocks, or"));
    }
}
