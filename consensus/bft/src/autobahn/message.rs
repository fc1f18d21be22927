//! Messages and their encoding.

use super::{
    certificate::{Complaint, Qc, Tc},
    statement::{Ack, Checkpoint, PrepVote},
};
use crate::{
    core::{Claim, Domain, Index, MAX_REPLICAS, Message, Signed, Slot, View, short},
    lanes::{Ballot, Car, Certificate, Cut, LaneVote, Tip, cut_digest},
};
use alloy_primitives::B256;
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};

/// Maximum number of cars in one answer.
pub(super) const MOST_CARS: usize = 4_096;

/// PREPARE.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Prepare {
    /// The leader's own vote: its signature on slot, view and cut.
    pub vote: Signed<PrepVote>,
    /// The cut.
    pub cut: Cut,
    /// Certificates of tips.
    pub proofs: Vec<Certificate>,
    /// In view 0: what decided the slot k before, if there is one.
    pub commit: Vec<Qc>,
    /// In later views: the timeout certificate of the view before.
    pub tc: Vec<Tc>,
}

/// COMMIT.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Commit {
    /// Certificate that decides the slot.
    pub qc: Qc,
    /// The cut, for a replica that may have missed it; otherwise empty.
    pub cut: Cut,
}

/// SYNC: asks for a car and its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Sync {
    /// Lane.
    pub lane: Index,
    /// Newest car.
    pub tip: Tip,
    /// Cars at or below this position are not needed.
    pub above: u64,
}

/// Asks for a cut by digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct WantCut {
    /// Slot.
    pub slot: Slot,
    /// Digest.
    pub digest: B256,
}

/// Answers [`WantCut`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct CutOf {
    /// Slot.
    pub slot: Slot,
    /// The cut.
    pub cut: Cut,
}

/// Tells how far a replica is, so that others repeat what it misses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Status {
    /// Every slot up to this one is decided, and its cars are here.
    pub done: Slot,
    /// Slot of the stable checkpoint.
    pub stable: Slot,
    /// Certified tips above the committed ones: a lane may have hidden them from others.
    pub tips: Vec<Certificate>,
}

/// A message between replicas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Msg {
    /// A new car.
    Car(Car),
    /// A vote on a car, for its owner.
    LaneVote(Signed<LaneVote>),
    /// Proof of availability.
    Certificate(Certificate),
    /// The leader's proposal.
    Prepare(Prepare),
    /// A vote on it.
    Vote(Signed<PrepVote>),
    /// n-f votes.
    Confirm(Qc),
    /// A replica has them: the order vote.
    Ack(Signed<Ack>),
    /// A slot is decided.
    Commit(Commit),
    /// A replica gives up a view.
    Timeout(Complaint),
    /// n-f replicas do.
    Tc(Tc),
    /// Asks for cars.
    Sync(Sync),
    /// Answers [`Msg::Sync`], newest car first.
    Cars(Vec<Car>),
    /// Asks for a cut.
    WantCut(WantCut),
    /// Answers [`Msg::WantCut`].
    Cut(CutOf),
    /// Progress of a replica.
    Status(Status),
    /// A replica has executed up to a checkpoint.
    Checkpoint(Signed<Checkpoint>),
    /// A quorum has: for a replica that is far behind.
    Stable(Vec<Signed<Checkpoint>>),
}

impl Msg {
    const fn kind(&self) -> u8 {
        match self {
            Self::Car(_) => 1,
            Self::LaneVote(_) => 2,
            Self::Certificate(_) => 3,
            Self::Prepare(_) => 4,
            Self::Vote(_) => 5,
            Self::Confirm(_) => 6,
            Self::Ack(_) => 7,
            Self::Commit(_) => 8,
            Self::Timeout(_) => 9,
            Self::Tc(_) => 10,
            Self::Sync(_) => 11,
            Self::Cars(_) => 12,
            Self::WantCut(_) => 13,
            Self::Cut(_) => 14,
            Self::Status(_) => 15,
            Self::Checkpoint(_) => 16,
            Self::Stable(_) => 17,
        }
    }

    fn body(&self) -> &dyn Encodable {
        match self {
            Self::Car(body) => body,
            Self::LaneVote(body) => body,
            Self::Certificate(body) => body,
            Self::Prepare(body) => body,
            Self::Vote(body) => body,
            Self::Confirm(body) => body,
            Self::Ack(body) => body,
            Self::Commit(body) => body,
            Self::Timeout(body) => body,
            Self::Tc(body) => body,
            Self::Sync(body) => body,
            Self::Cars(body) => body,
            Self::WantCut(body) => body,
            Self::Cut(body) => body,
            Self::Status(body) => body,
            Self::Checkpoint(body) => body,
            Self::Stable(body) => body,
        }
    }

    /// Number of elements that each list has at most, so that no message asks for more verifications than a correct one.
    fn is_bounded(&self) -> bool {
        let ballots = |ballots: &[Ballot]| ballots.len() <= MAX_REPLICAS;
        let qcs = |qcs: &[Qc]| qcs.len() <= 1 && qcs.iter().all(|qc| ballots(&qc.ballots));
        let tc = |tc: &Tc| tc.timeouts.len() <= MAX_REPLICAS && qcs(&tc.qc);
        let tips = |tips: &[Certificate]| tips.len() <= MAX_REPLICAS && tips.iter().all(|tip| ballots(&tip.ballots));
        match self {
            Self::Car(car) => ballots(&car.proof),
            Self::Certificate(certificate) => ballots(&certificate.ballots),
            Self::Prepare(prepare) => {
                prepare.cut.len() <= MAX_REPLICAS
                    && tips(&prepare.proofs)
                    && qcs(&prepare.commit)
                    && prepare.tc.len() <= 1
                    && prepare.tc.iter().all(tc)
            }
            Self::Confirm(qc) => ballots(&qc.ballots),
            Self::Commit(commit) => ballots(&commit.qc.ballots) && commit.cut.len() <= MAX_REPLICAS,
            Self::Timeout(complaint) => {
                qcs(&complaint.qc) && complaint.cut.len() <= MAX_REPLICAS && complaint.lead.len() <= 1
            }
            Self::Tc(body) => tc(body),
            Self::Cars(cars) => cars.len() <= MOST_CARS && cars.iter().all(|car| ballots(&car.proof)),
            Self::Cut(body) => body.cut.len() <= MAX_REPLICAS,
            Self::Status(status) => tips(&status.tips),
            Self::Checkpoint(signed) => signed.body.frontier.len() <= MAX_REPLICAS,
            Self::Stable(proof) => {
                proof.len() <= MAX_REPLICAS && proof.iter().all(|signed| signed.body.frontier.len() <= MAX_REPLICAS)
            }
            Self::LaneVote(_) | Self::Vote(_) | Self::Ack(_) | Self::Sync(_) | Self::WantCut(_) => true,
        }
    }
}

/// Encodes a byte of kind, then the body.
impl Encodable for Msg {
    fn encode(&self, out: &mut dyn BufMut) {
        out.put_u8(self.kind());
        self.body().encode(out);
    }

    fn length(&self) -> usize {
        1 + self.body().length()
    }
}

impl Decodable for Msg {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        let message = match kind {
            1 => Self::Car(Decodable::decode(bytes)?),
            2 => Self::LaneVote(Decodable::decode(bytes)?),
            3 => Self::Certificate(Decodable::decode(bytes)?),
            4 => Self::Prepare(Decodable::decode(bytes)?),
            5 => Self::Vote(Decodable::decode(bytes)?),
            6 => Self::Confirm(Decodable::decode(bytes)?),
            7 => Self::Ack(Decodable::decode(bytes)?),
            8 => Self::Commit(Decodable::decode(bytes)?),
            9 => Self::Timeout(Decodable::decode(bytes)?),
            10 => Self::Tc(Decodable::decode(bytes)?),
            11 => Self::Sync(Decodable::decode(bytes)?),
            12 => Self::Cars(Decodable::decode(bytes)?),
            13 => Self::WantCut(Decodable::decode(bytes)?),
            14 => Self::Cut(Decodable::decode(bytes)?),
            15 => Self::Status(Decodable::decode(bytes)?),
            16 => Self::Checkpoint(Decodable::decode(bytes)?),
            17 => Self::Stable(Decodable::decode(bytes)?),
            _ => return Err(Error::Custom("unknown kind of message")),
        };
        if message.is_bounded() { Ok(message) } else { Err(Error::Custom("longer lists than any correct message has")) }
    }
}

impl Message for Msg {
    fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        match self {
            Self::Car(car) => car.claims(domain, claims),
            Self::LaneVote(signed) => claims.push(signed.claim(domain)),
            Self::Certificate(certificate) => certificate.claims(domain, claims),
            Self::Prepare(prepare) => {
                claims.push(prepare.vote.claim(domain));
                prepare.proofs.iter().for_each(|proof| proof.claims(domain, claims));
                prepare.commit.iter().for_each(|qc| qc.claims(domain, claims));
                prepare.tc.iter().for_each(|tc| tc.claims(domain, claims));
            }
            Self::Vote(signed) => claims.push(signed.claim(domain)),
            Self::Confirm(qc) => qc.claims(domain, claims),
            Self::Ack(signed) => claims.push(signed.claim(domain)),
            Self::Commit(commit) => commit.qc.claims(domain, claims),
            Self::Timeout(complaint) => complaint.claims(domain, claims),
            Self::Tc(tc) => tc.claims(domain, claims),
            Self::Cars(cars) => cars.iter().for_each(|car| car.claims(domain, claims)),
            Self::Status(status) => status.tips.iter().for_each(|tip| tip.claims(domain, claims)),
            Self::Checkpoint(signed) => claims.push(signed.claim(domain)),
            Self::Stable(proof) => claims.extend(proof.iter().map(|signed| signed.claim(domain))),
            Self::Sync(_) | Self::WantCut(_) | Self::Cut(_) => {}
        }
    }

    fn informs(&self) -> bool {
        let decided = matches!(self, Self::Commit(_) | Self::Checkpoint(_) | Self::Stable(_) | Self::Status(_));
        decided || matches!(self, Self::Sync(_) | Self::Cars(_) | Self::WantCut(_) | Self::Cut(_))
    }

    fn label(&self) -> u64 {
        let of = |slot: Slot, view: View, digest: &B256| view ^ slot << 16 ^ short(digest);
        let fields = match self {
            Self::Car(car) => short(&car.header.body.digest()),
            Self::LaneVote(signed) => short(&signed.body.tip.digest),
            Self::Certificate(certificate) => short(&certificate.tip.digest),
            Self::Prepare(Prepare { vote, .. }) => of(vote.body.slot, vote.body.view, &vote.body.digest),
            Self::Vote(signed) => of(signed.body.slot, signed.body.view, &signed.body.digest),
            Self::Confirm(qc) | Self::Commit(Commit { qc, .. }) => of(qc.slot, qc.view, &qc.digest),
            Self::Ack(signed) => of(signed.body.slot, signed.body.view, &signed.body.digest),
            Self::Timeout(complaint) => complaint.timeout.body.view ^ complaint.timeout.body.slot << 16,
            Self::Tc(tc) => tc.timeouts.first().map_or(0, |timeout| timeout.body.view ^ timeout.body.slot << 16),
            Self::Sync(sync) => short(&sync.tip.digest),
            Self::Cars(cars) => cars.first().map_or(0, |car| short(&car.header.body.digest())),
            Self::WantCut(want) => want.slot << 16 ^ short(&want.digest),
            Self::Cut(body) => body.slot << 16 ^ short(&cut_digest(&body.cut)),
            Self::Status(status) => status.done ^ status.stable << 32,
            Self::Checkpoint(signed) => signed.body.slot << 16 ^ short(&signed.body.digest),
            Self::Stable(proof) => proof.first().map_or(0, |signed| signed.body.slot << 16),
        };
        u64::from(self.kind()) << 56 ^ fields
    }
}
