//! The options of the database and its column families.

use std::{
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
};

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, ChecksumType, DBCompactionStyle, DBCompressionType, DBRecoveryMode,
    InfoLogger, LogLevel, Options, compaction_filter::Decision as CompactionDecision,
};

// Column families of the database.
pub(super) const ENTRIES: &str = "entries";
pub(super) const BLOCKS: &str = "blocks";
pub(super) const META: &str = "meta";
pub(super) const CODE: &str = "code";
pub(super) const FAMILIES: [&str; 4] = [ENTRIES, BLOCKS, META, CODE];

/// Options of a database that is only read: no byte is written, not even about what was done.
pub(super) fn reading_options() -> Options {
    let mut options = Options::default();
    options.set_paranoid_checks(true);
    // The caller looks for damage. What follows the last whole record of the last log is torn, or being written.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_skip_stats_update_on_db_open(true);
    options.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Fatal, |_, _| ()));
    // Open files outlive their removal by a node that runs.
    options.set_max_open_files(-1);
    options
}

pub(super) fn database_options(past_cache: bool) -> Options {
    let mut options = Options::default();
    options.set_use_direct_io_for_flush_and_compaction(past_cache);
    options.create_missing_column_families(true);
    options.set_paranoid_checks(true);
    // The torn end of the log was cut off before.
    options.set_wal_recovery_mode(DBRecoveryMode::AbsoluteConsistency);
    options.set_track_and_verify_wals_in_manifest(true);
    // Keeps all families at one block, with or without a write-ahead log.
    options.set_atomic_flush(true);
    options.set_max_total_wal_size(512 << 20);
    options.set_wal_bytes_per_sync(512 << 10);
    options.set_bytes_per_sync(1 << 20);
    // The cores are for execution; moving files costs little.
    options.set_max_background_jobs(2);
    options.set_avoid_unnecessary_blocking_io(true);
    options.set_skip_stats_update_on_db_open(true);
    options.set_stats_dump_period_sec(0);
    options.set_keep_log_file_num(4);
    options
}

pub(super) fn family_options(name: &str, rewritten: &Arc<AtomicU64>) -> Options {
    let mut options = Options::default();
    options.set_compression_type(DBCompressionType::None);
    if name != ENTRIES {
        options.set_write_buffer_size(16 << 20);
        return options;
    }
    let rewritten = Arc::clone(rewritten);
    options.set_compaction_filter("count", move |_, key, record| {
        rewritten.fetch_add((key.len() + record.len()) as u64, Ordering::Relaxed);
        CompactionDecision::Keep
    });
    options.set_write_buffer_size(64 << 20);
    options.set_max_write_buffer_number(4);
    options.set_target_file_size_base(256 << 20);
    options.set_compaction_style(DBCompactionStyle::Level);
    // Compaction only moves files here: writers need not stall for it.
    options.set_soft_pending_compaction_bytes_limit(0);
    options.set_hard_pending_compaction_bytes_limit(0);
    options.set_level_zero_slowdown_writes_trigger(1000);
    options.set_level_zero_stop_writes_trigger(2000);
    // By default files are rewritten when they are a month old.
    options.set_ttl(0);
    options.set_periodic_compaction_seconds(0);
    let mut table = BlockBasedOptions::default();
    table.set_block_size(8 << 10);
    table.set_format_version(6);
    table.set_checksum_type(ChecksumType::XXH3);
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    table.set_cache_index_and_filter_blocks(true);
    options.set_block_based_table_factory(&table);
    options
}
