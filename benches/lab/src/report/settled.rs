//! Lines on the steadiness of a run, the balance of its workers, and their cores.

use super::{summary::Row, text};

/// Lines of the rows that have a verdict; `None` if no row has one.
pub(crate) fn lines(rows: &[Row<'_>]) -> Option<String> {
    let lines: String = rows.iter().filter(|row| !row.differs()).filter_map(line).collect();
    (!lines.is_empty()).then_some(lines)
}

fn line(row: &Row<'_>) -> Option<String> {
    let judged = || row.runs.iter().filter_map(|run| run.steady.as_ref());
    let worst = judged().max_by(|a, b| a.drift.abs().total_cmp(&b.drift.abs()))?;
    let half = judged().map(|steady| steady.tps).sum::<f64>() / judged().count() as f64;
    let steady = if judged().any(|steady| steady.steady == Some(false)) {
        format!("NOT STEADY: the rate drifts by {:+.0} % over the second half", worst.drift * 100.0)
    } else if judged().all(|steady| steady.steady.is_none()) {
        "too few blocks, or too much noise, to tell whether it is steady".to_owned()
    } else {
        // Older results lack this figure.
        let half = if half > 0.0 { format!(", {} TPS in it", text::figure(half)) } else { String::new() };
        format!("steady ({:+.0} % over the second half{half})", worst.drift * 100.0)
    };
    let busy = row.runs.first().map(|run| run.balance.as_slice()).unwrap_or_default();
    let busy: Vec<String> = busy.iter().map(|worker| text::percent(worker.busy)).collect();
    let busy = match busy.len() {
        0 => String::new(),
        1..=8 => format!("; workers busy {}", busy.join(", ")),
        n => format!("; {n} workers busy {} to {}", least(row, f64::min), least(row, f64::max)),
    };
    let pinned = row.runs.first().map_or_else(String::new, |run| text::pinned(&run.pinned));
    Some(text::line(&format!("{}: {steady}{busy}{pinned}", row.name()), 160) + "\n")
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
        bench.runs.truncate(1);
        bench.runs[0].steady = judged(None, 0.0);
        assert!(lines(&rows(&[bench])).unwrap().contains("too few blocks, or"));
    }
}
