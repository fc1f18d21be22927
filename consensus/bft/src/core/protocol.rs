//! The contract between a protocol and its host.

use super::{
    batch::Batch,
    group::Group,
    message::{Checked, Message, Signed},
    replica::{Index, ReplicaSet},
};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use core::fmt::{self, Debug};
use std::sync::Arc;

/// Time or duration in microseconds. A host's clock never runs backwards.
pub type Micros = u64;
/// Place of a batch in the agreed order, from 1.
pub type Slot = u64;
/// Period of one primary, from 0.
pub type View = u64;

/// Effects of one call, in order.
pub type Outs<P> = Vec<Out<P>>;

/// An ordering protocol as a state machine.
///
/// An implementation has no clock, randomness, thread, hash map or signature arithmetic: equal inputs give equal effects.
/// The host performs effects in their order. Effects behind an [`Out::Persist`] wait until its record is durable.
pub trait Protocol: Sized {
    /// Constants of a run.
    type Config: Debug;
    /// Messages between replicas.
    type Msg: Message + Debug;
    /// Records that survive a crash.
    type Record: Clone + Debug;
    /// Names of timers.
    type Timer: Copy + Ord + Debug;

    /// True if each replica proposes what its own clients ask for: a request that is forwarded would be ordered twice.
    const OWN_REQUESTS: bool = false;

    /// Checks the constants of a run.
    ///
    /// # Errors
    /// Names the first constant that no replica can run with.
    fn check(config: &Self::Config) -> Result<(), ConfigError>;

    /// Maximum length of an encoded batch that replicas accept, in bytes.
    fn batch_bytes(config: &Self::Config) -> usize;

    /// Starts a replica from its log, on top of `base`.
    fn open(me: Index, config: Arc<Self::Config>, base: Base, log: &[Self::Record], out: &mut Outs<Self>) -> Self;

    /// Returns true if the message can change something once its signatures are verified. Cheap, and checked before the
    /// signatures: a peer cannot make a host verify more of them than a message needs.
    fn wants(&self, from: Index, message: &Self::Msg) -> bool;

    /// Handles a message that the channel proves to be from `from`.
    fn on_message(&mut self, now: Micros, from: Index, message: Checked<Self::Msg>, out: &mut Outs<Self>);

    /// Handles a timer that was set and not cancelled.
    fn on_timer(&mut self, now: Micros, timer: Self::Timer, out: &mut Outs<Self>);

    /// Handles an input of the host.
    fn on_input(&mut self, now: Micros, input: Input, out: &mut Outs<Self>);

    /// Number of batches that this replica can propose now.
    fn room(&self) -> u64;

    /// Replica that clients' requests go to.
    fn leader(&self) -> Index;

    /// View that the replica is in or changes to. A proposal of an older view may be lost.
    fn view(&self) -> View;

    /// Records that restore the present state: the log may begin with them instead of all that were persisted so far.
    fn journal(&self) -> Vec<Self::Record>;

    /// Reach of this replica's votes. `None` for a protocol whose replicas stay silent for good without their log.
    fn reach(&self) -> Option<Reach> {
        None
    }

    /// Sends a replica that has lost its log what it has said before and has to go on from.
    fn remind(&mut self, now: Micros, to: Index, out: &mut Outs<Self>) {
        let _ = (now, to, out);
    }

    /// Ends the silence of a replica without its log, whose stable checkpoint is above every slot that it may have voted in: it votes in
    /// `view` and above alone. Before, the replica has taken and sent no message but those that [inform](Message::informs).
    fn speak(&mut self, view: View, out: &mut Outs<Self>) {
        let _ = (view, out);
    }
}

/// Reach of a replica's votes, in the protocol's own numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Reach {
    /// Highest view that it is in, or changes to; zero where each slot has views of its own.
    pub view: View,
    /// Last slot below the stable checkpoint.
    pub stable: Slot,
    /// Last slot that it votes in before another checkpoint is stable.
    pub last: Slot,
}

/// A constant that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the constant.
    pub name: &'static str,
    /// The value.
    pub value: u64,
    /// Smallest legal value.
    pub least: u64,
    /// Largest legal value.
    pub most: u64,
}

impl ConfigError {
    /// Checks that `value` lies between `least` and `most`.
    ///
    /// # Errors
    /// The value lies outside.
    pub const fn within(name: &'static str, value: u64, least: u64, most: u64) -> Result<(), Self> {
        if least <= value && value <= most { Ok(()) } else { Err(Self { name, value, least, most }) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, least, most } = self;
        write!(f, "`{name}` is {value}: it must be between {least} and {most}")
    }
}

impl core::error::Error for ConfigError {}

/// The checkpoint that a replica starts from: everything up to its slot is executed and durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Base {
    /// Last slot that the state includes; 0 is the genesis state.
    pub slot: Slot,
    /// Digest of the outcome of that slot.
    pub digest: B256,
}

/// An input of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A batch to propose. A replica that cannot propose it gives it back by [`Out::Returned`].
    Batch(Batch),
    /// Number of the oldest client's request that has no place in the decided prefix, `None` if there is none. Numbers grow in
    /// the order of arrival: a primary has to serve the oldest one before patience with it ends.
    Pending(Option<u64>),
    /// A slot is executed and its state is durable. A host repeats it for retained slots after a restart.
    Committed {
        /// The slot.
        slot: Slot,
        /// Digest of its outcome.
        digest: B256,
    },
    /// The result of [`Out::Work`].
    Signed {
        /// The job.
        job: u64,
        /// The signature.
        signature: Bytes,
    },
    /// The result of [`Crypto::Combine`].
    Combined {
        /// The job.
        job: u64,
        /// The group's signature, or the replicas whose shares are wrong.
        result: Result<Bytes, ReplicaSet>,
    },
    /// True while the pipeline is behind: the replica accepts no further proposal.
    Hold(bool),
    /// A state was fetched, see [`Want::State`].
    Installed(Base),
}

/// An effect that a protocol asks its host for.
#[derive(Debug)]
pub enum Out<P: Protocol> {
    /// Write a record. What follows waits for it.
    Persist(P::Record),
    /// Send a message.
    Send(To, P::Msg),
    /// Set a timer, replacing one of the same name.
    Timer(P::Timer, Micros),
    /// Cancel a timer.
    Cancel(P::Timer),
    /// Do cryptographic work and answer by [`Input::Signed`] or [`Input::Combined`].
    Work {
        /// Number of the job.
        job: u64,
        /// The work.
        crypto: Crypto,
    },
    /// A batch that may be decided in this slot: worth speculative execution. `None` is the null filler.
    Proposed {
        /// The slot.
        slot: Slot,
        /// The view of the proposal.
        view: View,
        /// The batch.
        batch: Option<Batch>,
    },
    /// This replica's order vote of `view` is durable.
    OrderVoted {
        /// The slot.
        slot: Slot,
        /// The view of the vote.
        view: View,
    },
    /// The order has this batch in this slot. Each slot is decided once, in any order of slots.
    Decided {
        /// The slot.
        slot: Slot,
        /// The batch, `None` for the null filler.
        batch: Option<Batch>,
    },
    /// The state after a slot has a certificate of f+1 replicas: enough for clients, not for dropping anything.
    Certificate {
        /// The slot.
        slot: Slot,
        /// Digest of its outcome.
        digest: B256,
        /// Signature of [`Group::State`] over [`Executed`](crate::sbft::Executed).
        signature: Bytes,
        /// True if this replica tells the clients of the slot's transactions.
        answers: bool,
    },
    /// A slot has two decisions: more than f replicas are faulty, and the host has to stop.
    Conflict {
        /// The slot.
        slot: Slot,
    },
    /// A quorum has the state after this slot: older log records and batches can go.
    Stable {
        /// The checkpoint.
        base: Base,
        /// Signed checkpoints that prove it to others.
        proof: Bytes,
    },
    /// The replica misses something that only the host can fetch.
    Want(Want),
    /// The batch cannot be proposed here and now.
    Returned(Batch),
    /// Proof that a replica broke the protocol: two signed statements that contradict each other.
    Evidence {
        /// The replica.
        against: Index,
        /// Both statements, encoded one after the other.
        proof: Bytes,
    },
}

/// Receivers of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// Every other replica.
    All,
    /// A single replica.
    One(Index),
}

/// Cryptographic work of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crypto {
    /// Sign these bytes with the own key; answered by [`Input::Signed`].
    Sign(Vec<u8>),
    /// Sign these bytes with the own share of a group's key; answered by [`Input::Signed`].
    Share {
        /// The group.
        group: Group,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Combine shares to a group's signature; answered by [`Input::Combined`]. A wrong share names its replica.
    Combine {
        /// The group.
        group: Group,
        /// Bytes that are signed.
        bytes: Vec<u8>,
        /// A share of each of enough replicas.
        shares: Vec<(Index, Bytes)>,
    },
}

/// Something to fetch from other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// The state at a checkpoint that at least one correct replica has; answered by [`Input::Installed`].
    State {
        /// The checkpoint.
        base: Base,
        /// Signed checkpoints that prove it to others.
        proof: Bytes,
    },
}

impl Want {
    /// The state at a checkpoint, with the statements that prove it.
    pub fn state<T: alloy_rlp::Encodable + alloy_rlp::Decodable>(base: Base, proof: &[Signed<T>]) -> Self {
        Self::State {
            base,
            proof: {
                let mut bytes = Vec::new();
                alloy_rlp::encode_list(proof, &mut bytes);
                bytes.into()
            },
        }
    }
}
