//! Description of program and machine in a result; facts that the system does not tell are missing.

use crate::result::{Host, Tool};
use std::{fs, path::Path};

/// Version, build and features of this program.
pub fn tool() -> Tool {
    let mut features = Vec::new();
    if cfg!(feature = "rocksdb") {
        features.push("rocksdb".to_owned());
    }
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
}
