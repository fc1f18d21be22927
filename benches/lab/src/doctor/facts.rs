//! What the system says of itself, all of which may be missing.

use super::{handover, woken};
use crate::machine::{host, memory, pin};
use std::{fs, io::Write as _, path::Path, time::Instant};

/// The machine and the build, as far as they bear on a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Logical cores that this process may use.
    pub(super) cores: usize,
    /// Cores' worth of time that a control group allows.
    pub(super) quota: Option<f64>,
    /// The NUMA nodes of these cores, if the system tells, each once.
    pub(super) nodes: Option<Vec<usize>>,
    pub(super) governor: Option<String>,
    /// Whether two logical cores share a physical one.
    pub(super) smt: Option<bool>,
    /// Whether the clock rises while few cores are busy.
    pub(super) boost: Option<bool>,
    pub(super) hypervisor: bool,
    /// Processes that ran or wanted to, on average over a minute.
    pub(super) load: Option<f64>,
    /// Share of the time since boot in which the hypervisor ran somebody else.
    pub(super) stolen: Option<f64>,
    /// Cores that two threads keep busy which are woken together.
    pub(super) woken: Option<f64>,
    /// Nanoseconds that a value takes from one core to another and back.
    pub(super) handover: Option<f64>,
    pub(super) memory: u64,
    pub(super) available: u64,
    pub(super) swapped: u64,
    pub(super) thp: Option<String>,
    /// Bytes per second at which memory is written for the first time, and once more.
    pub(super) written: Option<(f64, f64)>,
    /// Device and file system of the folder that was asked about.
    pub(super) disk: Option<(String, String)>,
    /// Median and highest time of a durable write of 4 KiB there, in microseconds.
    pub(super) fsync: Option<(f64, f64)>,
    /// Whether the processor has instructions for SHA-256; none where it does not say.
    pub(super) sha: Option<bool>,
    /// Keccak states that its vectors hold; none where that is not looked for.
    pub(super) lanes: Option<usize>,
    pub(super) rocksdb: bool,
    pub(super) profile: String,
    pub(super) assertions: bool,
}

/// Durable writes that are timed.
const WRITES: usize = 25;

impl Facts {
    /// Looks around, and writes to a temporary file in `dir`.
    pub(super) fn read(dir: &Path) -> Self {
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
            load: host::line("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok()),
            stolen: host::line("/proc/stat").and_then(|text| stolen(&text)),
            woken: woken::cores(host::cores()),
            handover: handover::round_trip(),
            memory: host::memory("MemTotal"),
            available: host::memory("MemAvailable"),
            swapped: host::memory("SwapTotal").saturating_sub(host::memory("SwapFree")),
            thp: host::host(None).thp,
            written: Some(memory::speed()),
            disk: host::mount(dir),
            fsync: fsync(dir).ok(),
            sha: has(&["sha_ni", "sha2"]),
            lanes: has(&["avx512f"]).zip(has(&["avx2"])).filter(|_| cfg!(target_arch = "x86_64")).map(|lanes| {
                match lanes {
                    (true, _) => 8,
                    (_, true) => 4,
                    _ => 1,
                }
            }),
            rocksdb: cfg!(feature = "rocksdb"),
            profile: host::tool().profile,
            assertions: cfg!(debug_assertions),
        }
    }
}

/// The nodes of the cores that this process may use, in order.
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

/// Whether `dir` can be asked about.
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
