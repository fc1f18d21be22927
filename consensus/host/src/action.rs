//! Exchange of a host with its shell: timers and actions.

use crate::{boundary::Boundary, frame::Frame, record::HostRecord};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Base, Index, Micros, Protocol, Slot, To};
use phalanx_engine_api::ExecOutcome;
use phalanx_pipeline::{BlockMeta, Incident};

/// Timers of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostTimer<T> {
    /// A timer of the protocol.
    Protocol(T),
    /// A batch has waited long enough.
    Batch,
    /// A peer that was asked for decided blocks may send none.
    Transfer,
    /// Own state votes may have been lost, or the certificates that they helped to form.
    Votes,
    /// Clients' requests may not have reached the leader.
    Requests,
    /// A replica without its log asks how far the others are.
    Silence,
}

/// An action that a host asks its shell for, in order.
#[derive(Debug)]
pub enum Action<P: Protocol> {
    /// Append a record to the log and report [`Host::durable`](crate::Host::durable) with its number. Appends may be grouped.
    Append(u64, HostRecord<P::Record>),
    /// Send a frame.
    Send(To, Frame<P::Msg>),
    /// Set a timer, replacing one of the same name.
    Timer(HostTimer<P::Timer>, Micros),
    /// Cancel a timer.
    Cancel(HostTimer<P::Timer>),
    /// A block is committed: clients can be answered.
    Committed(BlockMeta, ExecOutcome),
    /// The state after a slot has a certificate of f+1 replicas, see [`Out::Certificate`](phalanx_bft::Out::Certificate): what a
    /// client needs beside the proof of its transaction.
    Certified {
        /// The slot.
        slot: Slot,
        /// Number of the slot in its epoch, which is the one that the certificate names.
        in_epoch: Slot,
        /// Digest of its outcome.
        digest: B256,
        /// The certificate.
        signature: Bytes,
        /// True if this replica answers the clients of the slot's transactions.
        answers: bool,
    },
    /// Older records can go: [`Host::compacted`](crate::Host::compacted) tells what to write instead.
    Stable(Base),
    /// Proof that a replica broke the protocol. Keep it.
    Evidence(Index, Bytes),
    /// A replica sent a wrong signature, or a proposal with bytes that are no transaction, which a correct one does not: close its
    /// connection for a while, and name it.
    Forged(Index),
    /// No other replica retains the block after this slot, the last one here: the state has to come as a snapshot. Peers that lie or
    /// send nothing may have caused it, so that it is repeated as long as it lasts; f+1 have said so.
    Behind(Slot),
    /// The epoch has ended with this block, which is committed: keep it, and go on in the next epoch with [`HostRecord::pass`].
    Ended(Box<Boundary>),
    /// The node has stopped. Keep the incident.
    Halted(Box<Incident>),
}
