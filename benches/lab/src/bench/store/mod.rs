//! `bench store`: the state store alone.

mod measure;
mod draw;
mod disk;
mod output;
mod show;
mod config;

pub use config::{Skew, StoreBench, Work};

use crate::{
    config::{Store, threads},
    doctor,
    error::Usage,
    machine::{host, memory, temporary::Temporary},
    report::Output,
    result::SCHEMA,
    ui::Ui,
    written::{self, Named},
};
use measure::measure;
use output::Stored;
use phalanx::{
    merkle::{Memory, Params, StoreConfig},
    parascheduler::Workers,
};
use std::path::Path;

/// Bytes per key of a resident state, its locators and log buffers, for the check of available memory.
const KEY_BYTES: u64 = 200;

/// Bytes per key of a paged state, besides the cache.
const INDEX_BYTES: u64 = 24;

/// Schema of what is written.
pub(super) fn schema() -> Named {
    written::schema::<Stored>("bench-store", "bench store --json")
}

/// Measures the store: updates of random keys, a root and a write per block.
///
/// # Errors
/// If the settings describe no run, memory is short, or the store fails.
pub fn run(config: &StoreBench, ui: &Ui) -> anyhow::Result<Output> {
    let StoreBench { keys, updates, blocks, .. } = *config;
    if keys == 0 || keys > 1 << 31 || updates == 0 || blocks == 0 || updates > 1 << 24 {
        let bounds = "--keys, --updates and --blocks must be above zero, --keys at most 2^31, --updates at most 2^24";
        return Err(Usage(bounds.into()).into());
    }
    if config.work == Work::Delete && updates.saturating_mul(blocks) > keys {
        return Err(Usage(
            "--work delete deletes each key once: --updates times --blocks must be at most --keys".into(),
        )
        .into());
    }
    let needed = match config.memory {
        Memory::Resident => (keys as u64).saturating_mul(KEY_BYTES),
        Memory::Cached { bytes } => (keys as u64).saturating_mul(INDEX_BYTES).saturating_add(bytes as u64),
    };
    memory::memory_beside(needed)?;
    let folder = Temporary::new()?;
    let store = config.store.clone().unwrap_or_else(|| Store::File(folder.path().into()));
    let path = store.path().map(Path::to_path_buf);
    let store_config = StoreConfig::new(store.backend()?)
        .with_durability(config.durability)
        .with_params(Params::with_hash(config.hasher))
        .with_memory(config.memory)
        .with_reading(config.reading)
        .with_history(config.history);
    let workers = Workers::new(threads(config.threads)?)?;
    let row = workers.install(|| measure(config, ui, store_config, path.as_deref()))?;
    let (tool, host) = (host::tool(), doctor::host(path.as_deref()));
    let text = show::table(&row);
    let value = written::value(&Stored { schema: SCHEMA, tool, host, runs: vec![row] });
    Ok(Output { value, claim: None, text, csv: None, picture: None })
}
