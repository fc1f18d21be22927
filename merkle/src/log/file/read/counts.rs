//! Counts of reads, which several threads add to.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{metrics, types::ReadUse};

/// Counts of reads since the log was opened. Each counter is exact; together they are of no one moment.
#[derive(Debug, Default)]
pub(in crate::log::file) struct Counts {
    extents: AtomicU64,
    reads: AtomicU64,
    bytes: AtomicU64,
    /// Sum over all reads of the reads in flight when each was begun, itself included.
    depths: AtomicU64,
    in_flight: AtomicU64,
}

impl Counts {
    /// Counts extents that a caller asked for.
    pub(in crate::log::file) fn asked(&self, extents: usize) {
        self.extents.fetch_add(extents as u64, Ordering::Relaxed);
    }

    /// Counts reads that were begun together.
    pub(in crate::log::file) fn began(&self, reads: usize) {
        let reads = reads as u64;
        let before = self.in_flight.fetch_add(reads, Ordering::Relaxed);
        self.depths.fetch_add(reads * before + reads * (reads + 1) / 2, Ordering::Relaxed);
    }

    /// Counts reads that ended, and their bytes.
    pub(in crate::log::file) fn ended(&self, reads: usize, bytes: usize) {
        self.in_flight.fetch_sub(reads as u64, Ordering::Relaxed);
        self.reads.fetch_add(reads as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        metrics::read(reads, bytes);
    }

    /// Counts reads that had begun and are begun again otherwise.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only rings take reads back"))]
    pub(super) fn took_back(&self, reads: usize) {
        self.in_flight.fetch_sub(reads as u64, Ordering::Relaxed);
    }

    /// The counts.
    pub(in crate::log::file) fn total(&self, on_rings: bool) -> ReadUse {
        let [extents, reads, bytes, depths] =
            [&self.extents, &self.reads, &self.bytes, &self.depths].map(|count| count.load(Ordering::Relaxed));
        ReadUse { extents, reads, bytes, depths, on_rings }
    }
}
