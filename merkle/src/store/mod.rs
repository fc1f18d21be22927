//! The store.

mod background;
mod commit;
mod export;
mod fork;
mod forks;
mod handle;
mod maintenance;
mod prepared;
mod prove;
mod reader;
mod snapshot;
mod usage;

pub use background::Background;
pub use forks::Held;
pub use handle::Store;
pub use prepared::Prepared;
pub use reader::Reader;
pub use snapshot::View;
