//! Output of `bench store`.

use crate::{
    machine::disk_reads::{PAGE, RandomReads},
    result::{Host, SCHEMA, Tool},
};
use phalanx::merkle::ReadUse;
use schemars::JsonSchema;
use serde::Serialize;

/// The output.
#[derive(Serialize, JsonSchema)]
pub(super) struct Stored {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    pub(super) schema: u32,
    /// Program that measured.
    pub(super) tool: Tool,
    /// Machine that it ran on.
    pub(super) host: Host,
    /// The run.
    pub(super) runs: Vec<StoreRun>,
}

/// A run of the store, as written.
#[derive(Serialize, JsonSchema)]
pub(super) struct StoreRun {
    /// Keys of the state.
    pub(super) keys: usize,
    /// Updates per block.
    pub(super) updates_per_block: usize,
    /// Measured blocks.
    pub(super) blocks: usize,
    /// Blocks before them.
    pub(super) warmup_blocks: usize,
    /// Hash of the commitment.
    pub(super) hasher: String,
    /// Failures that a committed block survives.
    pub(super) durability: String,
    /// Blocks that can be rolled back.
    pub(super) history: usize,
    /// Threads that hash.
    pub(super) threads: usize,
    /// Seed of the updates.
    pub(super) seed: u64,
    /// Distribution of the updates: `uniform` or `zipf:T`.
    pub(super) skew: String,
    /// Changes that the measured blocks make: `update`, `create` or `delete`.
    pub(super) work: String,
    /// `resident`, or `cached:BYTES`.
    pub(super) memory: String,
    /// Way to read values from disk: `direct`, `buffered` or `threads`.
    pub(super) reading: String,
    /// Blocks whose keys are announced before they run.
    pub(super) ahead_blocks: usize,
    /// Updates per second.
    pub(super) updates_per_s: f64,
    /// Processor time of all threads per update, in µs.
    pub(super) us_core_per_update: f64,
    /// Records that compaction moved per update.
    pub(super) moves_per_update: f64,
    /// Memory of the process for the state, in bytes per key.
    pub(super) dram_bytes_per_key: f64,
    /// Memory of the state by part, in bytes.
    pub(super) memory_bytes: Held,
    /// Share of reads that the cache answered. Null for a resident state.
    pub(super) cache_hit_rate: Option<f64>,
    /// Reads of the measured blocks. Null for a resident state, and where the backend reads by itself.
    pub(super) reads: Option<Reads>,
    /// Memory of the state without history and cache, in bytes per key.
    pub(super) state_bytes_per_key: f64,
    /// Growth of the store, in bytes per update.
    pub(super) disk_bytes_per_update: f64,
    /// Bytes that were written per update.
    pub(super) written_bytes_per_update: f64,
    /// The same in megabytes per second.
    pub(super) written_mb_per_s: f64,
    /// Bytes that compaction wrote again. Null if the backend does not count them.
    pub(super) compaction_rewrite_bytes: Option<u64>,
    /// Time of a block, in ms.
    pub(super) block_ms: BlockTimes,
    /// Time to close the store, in s.
    pub(super) close_s: f64,
    /// Time to open it again, in s. Null without a folder.
    pub(super) reopen_s: Option<f64>,
    /// Height of the checkpoint that it opened from. Null without one.
    pub(super) reopen_from_height: Option<u64>,
    /// Highest resident set of the process.
    pub(super) rss_peak_bytes: u64,
    /// Memory of the benchmark itself: part of the peak, not of a key's memory.
    pub(super) bench_bytes: usize,
    /// Root after the last block.
    pub(super) state_root: String,
}

/// Reads of values from disk.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reads {
    /// Reads per second.
    pub(super) per_s: f64,
    /// Reads per update.
    pub(super) per_update: f64,
    /// Extents that were asked for per update: neighbours share a read.
    pub(super) extents_per_update: f64,
    /// Bytes per read.
    pub(super) bytes_per_read: f64,
    /// Bytes that block devices sent per update, with those of other threads of the process.
    pub(super) device_bytes_per_update: f64,
    /// Mean number of reads in flight.
    pub(super) depth: f64,
    /// True if reads were queued on io_uring.
    pub(super) on_rings: bool,
    /// True if the page cache was dropped before the measured blocks.
    pub(super) page_cache_dropped: bool,
    /// Keys that were announced and refused, because too many waited.
    pub(super) refused_ahead: u64,
    /// The disk's own random reads of the log's files, measured right before: of a page, and of two.
    pub(super) disk: Vec<RandomReads>,
    /// Reads per second as a share of the disk's own best rate for a page.
    pub(super) share_of_disk: Option<f64>,
}

/// Memory of a state by part, in bytes.
#[derive(Serialize, JsonSchema)]
pub(super) struct Held {
    /// Records in place.
    pub(super) records: usize,
    /// Records beside their place.
    pub(super) spilled: usize,
    /// Index from keys to records.
    pub(super) index: usize,
    /// Order of the keys.
    pub(super) ring: usize,
    /// Keys by position.
    pub(super) owners: usize,
    /// Nodes of the tree.
    pub(super) tree: usize,
    /// Undo records.
    pub(super) history: usize,
    /// Values read from disk.
    pub(super) cache: usize,
}

/// Times of blocks, in ms.
#[derive(Serialize, JsonSchema)]
pub(super) struct BlockTimes {
    /// Median.
    pub(super) p50: f64,
    /// 99th percentile.
    pub(super) p99: f64,
    /// Maximum.
    pub(super) max: f64,
}

impl Reads {
    pub(super) fn of(made: ReadUse, disk: Vec<RandomReads>, updates: f64, seconds: f64) -> Self {
        let per_s = made.reads as f64 / seconds;
        let page = disk.iter().find(|disk| disk.bytes == PAGE);
        Self {
            per_s,
            per_update: made.reads as f64 / updates,
            extents_per_update: made.extents as f64 / updates,
            bytes_per_read: made.bytes as f64 / (made.reads as f64).max(1.0),
            device_bytes_per_update: 0.0,
            depth: made.depth(),
            on_rings: made.on_rings,
            page_cache_dropped: false,
            refused_ahead: 0,
            share_of_disk: page.map(|page| per_s / page.best()),
            disk,
        }
    }
}
