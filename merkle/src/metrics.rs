//! Counters and gauges through the `metrics` facade, free of charge unless the program installs a recorder.
//!
//! The names are in the crate's README. There are no times: libraries read no clock.

use metrics::{counter, gauge};
use phalanx_merkle_proof::Shape;

/// Counts a block written to the log, committed or staged.
pub(crate) fn block_written(positions: u64, committed: bool) {
    counter!("phalanx_store_blocks_written_total", "kind" => if committed { "committed" } else { "staged" })
        .increment(1);
    counter!("phalanx_store_entries_written_total").increment(positions);
}

/// Counts a change of the tip in the log.
pub(crate) fn tip_written() {
    counter!("phalanx_store_tips_written_total").increment(1);
}

/// Sets height and shape of the tip in the log.
pub(crate) fn tip(height: u64, shape: &Shape) {
    gauge!("phalanx_store_height").set(height as f64);
    gauge!("phalanx_store_next_position").set(shape.next_sn as f64);
    gauge!("phalanx_store_floor").set(shape.floor as f64);
    gauge!("phalanx_store_active_positions").set(shape.active as f64);
}

/// Counts a handle that a failed operation ended.
pub(crate) fn poisoned() {
    counter!("phalanx_store_poisoned_total").increment(1);
}

/// Counts bytes handed to the kernel or to RocksDB.
pub(crate) fn wrote(bytes: usize) {
    counter!("phalanx_store_written_bytes_total").increment(bytes as u64);
}

/// Counts reads of extents, and their bytes.
pub(crate) fn read(reads: usize, bytes: usize) {
    counter!("phalanx_store_reads_total").increment(reads as u64);
    counter!("phalanx_store_read_bytes_total").increment(bytes as u64);
}

/// Counts keys that were announced and are not read ahead.
pub(crate) fn not_read_ahead(keys: u64) {
    counter!("phalanx_store_ahead_refused_total").increment(keys);
}

/// Counts bytes that are written beside entries and code: rows of blocks and tips, with payloads and notes, and promises.
pub(crate) fn wrote_rows(bytes: usize) {
    counter!("phalanx_store_row_bytes_total").increment(bytes as u64);
}

/// Counts a sync of a file, or of RocksDB's write-ahead log.
pub(crate) fn synced() {
    counter!("phalanx_store_syncs_total").increment(1);
}

/// Counts cache hits and misses.
pub(crate) fn cache_reads(hits: usize, misses: usize) {
    counter!("phalanx_store_cache_hits_total").increment(hits as u64);
    counter!("phalanx_store_cache_misses_total").increment(misses as u64);
}

/// Counts blocks that the store pruned.
pub(crate) fn pruned(blocks: u64) {
    counter!("phalanx_store_pruned_blocks_total").increment(blocks);
}
