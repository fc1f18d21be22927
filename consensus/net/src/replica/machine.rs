//! The engine of a replica, and the bounds of protocols that run on a network.

use alloy_rlp::{Decodable, Encodable};
use phalanx_bft::Protocol;
use std::sync::Arc;

/// Returns true if a client's transaction may be submitted: it is well-formed and its signature is right.
pub type Admit = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The engine of a replica.
pub struct Machine<E> {
    /// The engine.
    pub engine: Arc<E>,
    /// Check of clients' transactions.
    pub admit: Admit,
    /// Work of an engine without a thread of its own, done by the worker between two events; returns true if there was any.
    /// `None` for an engine that executes on its own threads.
    pub step: Option<Box<dyn FnMut() -> bool + Send>>,
}

impl<E: core::fmt::Debug> core::fmt::Debug for Machine<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Machine").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// A protocol that can run on a network: its records are written to a log, and its messages cross threads.
pub trait Networked:
    Protocol<Config: Send + Sync, Msg: Send, Record: Encodable + Decodable + Send, Timer: Send> + Send + 'static
{
}

impl<P> Networked for P where
    P: Protocol<Config: Send + Sync, Msg: Send, Record: Encodable + Decodable + Send, Timer: Send> + Send + 'static
{
}
