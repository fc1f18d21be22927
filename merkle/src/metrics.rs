//! Counters and gauges through the `metrics` facade: free of charge unless the program installs a recorder. The names are
//! in the crate's README; there are no times, because libraries read no clock.

use metrics::{counter, gauge};
use phalanx_merkle_proof::Shape;

/// A block is in the log, committed or staged.
pub(crate) fn block_written(positions: u64, committed: bool) {
    counter!("phalanx_store_blocks_written_total", "kind" => if committed { "committed" } else { "staged" })
        .increment(1);
    counter!("phalanx_store_entries_written_total").increment(positions);
}

/// The log names another block as the tip.
pub(crate) fn tip_written() {
    counter!("phalanx_store_tips_written_total").increment(1);
}

/// The tip in the log is a block of this height, which leads to this shape.
pub(crate) fn tip(height: u64, shape: &Shape) {
    gauge!("phalanx_store_height").set(height as f64);
    gauge!("phalanx_store_next_position").set(shape.next_sn as f64);
    gauge!("phalanx_store_floor").set(shape.floor as f64);
    gauge!("phalanx_store_active_positions").set(shape.active as f64);
}

/// A write, or what is done between two, failed: the handle is of no more use.
pub(crate) fn poisoned() {
    counter!("phalanx_store_poisoned_total").increment(1);
}

/// Bytes were handed to the kernel or to RocksDB.
pub(crate) fn wrote(bytes: usize) {
    counter!("phalanx_store_written_bytes_total").increment(bytes as u64);
}

/// A file, or RocksDB's write-ahead log, was made to survive power loss.
pub(crate) fn synced() {
    counter!("phalanx_store_syncs_total").increment(1);
}

/// Entries were asked for that may be cached: so many were, so many were not.
pub(crate) fn asked(hits: usize, misses: usize) {
    counter!("phalanx_store_cache_hits_total").increment(hits as u64);
    counter!("phalanx_store_cache_misses_total").increment(misses as u64);
}

/// The store no longer knows so many blocks.
pub(crate) fn pruned(blocks: u64) {
    counter!("phalanx_store_pruned_blocks_total").increment(blocks);
}
