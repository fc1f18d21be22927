//! A disk whose reads take their time.

use phalanx::merkle::{
    Backend, Reading, StoreConfig,
    faults::{Faults, Step, Verdict},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Stores on a disk whose reads take their time, each another one.
#[derive(Debug)]
pub(crate) struct SlowDisk {
    dir: tempfile::TempDir,
    stores: AtomicU64,
    reads: AtomicU64,
    /// Reads by the thread that reads for Block-STM.
    apart: AtomicU64,
}

impl SlowDisk {
    pub(crate) fn new() -> Arc<Self> {
        let [stores, reads, apart] = Default::default();
        Arc::new(Self { dir: tempfile::tempdir().expect("a folder"), stores, reads, apart })
    }

    /// A new store.
    pub(super) fn store(self: &Arc<Self>) -> StoreConfig {
        let store = self.dir.path().join(self.stores.fetch_add(1, Relaxed).to_string());
        StoreConfig::new(Backend::File(store)).with_reading(Reading::Direct).with_faults(Arc::<Self>::clone(self))
    }

    /// Number of reads, and of those by the thread that reads for Block-STM.
    pub(crate) fn reads(&self) -> (u64, u64) {
        (self.reads.load(Relaxed), self.apart.load(Relaxed))
    }
}

impl Faults for SlowDisk {
    fn before(&self, step: Step<'_>) -> Verdict {
        if let Step::Read(_) = step {
            let read = self.reads.fetch_add(1, Relaxed);
            if std::thread::current().name() == Some("phalanx-stm-read") {
                self.apart.fetch_add(1, Relaxed);
            }
            if read.is_multiple_of(3) {
                std::thread::sleep(Duration::from_micros(read % 7 * 20));
            }
        }
        Verdict::Go
    }
}
