//! Facts that the system tells about itself; any of them may be missing.

use super::{handover, woken};
use crate::machine::{disk_reads::RandomReads, host, memory, pin};
use std::{fs, io::Write as _, path::Path, sync::OnceLock, time::Instant};

/// The machine and the build, as far as they bear on a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Logical cores that this process may use.
    pub(super) cores: usize,
    /// Processor time that a control group allows, in cores.
    pub(super) quota: Option<f64>,
    /// NUMA nodes of these cores, each once, if the system tells.
    pub(super) nodes: Option<Vec<usize>>,
    pub(super) governor: Option<String>,
    /// True if two logical cores share a physical one.
    pub(super) smt: Option<bool>,
    /// True if the clock rate rises while few cores are busy.
    pub(super) boost: Option<bool>,
    pub(super) hypervisor: bool,
    /// Load average over a minute.
    pub(super) load: Option<f64>,
    /// Share of the time since boot that the hypervisor gave to other machines.
    pub(super) stolen: Option<f64>,
    /// Cores that two threads keep busy after they are woken together.
    pub(super) woken: Option<f64>,
    /// Round trip of a value between two cores, in nanoseconds.
    pub(super) handover: Option<f64>,
    pub(super) memory: u64,
    pub(super) available: u64,
    pub(super) swapped: u64,
    pub(super) thp: Option<String>,
    /// Write rate of new memory, and of the same memory again, in bytes per second.
    pub(super) written: Option<(f64, f64)>,
    /// Device and file system of the examined folder.
    pub(super) disk: Option<(String, String)>,
    /// Median and highest time of a durable write of 4 KiB there, in microseconds.
    pub(super) fsync: Option<(f64, f64)>,
    /// Random direct reads there, by reads in flight.
    pub(super) reads: Option<RandomReads>,
    /// The system's reason why there are no such reads; empty if there are.
    pub(super) unread: String,
    /// The system's reason why there is no durable write; empty if there is one.
    pub(super) unwritable: String,
    /// True if the processor has SHA-256 instructions; `None` if it does not tell.
    pub(super) sha: Option<bool>,
    /// Keccak lanes of the vector instructions; `None` on other architectures.
    pub(super) lanes: Option<usize>,
    pub(super) profile: String,
    pub(super) assertions: bool,
    /// True if experiments were made: woken threads, handover, memory, durable writes.
    pub(super) measured: bool,
}

/// Durable writes that are timed.
const WRITES: usize = 25;

impl Facts {
    /// Reads the facts and makes experiments; writes a temporary file in `dir`.
    pub(super) fn read(dir: &Path) -> Self {
        let (written, reads) = (fsync(dir), RandomReads::in_folder(dir));
        Self {
            woken: woken::cores(host::cores()),
            handover: handover::round_trip(),
            written: Some(memory::speed()),
            unwritable: written.as_ref().map_or_else(ToString::to_string, |_| String::new()),
            fsync: written.ok(),
            unread: reads.as_ref().map_or_else(ToString::to_string, |_| String::new()),
            reads: reads.ok(),
            measured: true,
            ..Self::told(Some(dir))
        }
    }

    /// Reads what the system tells; `dir` is the folder of the state, if on disk.
    pub(super) fn told(dir: Option<&Path>) -> Self {
        let flags = host::field("/proc/cpuinfo", "flags").or_else(|| host::field("/proc/cpuinfo", "Features"));
        let has =
            |wanted: &[&str]| flags.as_ref().map(|flags| flags.split_whitespace().any(|flag| wanted.contains(&flag)));
        let cpu = "/sys/devices/system/cpu";
        let switch = |path: &str, on: &str| host::line(path).map(|value| value == on);
        Self {
            cores: host::cores(),
            quota: host::line("/sys/fs/cgroup/cpu.max").and_then(|limits| quota(&limits)),
            nodes: nodes(),
            governor: host::line(&format!("{cpu}/cpu0/cpufreq/scaling_governor")),
            smt: switch(&format!("{cpu}/smt/active"), "1"),
            boost: switch(&format!("{cpu}/intel_pstate/no_turbo"), "0")
                .or_else(|| switch(&format!("{cpu}/cpufreq/boost"), "1")),
            hypervisor: has(&["hypervisor"]).unwrap_or(false),
            load: load(),
            stolen: host::line("/proc/stat").and_then(|text| stolen(&text)),
            memory: host::memory("MemTotal"),
            available: host::memory("MemAvailable"),
            swapped: host::memory("SwapTotal").saturating_sub(host::memory("SwapFree")),
            thp: host::host(None).thp,
            disk: dir.and_then(host::mount),
            sha: has(&["sha_ni", "sha2"]),
            lanes: has(&["avx512f"]).zip(has(&["avx2"])).filter(|_| cfg!(target_arch = "x86_64")).map(|lanes| {
                match lanes {
                    (true, _) => 8,
                    (_, true) => 4,
                    _ => 1,
                }
            }),
            profile: host::tool().profile,
            assertions: cfg!(debug_assertions),
            ..Self::default()
        }
    }
}

/// Load average over the minute before the first call: later it would hold the load of this process.
pub(super) fn load() -> Option<f64> {
    static BEFORE: OnceLock<Option<f64>> = OnceLock::new();
    let read = || host::line("/proc/loadavg")?.split_whitespace().next()?.parse().ok();
    *BEFORE.get_or_init(read)
}

/// NUMA nodes of the cores that this process may use, in order.
fn nodes() -> Option<Vec<usize>> {
    let mut nodes: Vec<usize> = pin::cores().ok()?.into_iter().map(|core| core.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    Some(nodes)
}

/// `150000 100000`, or `max 100000` for no limit: microseconds of processor time per microseconds.
fn quota(limits: &str) -> Option<f64> {
    let (time, period) = limits.split_once(' ')?;
    let (time, period) = (time.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (period > 0.0).then(|| time / period)
}

/// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
fn stolen(text: &str) -> Option<f64> {
    let words = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = words.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let total: f64 = ticks.iter().sum();
    ticks.get(7).filter(|_| total > 0.0).map(|steal| steal / total)
}

fn fsync(dir: &Path) -> std::io::Result<(f64, f64)> {
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let start = Instant::now();
        file.write_all(&[0x5a; 4096])?;
        file.as_file().sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[WRITES / 2], times[WRITES - 1]))
}

/// True if `dir` is a folder.
pub(super) fn is_dir(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|meta| meta.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_cores() {
        assert_eq!(quota("150000 100000"), Some(1.5));
        assert_eq!(quota("max 100000"), None);
        assert_eq!(quota("1 0"), None);
        assert_eq!(quota(""), None);
    }

    #[test]
    fn stolen_time_is_a_share() {
        assert_eq!(stolen("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1"), Some(0.1));
        assert_eq!(stolen("cpu  0 0 0 0 0 0 0 0"), None);
        assert_eq!(stolen("cpu  1 2 3"), None);
        assert_eq!(stolen("intr 5"), None);
    }

    #[test]
    fn a_folder_is_written_to_and_left_empty() {
        let dir = tempfile::tempdir().expect("a folder");
        let (median, most) = fsync(dir.path()).expect("times");
        assert!(0.0 < median && median <= most);
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
        assert!(fsync(&dir.path().join("none")).is_err());
    }
}
