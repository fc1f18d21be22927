//! Facts about a protocol: what its messages, records and states mean to the worlds it lives in.

/// Facts that constants with replicas and a domain state themselves. Names are those of the file that uses it.
macro_rules! of_config {
    () => {
        fn quorums(config: &Config) -> Quorums {
            config.quorums
        }

        fn domain(config: &Config) -> Domain {
            config.domain
        }
    };
}

/// Facts of a protocol with a primary that its constants and its replicas state themselves.
macro_rules! of_primary {
    () => {
        of_config!();

        fn is_in_flight(&self, digest: B256) -> bool {
            Self::is_in_flight(self, digest)
        }

        fn decided(&self) -> Slot {
            Self::decided(self)
        }

        fn stable(&self) -> Slot {
            Self::stable(self).slot
        }

        fn decision(&self, slot: Slot) -> Option<B256> {
            Self::decision(self, slot)
        }

        fn is_active(&self) -> bool {
            Self::is_active(self)
        }

        fn leads(message: &Msg) -> bool {
            matches!(message, Msg::PrePrepare(_) | Msg::NewView(_))
        }
    };
}

mod autobahn;
mod hotstuff;
mod pbft;
mod sbft;

use crate::liar::{Liar, Lie};
use alloy_primitives::B256;
use alloy_rlp::{Decodable, Encodable};
use phalanx_bft::{Domain, Message as _, Micros, Protocol, Quorums, Slot, View};

/// Vote of a replica: kind, view, slot, digest. Of one kind, view and slot, a correct replica has one digest at most.
pub type Vote = (u8, View, Slot, B256);

/// Kinds of votes.
pub mod kind {
    /// A proposal.
    pub const PROPOSAL: u8 = 0;
    /// A vote on a proposal.
    pub const VOTE: u8 = 1;
    /// The order vote, which locks a batch: its record is durable before it leaves.
    pub const ORDER: u8 = 2;
    /// A certificate of votes.
    pub const CERTIFICATE: u8 = 3;
    /// A car of a lane. View: the lane where it is not the sender's own.
    pub const CAR: u8 = 4;
    /// A vote on a car.
    pub const LANE_VOTE: u8 = 5;
    /// A certified car.
    pub const CERTIFIED: u8 = 6;
    /// A complaint about a view.
    pub const COMPLAINT: u8 = 7;
}

/// Times that worlds set for every protocol.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Slots between two checkpoints.
    pub interval: u64,
    /// Patience with a leader.
    pub timeout: Micros,
    /// Time between two repetitions of what may have been lost.
    pub resend: Micros,
}

/// Check of a message by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Nothing, or shares, which are checked when they are combined.
    Nothing,
    /// A vote that its replica has signed.
    Vote,
    /// A statement that its replica has signed.
    Statement,
    /// A group's signature.
    Group,
}

/// A protocol that lives in worlds. Only what has no default is needed for every protocol.
pub trait Facts: Protocol<Msg: PartialEq, Record: PartialEq + Encodable + Decodable> {
    /// Replicas and faults of a run.
    fn quorums(config: &Self::Config) -> Quorums;

    /// Domain of a run's signatures.
    fn domain(config: &Self::Config) -> Domain;

    /// Constants of a run.
    fn config(quorums: Quorums, domain: Domain, pace: Pace) -> Self::Config;

    /// The vote in a message.
    fn vote(message: &Self::Msg) -> Option<Vote>;

    /// Returns true if the record makes the order vote of this view and slot durable; without a digest, any.
    fn locks(record: &Self::Record, view: View, slot: Slot, digest: Option<B256>) -> bool;

    /// Returns true if the replica has proposed, or shall propose, this batch.
    fn is_in_flight(&self, digest: B256) -> bool;

    /// Every slot up to this one is decided.
    fn decided(&self) -> Slot;

    /// Last slot of the stable checkpoint.
    fn stable(&self) -> Slot;

    /// The digest that is decided in a slot, as far as the replica still has it.
    fn decision(&self, slot: Slot) -> Option<B256> {
        let _ = slot;
        None
    }

    /// Returns true if the replica's view is open.
    fn is_active(&self) -> bool {
        true
    }

    /// Returns true if only a leader sends the message.
    fn leads(message: &Self::Msg) -> bool {
        let _ = message;
        false
    }

    /// The tenure that a message gives up: slot and view as one number.
    fn gives_up(message: &Self::Msg) -> Option<u64> {
        let _ = message;
        None
    }

    /// Signatures in a message.
    fn signatures(message: &Self::Msg, quorums: Quorums) -> u64 {
        let _ = quorums;
        let mut claims = Vec::new();
        message.claims(Domain::default(), &mut claims);
        claims.len() as u64
    }

    /// Check of a message by its receiver.
    fn verified(message: &Self::Msg) -> Verified {
        let _ = message;
        Verified::Statement
    }

    /// Returns true for a vote on a checkpoint.
    fn is_checkpoint(message: &Self::Msg) -> bool {
        let _ = message;
        false
    }

    /// Returns true for the record of a decision on a fast path.
    fn is_fast(record: &Self::Record) -> bool {
        let _ = record;
        false
    }

    /// Equal answers that a client waits for.
    fn answers(quorums: Quorums) -> usize {
        quorums.one_correct()
    }

    /// Fewer answers, with which a client begins a second phase when it loses patience.
    fn answers_late(quorums: Quorums) -> Option<usize> {
        let _ = quorums;
        None
    }

    /// Returns true if a proof convicts this replica.
    fn convicts(proof: &[u8], against: phalanx_bft::Index, domain: Domain) -> bool {
        let _ = (proof, against, domain);
        true
    }

    /// Returns true if a traitor's next signature or share is wrong.
    fn spoils(liar: &mut Liar<'_>) -> bool {
        liar.chance(1, 4)
    }

    /// Messages that a traitor sends instead of a correct one. By default one of three is the truth, and one of six is none.
    fn betray(message: &Self::Msg, liar: &mut Liar<'_>) -> Vec<Self::Msg> {
        liar.answer(message, Self::lie)
    }

    /// Messages that contradict what a correct replica sends: other proposals, votes for anything, invented reports.
    fn lie(message: &Self::Msg, lie: &Lie) -> Vec<Self::Msg> {
        let _ = lie;
        vec![message.clone()]
    }
}
