//! The result of `bench store` as a table for people.

use super::output::{Reads, StoreRun};
use crate::report::text::{bytes, count, counted, figure, percent, short_root};
use core::fmt::Write as _;

/// Width of the left column, in characters.
const WIDTH: usize = 34;

/// Lines of a name and a figure with its unit.
pub(super) fn table(run: &StoreRun) -> String {
    let mut text = String::new();
    let what = match run.work.as_str() {
        "create" => "keys created",
        "delete" => "keys deleted",
        _ => "updates",
    };
    _ = writeln!(
        text,
        "{} and {} {what} per block: {} after {} to warm up",
        counted(run.keys, "key"),
        count(run.updates_per_block as f64),
        counted(run.blocks, "block"),
        count(run.warmup_blocks as f64),
    );
    _ = writeln!(
        text,
        "hash {}, durability {}, memory {}, keys drawn {}, seed {}, {} of history, {}\n",
        run.hasher,
        run.durability,
        run.memory,
        run.skew,
        run.seed,
        counted(run.history, "block"),
        counted(run.threads, "thread"),
    );
    let ms = &run.block_ms;
    let mut lines = vec![
        ("Updates per second", count(run.updates_per_s)),
        ("Processor time per update, µs·core", figure(run.us_core_per_update)),
        ("Block p50, p99, maximum, ms", [ms.p50, ms.p99, ms.max].map(figure).join(", ")),
        ("Written per update", bytes(run.written_bytes_per_update.round() as u64)),
        ("Written, MB/s", figure(run.written_mb_per_s)),
        ("Growth of the store per update", bytes(run.disk_bytes_per_update.round() as u64)),
        ("Records moved per update", figure(run.moves_per_update)),
        ("Memory per key, without history", bytes(run.state_bytes_per_key.round() as u64)),
        ("Highest memory of the process", bytes(run.rss_peak_bytes)),
        ("  of it the benchmark's own", bytes(run.bench_bytes as u64)),
    ];
    lines.extend(run.compaction_rewrite_bytes.map(|size| ("Written again by compaction", bytes(size))));
    lines.extend(run.cache_hit_rate.map(|share| ("Reads that the cache answered", percent(share))));
    lines.extend(run.reads.iter().flat_map(reads));
    lines.push(("Closing, s", figure(run.close_s)));
    let from = run.reopen_from_height.map_or_else(String::new, |height| format!(" from block {height}"));
    lines.extend(run.reopen_s.map(|seconds| ("Opening again, s", figure(seconds) + &from)));
    lines.push(("State root", short_root(&run.state_root)));
    lines.iter().for_each(|(name, value)| _ = writeln!(text, "{name:WIDTH$}  {value}"));
    text
}

/// Lines on reads from disk.
fn reads(reads: &Reads) -> [(&'static str, String); 5] {
    let of_disk =
        reads.share_of_disk.map_or_else(String::new, |share| format!(", {} of the disk's own", percent(share)));
    [
        ("Reads from disk per second", count(reads.per_s) + &of_disk),
        ("Reads per update", figure(reads.per_update)),
        ("Bytes per read", bytes(reads.bytes_per_read.round() as u64)),
        ("Reads in flight", figure(reads.depth)),
        ("Way to read", if reads.on_rings { "io_uring" } else { "threads" }.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use crate::{
        bench::store::{StoreBench, run},
        config::parse,
        ui::Ui,
    };

    fn shown(flags: &str) -> String {
        let config: StoreBench = parse(flags.split(' ').map(Into::into)).unwrap();
        run(&config, &Ui::silent()).unwrap().text
    }

    #[test]
    fn figures_have_units_and_what_was_not_measured_has_no_line() {
        let resident = shown("--keys 300 --updates 30 --blocks 2 --warmup 1 --threads 1 --store mem");
        for part in ["300 keys and 30 updates per block: 2 blocks after 1", "µs·core", "p99, maximum, ms", "State root"]
        {
            assert!(resident.contains(part), "{part}: {resident}");
        }
        assert!(!resident.contains("Opening again") && !resident.contains("Reads from disk"), "{resident}");
        assert!(!resident.contains('{'), "no JSON: {resident}");
        assert!(resident.contains("durability none"), "memory survives nothing: {resident}");
        // Not in a temporary place of the program: tests that end it remove those of all others.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state");
        let flags = "--keys 300 --updates 30 --blocks 2 --warmup 1 --threads 1 --memory cached:0";
        let cached = shown(&format!("{flags} --store file:{}", file.display()));
        assert!(cached.contains("Opening again") && cached.contains("Reads that the cache answered"), "{cached}");
    }
}
