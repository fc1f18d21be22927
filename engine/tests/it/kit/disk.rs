//! Folders of stores, and a disk whose reads take their time.

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

/// Least room of a file system in memory, in bytes: containers often have 64 MiB.
const ROOM: u64 = 2 << 30;

/// A folder in memory where the system has one, for stores whose tests are about results and not about a disk. With
/// `PHALANX_ON_DISK`, as at night, it is on the disk.
pub(crate) fn folder() -> tempfile::TempDir {
    let has_room = |room: rustix::fs::StatVfs| room.f_bavail.saturating_mul(room.f_frsize) >= ROOM;
    let is_fit = std::env::var_os("PHALANX_ON_DISK").is_none() && rustix::fs::statvfs("/dev/shm").is_ok_and(has_room);
    is_fit
        .then(|| tempfile::tempdir_in("/dev/shm"))
        .and_then(Result::ok)
        .unwrap_or_else(|| tempfile::tempdir().expect("a folder"))
}

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
        Arc::new(Self { dir: super::folder(), stores, reads, apart })
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
