//! Figures of the process from the system, for `/metrics`; nothing where there is no `/proc`.

use std::fs;

/// Length of a page of memory where the system does not say: that of nearly all machines.
const PAGE: u64 = 4096;

/// Clock ticks of a second in `/proc`, which Linux has fixed.
const TICKS: f64 = 100.0;

/// State of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    /// Processor time of all threads, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Memory that is resident, in bytes.
    pub(crate) resident_bytes: u64,
    /// Number of open files and sockets.
    pub(crate) open_fds: u64,
    /// Number of threads.
    pub(crate) threads: u64,
}

impl Process {
    /// The process as it is now; `None` if the system does not say.
    pub(crate) fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let open_fds = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
        Self::parse(&stat, open_fds)
    }

    /// Reads the line of `proc(5)`. The name of the program may hold anything, and ends at the last parenthesis.
    fn parse(stat: &str, open_fds: u64) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // The first of these is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / TICKS,
            resident_bytes: field(24)? * PAGE,
            open_fds,
            threads: field(20)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_system_is_read_by_field() {
        let line =
            "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 123 1000000 300 18446744073709551615";
        let process = Process::parse(line, 4).expect("a process");
        assert_eq!(process, Process { cpu_seconds: 3.0, resident_bytes: 300 * PAGE, open_fds: 4, threads: 9 });
        assert_eq!(Process::parse("7 (a) S 1", 4), None);
        if cfg!(target_os = "linux") {
            let process = Process::now().expect("a process");
            assert!(process.resident_bytes > 0 && process.open_fds > 0 && process.threads > 0);
        }
    }
}
