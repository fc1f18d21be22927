//! Description of program and machine in a result; facts that the system does not tell are missing.

use crate::result::{Disturbance, Host, Tool};
use std::{ffi::CString, fs, mem::MaybeUninit, os::unix::ffi::OsStrExt as _, path::Path, sync::OnceLock};

/// Cargo features of the program, once it has named them.
static FEATURES: OnceLock<Vec<String>> = OnceLock::new();

/// Notes the Cargo features of the program, which a library cannot know. The first call counts.
pub fn note_features(features: &[&str]) {
    FEATURES.get_or_init(|| features.iter().map(|&feature| feature.to_owned()).collect());
}

/// Version, build and features of this program; of a program that has not [noted](note_features) its features, those of the
/// laboratory.
pub fn tool() -> Tool {
    let own = || if cfg!(feature = "rocksdb") { vec!["rocksdb".to_owned()] } else { Vec::new() };
    let features = FEATURES.get().cloned().unwrap_or_else(own);
    Tool {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: env!("PHALANX_COMMIT").into(),
        rustc: env!("PHALANX_RUSTC").into(),
        features,
        allocator: "mimalloc".into(),
        profile: env!("PHALANX_PROFILE").into(),
    }
}

/// Processor, memory and system of this machine; `store` is the folder of the state, if on disk.
pub fn host(store: Option<&Path>) -> Host {
    Host {
        cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
        cores: cores(),
        memory_bytes: memory("MemTotal"),
        kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        thp: line("/sys/kernel/mm/transparent_hugepage/enabled").map(|modes| chosen(&modes)),
        disk: store.and_then(disk),
        findings: Vec::new(),
    }
}

/// Logical cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Memory available without swapping, in bytes; `u64::MAX` if the system does not tell.
pub(crate) fn available_memory() -> u64 {
    match memory("MemAvailable") {
        0 => u64::MAX,
        bytes => bytes,
    }
}

/// Highest resident set so far, in bytes.
pub(crate) fn rss_peak() -> u64 {
    field("/proc/self/status", "VmHWM").and_then(|v| kilobytes(&v)).unwrap_or(0)
}

/// Resident set now, in bytes.
pub(crate) fn rss() -> u64 {
    field("/proc/self/status", "VmRSS").and_then(|v| kilobytes(&v)).unwrap_or(0)
}

/// Bytes that the process has sent to block devices.
pub(crate) fn disk_written() -> u64 {
    field("/proc/self/io", "write_bytes").and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Processor time of the whole machine since it was started, in seconds over all cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    /// Time in which cores worked.
    busy: f64,
    /// Time that the hypervisor gave to other machines.
    stolen: f64,
}

/// Ticks of `/proc/stat` per second: its `USER_HZ`, a constant of the system's interface.
const HZ: f64 = 100.0;

impl Ticks {
    /// Ticks until now; `None` if the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    fn of(text: &str) -> Option<Self> {
        let words = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<f64> = words.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _, _, irq, softirq, steal] = ticks[..] else { return None };
        Some(Self { busy: (user + nice + system + irq + softirq) / HZ, stolen: steal / HZ })
    }

    /// Other work since then: `own_s` is this process's processor time, in seconds, of `wall_s` on `cores`.
    pub(crate) fn since(self, before: Self, own_s: f64, wall_s: f64, cores: usize) -> Option<Disturbance> {
        let share = |time: f64| if time.is_finite() { time.max(0.0) } else { 0.0 };
        (wall_s > 0.0).then(|| Disturbance {
            other_cores: share((self.busy - before.busy - own_s) / wall_s),
            stolen: share((self.stolen - before.stolen) / wall_s / cores.max(1) as f64),
        })
    }
}

/// Size of all files under `path`, in bytes.
pub fn size_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size_of(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

/// The trimmed text of a file.
pub(crate) fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The value of the first line `name: value` of a file.
pub(crate) fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|n| n.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kilobytes(value: &str) -> Option<u64> {
    value.trim_end_matches("kB").trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

/// A figure of `/proc/meminfo` in bytes, zero if it is not there.
pub(crate) fn memory(name: &str) -> u64 {
    field("/proc/meminfo", name).and_then(|v| kilobytes(&v)).unwrap_or(0)
}

/// The bracketed mode of a list of modes.
fn chosen(modes: &str) -> String {
    modes.split_whitespace().find_map(|m| m.strip_prefix('[')?.strip_suffix(']')).unwrap_or(modes).to_owned()
}

/// Bytes that a program may still write to the file system under `path`; `None` if the system does not tell.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let path = path.ancestors().find_map(|p| p.canonicalize().ok())?;
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    #[expect(unsafe_code, reason = "the standard library has no call for it")]
    // SAFETY: the path ends with a zero, and the call fills all of `stat` where it returns zero.
    let stat = unsafe { (libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) }?;
    #[expect(clippy::useless_conversion, reason = "its width depends on the system")]
    let blocks = u64::from(stat.f_bavail);
    Some(blocks.saturating_mul(stat.f_frsize))
}

/// Device and file system under `path`, as a result shows them.
fn disk(path: &Path) -> Option<String> {
    mount(path).map(|(device, kind)| format!("{device} ({kind})"))
}

/// Device and file system under `path`, from the longest mount point that contains it.
pub(crate) fn mount(path: &Path) -> Option<(String, String)> {
    let path = path.ancestors().find_map(|p| p.canonicalize().ok())?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (device, point, kind) = (words.next()?, words.next()?, words.next()?);
            path.starts_with(point).then_some((point.len(), device, kind))
        })
        .max_by_key(|(len, ..)| *len)
        .map(|(_, device, kind)| (device.to_owned(), kind.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_this_machine() {
        let host = host(Some(Path::new("/tmp/does/not/exist")));
        assert!(host.cores >= 1);
        if cfg!(target_os = "linux") {
            assert!(host.memory_bytes > 0 && rss_peak() > 0);
            assert!(host.disk.is_some());
        }
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("odd"), "odd");
    }

    #[test]
    fn other_work_is_what_this_process_did_not_do() {
        let before = Ticks::of("cpu  100 0 100 500 0 0 0 10 0 0\ncpu0 1").unwrap();
        let after = Ticks::of("cpu  700 0 200 500 50 0 0 50 0 0").unwrap();
        // Seven seconds of work in two seconds of time, three of them of this process; 0.4 s stolen on four cores.
        let beside = after.since(before, 3.0, 2.0, 4).unwrap();
        assert_eq!((beside.other_cores, (beside.stolen * 1000.0).round()), (2.0, 50.0));
        // Clocks of different steps may say less than nothing.
        assert_eq!(after.since(before, 9.0, 2.0, 4).unwrap().other_cores, 0.0);
        assert_eq!(after.since(before, 1.0, 0.0, 4), None);
        for odd in ["", "intr 5", "cpu  1 2 3", "cpu  1 2 3 x 5 6 7 8"] {
            assert_eq!(Ticks::of(odd), None, "{odd}");
        }
        assert_eq!(Ticks::now().is_some(), cfg!(target_os = "linux"));
    }
}
