//! The disk below a store: its own random reads, the page cache, and the process's accounts of input and output.

use crate::machine::disk_reads::{PAGE, RandomReads};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Segments of a log in files.
fn segments(store: &Path) -> io::Result<Vec<PathBuf>> {
    let files = fs::read_dir(store)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(files.filter(|path| path.extension().is_some_and(|end| end == "seg")).collect())
}

/// The disk's own random reads of a log's files; nothing where the system does not allow them.
pub(super) fn disk_alone(store: &Path) -> Vec<RandomReads> {
    let of = |bytes| RandomReads::of(&segments(store)?, bytes);
    [PAGE, 2 * PAGE].into_iter().filter_map(|bytes| of(bytes).ok()).collect()
}

/// Makes the log's files durable and drops the system's page cache; false where that is not permitted.
pub(super) fn drop_page_cache(store: Option<&Path>) -> bool {
    let sync = |path: PathBuf| File::open(path).and_then(|file| file.sync_all());
    let synced = store.map(|store| segments(store).and_then(|files| files.into_iter().try_for_each(sync)));
    matches!(synced, Some(Ok(()))) && fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Bytes that this process gave to the kernel to write: logs, tables and checkpoints. Zero where the system does not tell.
pub(super) fn written() -> u64 {
    io_field("wchar")
}

/// Field of the process's accounts of input and output. Zero where the system does not tell.
pub(super) fn io_field(name: &str) -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok()).unwrap_or(0)
}
