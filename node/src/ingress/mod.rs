//! The binary ingress: transactions in frames, over TCP or a Unix socket, for clients that send many.
//!
//! Frames of a connection are offered to the intake as they arrive, and answered in order. At most [`IN_FLIGHT`] are not answered:
//! nothing more is read meanwhile, so a client that reads no answers holds only itself up.

mod server;
pub mod client;
mod wire;

pub(crate) use server::Ingress;
pub use wire::{Code, Ended, GREETING, MAX_TXS, Verdict};

/// Maximum number of frames of a connection that are not answered.
pub const IN_FLIGHT: usize = 16;
