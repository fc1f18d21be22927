//! Everything that a history's replicas do, as numbers and a hash.

use alloy_primitives::keccak256;
use core::fmt;
use phalanx_bft::{Base, Batch, Input, NULL, Out, To, Want};
use phalanx_world::Facts;

/// The effects, counted, and hashed in their order.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) records: u32,
    pub(super) messages: u32,
    pub(super) decisions: u32,
    /// Changed messages that a copy of a replica has taken, and those that it refused.
    pub(super) taken: u32,
    pub(super) refused: u32,
    pub(super) hash: u64,
}

/// As a line of the pins.
impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, messages, decisions, taken, refused, hash } = self;
        write!(f, "[{records}, {messages}, {decisions}, {taken}, {refused}, {hash:#018x}]")
    }
}

impl Trace {
    pub(super) const fn of([records, messages, decisions, taken, refused, hash]: [u64; 6]) -> Self {
        let [records, messages, decisions] = [records as u32, messages as u32, decisions as u32];
        Self { records, messages, decisions, taken: taken as u32, refused: refused as u32, hash }
    }

    pub(super) fn note(&mut self, bytes: &[u8]) {
        let hash = keccak256([&self.hash.to_be_bytes(), bytes].concat());
        self.hash = hash.0.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }

    pub(super) fn effect<P: Facts>(&mut self, effect: &Out<P>) {
        let digest = |batch: &Option<Batch>| batch.as_ref().map_or(NULL, Batch::digest);
        let text = match effect {
            Out::Persist(record) => {
                self.records += 1;
                return self.note(&[b"record".as_slice(), &alloy_rlp::encode(record)].concat());
            }
            Out::Send(to, message) => {
                self.messages += 1;
                let to = if let To::One(to) = to { to.0 } else { u16::MAX };
                return self.note(&[&to.to_be_bytes(), alloy_rlp::encode(message).as_slice()].concat());
            }
            Out::Timer(timer, after) => format!("set {timer:?} {after}"),
            Out::Cancel(timer) => format!("cancel {timer:?}"),
            Out::Work { job, crypto } => format!("work {job} {crypto:?}"),
            Out::Proposed { slot, view, batch } => format!("proposed {slot} {view} {}", digest(batch)),
            Out::OrderVoted { slot, view } => format!("voted {slot} {view}"),
            Out::Decided { slot, batch } => {
                self.decisions += 1;
                format!("decided {slot} {}", digest(batch))
            }
            Out::Certificate { slot, digest, signature, answers } => {
                format!("certificate {slot} {digest} {signature} {answers}")
            }
            Out::Conflict { slot } => format!("conflict {slot}"),
            Out::Stable { base: Base { slot, digest }, proof } => format!("stable {slot} {digest} {proof}"),
            Out::Want(Want::State { base: Base { slot, digest }, proof }) => format!("state {slot} {digest} {proof}"),
            Out::Returned(batch) => format!("returned {}", batch.digest()),
            Out::Evidence { against, proof } => format!("evidence {} {proof}", against.0),
        };
        self.note(text.as_bytes());
    }

    pub(super) fn input(&mut self, input: &Input) {
        self.note(format!("{input:?}").as_bytes());
    }
}
