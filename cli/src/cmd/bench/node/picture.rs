//! Plots of `bench node`: how long transactions took, and what the node's threads cost.

use super::{run::Ran, ways::Named, written::percentile};
use crate::output;
use phalanx_lab::{
    doctor,
    report::{
        Gallery,
        svg::{Bar, Line, Picture, Segment, lines, stacked},
        text,
    },
};
use std::{path::Path, time::Duration};

/// Work of the node's threads, by the beginning of their names in the system. What has no line is the rest.
const THREADS: [(&str, &str); 8] = [
    ("phalanx-rpc", "sockets"),
    ("phalanx-admit", "admission"),
    ("phalanx-service", "engine"),
    ("phalanx-worker", "workers"),
    ("phalanx-produce", "producer"),
    ("phalanx-persist", "state log"),
    ("phalanx-sink", "block store"),
    ("phalanx-index", "index of blocks"),
];

/// Writes a page with the table and the pictures into a folder, if there is one, and says where unless it is quiet.
pub(super) fn write(dir: Option<&Path>, table: &str, runs: &[Named], quiet: bool) -> anyhow::Result<()> {
    let Some(dir) = dir else { return Ok(()) };
    let gallery = Gallery {
        title: "From signed bytes to durable blocks",
        claim: None,
        doubts: doctor::spoils(),
        table,
        pictures: pictures(runs),
        rows: None,
        command: &output::command(),
    };
    output::gallery(dir, &gallery, quiet)
}

/// Names of files, without extension, and their pictures.
fn pictures(runs: &[Named]) -> Vec<(String, Picture)> {
    let in_block = runs.iter().map(|(name, _, ran)| (*name, &ran.latencies[..]));
    let receipts = runs.iter().map(|(name, _, ran)| (*name, &ran.receipts[..]));
    let mut pictures = vec![
        ("latency".into(), latency("Time until a transaction is read in a visible block", in_block)),
        ("processor".into(), processor(runs)),
    ];
    if runs.iter().any(|(.., ran)| !ran.receipts.is_empty()) {
        pictures.insert(1, ("receipts".into(), latency("Time until a receipt is the answer", receipts)));
    }
    pictures
}

/// Times by percentile, a line per run. The times are sorted.
fn latency<'a>(title: &str, runs: impl Iterator<Item = (&'a str, &'a [Duration])>) -> Picture {
    let (mut groups, mut drawn) = (Vec::new(), Vec::new());
    for (name, times) in runs.filter(|(_, times)| !times.is_empty()) {
        let ms = |percent: usize| percentile(times, percent).as_secs_f64() * 1e3;
        let points = (1..100).map(|percent| (percent as f64, ms(percent))).collect();
        drawn.push(Line { label: name.into(), group: groups.len(), points });
        groups.push(format!("{name}: median {}, p99 {} ms", text::figure(ms(50)), text::figure(ms(99))));
    }
    lines(title, "milliseconds", "percentile", &groups, &drawn)
}

/// Processor time of the node per transaction, by threads. A node that gives receipts mostly rests: its time is that of empty blocks.
fn processor(runs: &[Named]) -> Picture {
    let bar = |(name, _, ran): &Named| {
        let segments = segments(ran);
        let total: f64 = segments.iter().map(|segment| segment.value).sum();
        Bar { label: (*name).into(), total: format!("{} µs", text::figure(total)), segments }
    };
    let bars: Vec<Bar> = runs.iter().filter(|(.., ran)| ran.receipts.is_empty()).map(bar).collect();
    let subtitle = "of the node's process alone, by threads; shorter is better";
    stacked("Processor time per transaction", subtitle, "µs·core per transaction", &bars)
}

fn segments(ran: &Ran) -> Vec<Segment> {
    let us = |seconds: f64| seconds / ran.latencies.len().max(1) as f64 * 1e6;
    let mut rest = ran.used.cpu;
    let mut segments = Vec::with_capacity(THREADS.len() + 1);
    for (colour, (thread, name)) in THREADS.into_iter().enumerate() {
        let own = ran.used.threads.iter().filter(|(other, _)| other.starts_with(thread));
        let seconds: f64 = own.map(|(_, seconds)| seconds).sum();
        rest -= seconds;
        segments.push(Segment { name, value: us(seconds), colour });
    }
    segments.push(Segment { name: "other", value: us(rest.max(0.0)), colour: THREADS.len() });
    segments
}

#[cfg(test)]
mod tests {
    use super::{super::served::Used, *};
    use phalanx_lab::report::svg::Origin;

    fn ran(receipts: Vec<Duration>) -> Ran {
        let threads = [("phalanx-rpc", 0.003), ("phalanx-worker", 0.002), ("phx-before", 0.0005)];
        let threads = threads.map(|(name, seconds)| (name.to_owned(), seconds)).to_vec();
        let used = Used { cpu: 0.006, threads, ..Used::default() };
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let took = Duration::from_secs(1);
        let (clients, answers, reads) = (took, Vec::new(), Vec::new());
        Ran { took, latencies, blocks: 2, admitted: 9.0, clients, resent: 0, answers, receipts, reads, used }
    }

    #[test]
    fn every_run_is_in_every_picture_that_it_has_figures_for() {
        let runs =
            [("binary frames", 100, ran(Vec::new())), ("receipts, idle", 1, ran(vec![Duration::from_millis(5)]))];
        let pictures = pictures(&runs);
        let drawn = |name: &str| {
            let (_, picture) = pictures.iter().find(|(other, _)| other == name).expect("a picture");
            picture.standalone(&Origin::here("phalanx bench node"))
        };
        assert_eq!(
            pictures.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(),
            ["latency", "receipts", "processor"]
        );
        let latency = drawn("latency");
        assert!(latency.contains("binary frames: median 50.0, p99 99.0 ms"), "{latency}");
        let receipts = drawn("receipts");
        assert!(receipts.contains("receipts, idle: median 5.00") && !receipts.contains("frames"), "{receipts}");
        let processor = drawn("processor");
        assert!(!processor.contains("receipts, idle"), "{processor}");
        for part in ["sockets: 30.0", "workers: 20.0", "other: 10.0", "60.0 µs"] {
            assert!(processor.contains(part), "{part}: {processor}");
        }
        assert!(self::pictures(&runs[..1]).iter().all(|(name, _)| name != "receipts"));
    }
}
