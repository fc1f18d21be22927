//! Messages and their encoding.

use super::{
    certificate::{Complaint, Qc, Tc},
    statement::{Ack, Checkpoint, PrepVote},
};
use crate::{
    core::{Batch, Claim, Domain, Index, MAX_REPLICAS, Message, Signed, Slot, View, at_most, short, tagged},
    lanes::{Ballot, Car, Certificate, Cut, LaneVote, Tip, cut_digest},
};
use alloy_primitives::B256;
use alloy_rlp::{RlpDecodable, RlpEncodable};

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

tagged! {
    Msg, "message",
    1 => Car(body),
    2 => LaneVote(body),
    3 => Certificate(body),
    4 => Prepare(body),
    5 => Vote(body),
    6 => Confirm(body),
    7 => Ack(body),
    8 => Commit(body),
    9 => Timeout(body),
    10 => Tc(body),
    11 => Sync(body),
    12 => Cars(body),
    13 => WantCut(body),
    14 => Cut(body),
    15 => Status(body),
    16 => Checkpoint(body),
    17 => Stable(body),
}

impl Msg {
    fn bounds(&self) -> alloy_rlp::Result<()> {
        at_most(usize::from(!self.is_bounded()), 0, "longer lists than any correct message has")
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

    fn batches(&self) -> Vec<&Batch> {
        match self {
            Self::Car(car) => vec![&car.batch],
            Self::Cars(cars) => cars.iter().map(|car| &car.batch).collect(),
            _ => Vec::new(),
        }
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
