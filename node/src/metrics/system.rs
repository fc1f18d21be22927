//! Figures of this process, by the names that every exporter gives them.

use super::families::{append, number, plain};
use crate::process::Process;
use parking_lot::Mutex;
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use std::sync::atomic::AtomicU64;

/// Figures of this process.
pub(super) struct System {
    registry: Mutex<Registry>,
    cpu_seconds: Gauge<f64, AtomicU64>,
    resident_bytes: Gauge,
    open_fds: Gauge,
    threads: Gauge,
}

impl System {
    pub(super) fn new() -> Self {
        // Without a prefix.
        let mut all = Registry::default();
        let registry = &mut all;
        let system = Self {
            cpu_seconds: plain(registry, "process_cpu_seconds", "Processor time of all threads"),
            resident_bytes: plain(registry, "process_resident_memory_bytes", "Resident memory"),
            open_fds: plain(registry, "process_open_fds", "Open files and sockets"),
            threads: plain(registry, "process_threads", "Threads"),
            registry: Mutex::default(),
        };
        *system.registry.lock() = all;
        system
    }

    /// Appends the figures as they are now, where the system gives them.
    pub(super) fn write(&self, page: &mut String) {
        let Some(process) = Process::now() else { return };
        self.cpu_seconds.set(process.cpu_seconds);
        self.resident_bytes.set(number(process.resident_bytes));
        self.open_fds.set(number(process.open_fds));
        self.threads.set(number(process.threads));
        append(page, &self.registry.lock());
    }
}
