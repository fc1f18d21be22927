//! Transactions that clients send, from every way in: one queue, and workers that admit all that waits at once.
//!
//! A worker takes what waits, recovers the signatures side by side, and admits all under one lock of the pool. There is no timer:
//! a worker is woken once the connections that have something to read have been read, and what arrives meanwhile is the next batch.
//! So a transaction that comes alone is taken at once, and those that come together together. A few that meet idle workers are admitted
//! by the thread that has read them: to wake another one, and to be woken by it, costs as much as half a signature.
//!
//! The first worker takes anything; a further one takes many only, so that the lanes of a recovery are full. Workers recover at the
//! same time, and admit in the order in which they took: the transactions of a sender reach the pool as they arrived.

mod admission;
mod door;
mod queue;
mod fate;
#[cfg(test)]
mod tests;

pub(crate) use admission::{Fates, Intake};
pub(crate) use fate::{Fate, NoFate, Unadmitted};
