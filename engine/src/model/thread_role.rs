//! The threads of an engine, for callers that bind them to cores.

use std::sync::Arc;

/// Purpose of an engine's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadRole {
    /// The worker with this number, from zero.
    Worker(usize),
    /// Writes committed blocks.
    Writer,
    /// A helper of the store: writes a checkpoint, or reads what is not in memory.
    Store,
}

/// Callback on the engine's threads.
pub(crate) type ThreadStart = Arc<dyn Fn(ThreadRole) + Send + Sync>;
