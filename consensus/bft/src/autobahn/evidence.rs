//! Proof that a replica broke the protocol: two statements that no correct replica signs both, across crashes.
//!
//! Every rule here follows from what is durable before a statement leaves. A pair convicts its signer on its own: it needs neither
//! a third statement nor trust in other replicas.

use super::statement::{Ack, Checkpoint, Mark, PrepVote, Timeout};
use crate::{
    core::{Claim, Domain, Index, Signed, Statement, View},
    lanes::{Header, LaneVote},
};
use alloy_primitives::B256;
use alloy_rlp::{BufMut, Decodable, Encodable, Error};

/// A signed statement that another one may contradict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Testimony {
    /// A car of the signer's lane.
    Car(Signed<Header>),
    /// A vote on a car.
    LaneVote(Signed<LaneVote>),
    /// A proposal, or a vote on one.
    Vote(Signed<PrepVote>),
    /// An order vote.
    Ack(Signed<Ack>),
    /// A complaint.
    Timeout(Signed<Timeout>),
    /// A checkpoint.
    Checkpoint(Signed<Checkpoint>),
}

impl Testimony {
    /// Replica that is said to have signed.
    #[must_use]
    pub const fn signer(&self) -> Index {
        match self {
            Self::Car(signed) => signed.signer,
            Self::LaneVote(signed) => signed.signer,
            Self::Vote(signed) => signed.signer,
            Self::Ack(signed) => signed.signer,
            Self::Timeout(signed) => signed.signer,
            Self::Checkpoint(signed) => signed.signer,
        }
    }

    /// The claim that has to hold before the statement proves anything.
    #[must_use]
    pub fn claim(&self, domain: Domain) -> Claim {
        match self {
            Self::Car(signed) => signed.claim(domain),
            Self::LaneVote(signed) => signed.claim(domain),
            Self::Vote(signed) => signed.claim(domain),
            Self::Ack(signed) => signed.claim(domain),
            Self::Timeout(signed) => signed.claim(domain),
            Self::Checkpoint(signed) => signed.claim(domain),
        }
    }

    /// Returns true if no correct replica signs both statements:
    ///
    /// - two cars of a lane at one position, or votes for two of them, or an owner's vote for a car that it did not make;
    /// - votes, or order votes, for two cuts in one view of a slot;
    /// - a complaint that hides the signer's vote or order vote, or that comes before one in the same view;
    /// - two complaints about one view, or a later one that names other votes up to the view of the earlier;
    /// - two checkpoints of one slot.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        self.signer() == other.signer() && (clash(self, other) || clash(other, self))
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Car(_) => Header::KIND,
            Self::LaneVote(_) => LaneVote::KIND,
            Self::Vote(_) => PrepVote::KIND,
            Self::Ack(_) => Ack::KIND,
            Self::Timeout(_) => Timeout::KIND,
            Self::Checkpoint(_) => Checkpoint::KIND,
        }
    }
}

/// Contradiction of [`Testimony::contradicts`] in one direction. The signers are equal.
fn clash(one: &Testimony, other: &Testimony) -> bool {
    match (one, other) {
        (Testimony::Car(a), Testimony::Car(b)) => {
            (a.body.lane, a.body.position) == (b.body.lane, b.body.position) && a.body != b.body
        }
        (Testimony::Car(car), Testimony::LaneVote(vote)) => {
            (car.body.lane, car.body.position) == (vote.body.lane, vote.body.tip.position)
                && car.body.digest() != vote.body.tip.digest
        }
        (Testimony::LaneVote(a), Testimony::LaneVote(b)) => {
            (a.body.lane, a.body.tip.position) == (b.body.lane, b.body.tip.position) && a.body != b.body
        }
        (Testimony::Vote(a), Testimony::Vote(b)) => {
            (a.body.slot, a.body.view) == (b.body.slot, b.body.view) && a.body != b.body
        }
        (Testimony::Ack(a), Testimony::Ack(b)) => {
            (a.body.slot, a.body.view) == (b.body.slot, b.body.view) && a.body != b.body
        }
        (Testimony::Timeout(complaint), Testimony::Vote(vote)) => {
            let Timeout { slot, view, prop, .. } = complaint.body;
            slot == vote.body.slot && hides(view, prop, vote.body.view, vote.body.digest)
        }
        (Testimony::Timeout(complaint), Testimony::Ack(ack)) => {
            let Timeout { slot, view, qc, .. } = complaint.body;
            slot == ack.body.slot && hides(view, qc, ack.body.view, ack.body.digest)
        }
        (Testimony::Timeout(a), Testimony::Timeout(b)) => {
            let (a, b) = (a.body, b.body);
            let changed = |before: Mark, after: Mark| {
                // What is voted for later is voted for above the view that was given up.
                before != after && after.get().is_none_or(|(view, _)| view <= a.view)
            };
            a.slot == b.slot
                && (a.view == b.view && a != b || a.view < b.view && (changed(a.prop, b.prop) || changed(a.qc, b.qc)))
        }
        (Testimony::Checkpoint(a), Testimony::Checkpoint(b)) => a.body.slot == b.body.slot && a.body != b.body,
        _ => false,
    }
}

/// Returns true if a complaint about a view, whose highest vote is `named`, leaves a vote out: one of that view or below that is
/// neither named nor older than the named one.
fn hides(given_up: View, named: Mark, view: View, digest: B256) -> bool {
    view <= given_up && named != Mark { view, digest } && named.get().is_none_or(|(named, _)| view >= named)
}

/// Encodes the kind of the statement, then the statement with its signature.
impl Encodable for Testimony {
    fn encode(&self, out: &mut dyn BufMut) {
        out.put_u8(self.kind());
        match self {
            Self::Car(signed) => signed.encode(out),
            Self::LaneVote(signed) => signed.encode(out),
            Self::Vote(signed) => signed.encode(out),
            Self::Ack(signed) => signed.encode(out),
            Self::Timeout(signed) => signed.encode(out),
            Self::Checkpoint(signed) => signed.encode(out),
        }
    }
}

impl Decodable for Testimony {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match *kind {
            Header::KIND => Self::Car(Decodable::decode(bytes)?),
            LaneVote::KIND => Self::LaneVote(Decodable::decode(bytes)?),
            PrepVote::KIND => Self::Vote(Decodable::decode(bytes)?),
            Ack::KIND => Self::Ack(Decodable::decode(bytes)?),
            Timeout::KIND => Self::Timeout(Decodable::decode(bytes)?),
            Checkpoint::KIND => Self::Checkpoint(Decodable::decode(bytes)?),
            _ => return Err(Error::Custom("unknown kind of statement")),
        })
    }
}

/// The replica that a proof of [`Out::Evidence`](crate::Out::Evidence) convicts: two [`Testimony`]s, one after the other, that
/// contradict each other and whose signatures `verify` confirms. `None` if the bytes prove nothing.
#[must_use]
pub fn convict(proof: &[u8], domain: Domain, verify: impl FnOnce(&[Claim]) -> bool) -> Option<Index> {
    let mut rest = proof;
    let (one, other) = (Testimony::decode(&mut rest).ok()?, Testimony::decode(&mut rest).ok()?);
    let proven = rest.is_empty() && one.contradicts(&other) && verify(&[one.claim(domain), other.claim(domain)]);
    proven.then(|| one.signer())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;

    const SLOT: u64 = 5;

    fn signed<T: Encodable + Decodable>(signer: u16, body: T) -> Signed<T> {
        Signed { signer: Index(signer), signature: Bytes::from_static(&[1, 2, 3]), body }
    }

    fn digest(of: u8) -> B256 {
        B256::repeat_byte(of)
    }

    fn vote(view: View, of: u8) -> Testimony {
        Testimony::Vote(signed(1, PrepVote { slot: SLOT, view, digest: digest(of) }))
    }

    fn ack(view: View, of: u8) -> Testimony {
        Testimony::Ack(signed(1, Ack { slot: SLOT, view, digest: digest(of) }))
    }

    fn mark(view: View, of: u8) -> Mark {
        Mark { view, digest: digest(of) }
    }

    fn complaint(view: View, qc: Mark, prop: Mark) -> Testimony {
        Testimony::Timeout(signed(1, Timeout { slot: SLOT, view, qc, prop }))
    }

    #[track_caller]
    fn check(one: &Testimony, other: &Testimony, expected: bool) {
        assert_eq!(one.contradicts(other), expected, "{one:?} {other:?}");
        assert_eq!(other.contradicts(one), expected, "the order of the two matters");
    }

    /// Everything that one correct replica may say of a slot, and a lie beside each.
    #[test]
    fn complaints_name_the_votes_before_them() {
        let none = Mark::default();
        check(&vote(0, 1), &vote(0, 1), false);
        check(&vote(0, 1), &vote(1, 2), false);
        check(&vote(0, 1), &vote(0, 2), true);
        check(&ack(3, 1), &ack(3, 2), true);
        check(&ack(3, 1), &ack(4, 2), false);
        check(&vote(0, 1), &ack(0, 2), false);
        check(&complaint(2, none, mark(1, 1)), &vote(1, 1), false);
        check(&complaint(2, none, mark(1, 1)), &vote(0, 2), false);
        check(&complaint(2, none, mark(1, 1)), &vote(3, 2), false);
        check(&complaint(2, none, mark(1, 1)), &vote(1, 2), true);
        check(&complaint(2, none, mark(1, 1)), &vote(2, 1), true);
        check(&complaint(2, none, none), &vote(0, 1), true);
        check(&complaint(2, none, none), &ack(2, 1), true);
        check(&complaint(2, mark(2, 1), none), &ack(2, 1), false);
        check(&complaint(2, mark(1, 1), none), &ack(2, 1), true);
        check(&complaint(2, mark(1, 1), none), &ack(0, 2), false);
    }

    #[test]
    fn complaints_agree_on_the_past() {
        let none = Mark::default();
        check(&complaint(1, none, mark(0, 1)), &complaint(1, none, mark(0, 1)), false);
        check(&complaint(1, none, mark(0, 1)), &complaint(1, none, none), true);
        check(&complaint(1, none, mark(0, 1)), &complaint(3, none, mark(0, 1)), false);
        check(&complaint(1, none, mark(0, 1)), &complaint(3, none, mark(2, 2)), false);
        check(&complaint(1, none, mark(0, 1)), &complaint(3, none, mark(1, 1)), true);
        check(&complaint(1, none, mark(0, 1)), &complaint(3, none, none), true);
        check(&complaint(1, mark(1, 1), none), &complaint(2, none, none), true);
        check(&complaint(1, mark(1, 1), none), &complaint(2, mark(2, 2), none), false);
    }

    #[test]
    fn lanes_and_checkpoints_have_one_branch() {
        let header = |position, of| {
            let body = Header { lane: Index(1), position, parent: B256::ZERO, batch: digest(of) };
            Testimony::Car(signed(1, body))
        };
        let lane_vote = |signer, position, of| {
            let tip = crate::lanes::Tip { position, digest: digest(of) };
            Testimony::LaneVote(signed(signer, LaneVote { lane: Index(1), tip }))
        };
        check(&header(1, 1), &header(1, 2), true);
        check(&header(1, 1), &header(2, 2), false);
        check(&header(1, 1), &lane_vote(1, 1, 7), true);
        check(&header(1, 1), &lane_vote(1, 2, 7), false);
        check(&header(1, 1), &lane_vote(2, 1, 7), false);
        check(&lane_vote(2, 1, 7), &lane_vote(2, 1, 8), true);
        check(&lane_vote(2, 1, 7), &lane_vote(3, 1, 8), false);
        let checkpoint = |height| {
            let body = Checkpoint { slot: 8, height, digest: digest(1), frontier: Vec::new() };
            Testimony::Checkpoint(signed(1, body))
        };
        check(&checkpoint(3), &checkpoint(3), false);
        check(&checkpoint(3), &checkpoint(4), true);
    }

    #[test]
    fn a_proof_is_two_statements_with_two_signatures() {
        let (one, other) = (vote(0, 1), vote(0, 2));
        let proof = [alloy_rlp::encode(&one), alloy_rlp::encode(&other)].concat();
        let domain = Domain::default();
        assert_eq!(convict(&proof, domain, |claims| claims.len() == 2), Some(Index(1)));
        assert_eq!(convict(&proof, domain, |_| false), None, "a signature is wrong");
        assert_eq!(convict(&proof[..proof.len() - 1], domain, |_| true), None, "cut short");
        assert_eq!(convict(&[proof.as_slice(), &[0]].concat(), domain, |_| true), None, "more than two");
        let equal = [alloy_rlp::encode(&one), alloy_rlp::encode(&one)].concat();
        assert_eq!(convict(&equal, domain, |_| true), None, "no contradiction");
        assert_eq!(convict(&[99, 1], domain, |_| true), None, "no statement");
    }
}
