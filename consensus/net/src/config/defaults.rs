//! Constants that a configuration has where nothing else is set.

/// Length from which on a log is replaced where the configuration has no other, in bytes.
pub const LOG_BYTES: u64 = 16 << 20;

/// Decided blocks that [`NetConfig::new`](super::NetConfig::new) keeps below the stable checkpoint.
pub const RETENTION: u64 = 1 << 14;

/// Heights between two snapshots where the configuration has no other number.
pub const SNAPSHOT_EVERY: u64 = 1 << 12;

pub(super) const fn log_bytes() -> u64 {
    LOG_BYTES
}

pub(super) const fn snapshot_every() -> u64 {
    SNAPSHOT_EVERY
}
