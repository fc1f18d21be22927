//! The store itself: its handle, life cycle of blocks, forks, readers, proofs, export and maintenance.

mod usage;
mod prove;
mod export;
mod restore;
mod exporter;
mod partial;
mod maintenance;
mod background;
mod fork;
mod commit;
mod prefetcher;
mod handle;
mod forks;
mod snapshot;
mod reader;
mod held;
mod prepared;
mod link;

pub use background::Background;
pub use export::{EXPORT_HEAD_LEN, export_params};
pub use exporter::Exporter;
pub use forks::Fork;
pub use handle::Store;
pub use partial::{discard_import, interrupted_import};
pub use prefetcher::Prefetcher;
pub use prepared::Prepared;
pub use prove::ProvenTwigs;
pub use reader::Reader;
pub use restore::Restore;
pub use snapshot::Snapshot;
