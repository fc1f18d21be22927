//! Certificates: votes of many replicas for one cut, complaints of many replicas about one view.

use super::{
    config::Config,
    statement::{Ack, Mark, PrepVote, Timeout, is_possible},
};
use crate::{
    core::{Claim, Domain, ReplicaSet, Signed, Slot, View},
    lanes::{Ballot, Cut, cut_digest, endorses},
};
use alloy_primitives::B256;
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};

/// Statement that the ballots of a certificate sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// PREP-VOTE.
    Prepare,
    /// CONFIRM-ACK.
    Confirm,
}

/// Votes of one phase for one cut: a PrepareQC, or a CommitQC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Qc {
    /// Slot.
    pub slot: Slot,
    /// View.
    pub view: View,
    /// Digest of the cut.
    pub digest: B256,
    /// Phase of the votes.
    pub phase: Phase,
    /// Votes.
    pub ballots: Vec<Ballot>,
}

#[derive(RlpEncodable, RlpDecodable)]
struct RawQc {
    slot: Slot,
    view: View,
    digest: B256,
    phase: u8,
    ballots: Vec<Ballot>,
}

impl Encodable for Qc {
    fn encode(&self, out: &mut dyn BufMut) {
        let Self { slot, view, digest, phase, ref ballots } = *self;
        let phase = 1 + u8::from(phase == Phase::Confirm);
        RawQc { slot, view, digest, phase, ballots: ballots.clone() }.encode(out);
    }
}

impl Decodable for Qc {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let RawQc { slot, view, digest, phase, ballots } = RawQc::decode(bytes)?;
        let phase = match phase {
            1 => Phase::Prepare,
            2 => Phase::Confirm,
            _ => return Err(Error::Custom("unknown phase")),
        };
        Ok(Self { slot, view, digest, phase, ballots })
    }
}

impl Qc {
    /// Value and view.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { view: self.view, digest: self.digest }
    }

    /// Returns true if the votes bind all other leaders of the view: n-f PREP-VOTEs.
    #[must_use]
    pub fn is_prepared(&self, config: &Config) -> bool {
        self.phase == Phase::Prepare && endorses(&self.ballots, config.quorum(), config.quorums.n())
    }

    /// Returns true if the votes decide: n PREP-VOTEs, or n-f CONFIRM-ACKs.
    #[must_use]
    pub fn is_commit(&self, config: &Config) -> bool {
        let n = config.quorums.n();
        let needed = if self.phase == Phase::Prepare { n } else { config.quorum() };
        endorses(&self.ballots, needed, n)
    }

    pub(super) fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        let Self { slot, view, digest, .. } = *self;
        match self.phase {
            Phase::Prepare => {
                let vote = PrepVote { slot, view, digest };
                claims.extend(self.ballots.iter().map(|ballot| ballot.claim(&vote, domain)));
            }
            Phase::Confirm => {
                let ack = Ack { slot, view, digest };
                claims.extend(self.ballots.iter().map(|ballot| ballot.claim(&ack, domain)));
            }
        }
    }
}

/// Timeout certificate: complaints of n-f replicas about one view, the ticket of the next one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Tc {
    /// Complaints, ascending by signer.
    pub timeouts: Vec<Signed<Timeout>>,
    /// The highest certificate that they name; none if they name none.
    pub qc: Vec<Qc>,
}

impl Tc {
    /// Slot and view, if the outside is right: n-f complaints of distinct replicas about one view, none of a view above, and the
    /// highest certificate that they name.
    #[must_use]
    pub fn of(&self, config: &Config) -> Option<(Slot, View)> {
        let first = self.timeouts.first()?.body;
        let mut signers = ReplicaSet::default();
        let whole = self.timeouts.len() == config.quorum()
            && self.timeouts.iter().all(|timeout| {
                (timeout.body.slot, timeout.body.view) == (first.slot, first.view)
                    && is_possible(&timeout.body)
                    && usize::from(timeout.signer.0) < config.quorums.n()
                    && signers.insert(timeout.signer)
            });
        let highest = self.timeouts.iter().filter_map(|timeout| timeout.body.qc.get()).map(|(view, _)| view).max();
        let proven = match (&self.qc[..], highest) {
            ([], None) => true,
            ([qc], Some(view)) => qc.slot == first.slot && qc.view == view && qc.is_prepared(config),
            _ => false,
        };
        (whole && proven).then_some((first.slot, first.view))
    }

    pub(super) fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        claims.extend(self.timeouts.iter().map(|timeout| timeout.claim(domain)));
        self.qc.iter().for_each(|qc| qc.claims(domain, claims));
    }
}

/// TIMEOUT with what it names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Complaint {
    /// The signed complaint.
    pub timeout: Signed<Timeout>,
    /// The certificate that it names, if any.
    pub qc: Vec<Qc>,
    /// The cut that the replica has voted for; empty if none.
    pub cut: Cut,
    /// The leader's own vote for that cut, if the replica still has it: two leaders' votes of one view are evidence.
    pub lead: Vec<Signed<PrepVote>>,
}

impl Complaint {
    /// Returns true if the complaint carries what it names.
    #[must_use]
    pub fn is_whole(&self, config: &Config) -> bool {
        let Timeout { slot, qc, prop, .. } = self.timeout.body;
        let proven = match (&self.qc[..], qc.get()) {
            ([], None) => true,
            ([proof], Some(_)) => proof.slot == slot && proof.mark() == qc && proof.is_prepared(config),
            _ => false,
        };
        let shown = match prop.get() {
            Some((_, digest)) => self.cut.len() == config.quorums.n() && cut_digest(&self.cut) == digest,
            None => self.cut.is_empty(),
        };
        let led = match (&self.lead[..], prop.get()) {
            ([], _) => true,
            ([lead], Some((view, digest))) => {
                lead.body == PrepVote { slot, view, digest } && lead.signer == config.leader(slot, view)
            }
            _ => false,
        };
        proven && shown && led && is_possible(&self.timeout.body)
    }

    pub(super) fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        claims.push(self.timeout.claim(domain));
        self.qc.iter().for_each(|qc| qc.claims(domain, claims));
        claims.extend(self.lead.iter().map(|lead| lead.claim(domain)));
    }
}
