//! The threads of an engine, for callers that bind them to cores.

use std::sync::Arc;

/// What a thread of an engine is for.
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

/// What an engine calls on its threads.
pub(crate) type ThreadStart = Arc<dyn Fn(ThreadRole) + Send + Sync>;
