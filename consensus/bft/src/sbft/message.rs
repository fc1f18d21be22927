//! Messages and log records.

use crate::core::{
    Base, Batch, Claim, Domain, Group, Index, MAX_REPLICAS, Message, Signed, Slot, Statement, View, at_most, short,
    tagged,
};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{RlpDecodable, RlpDecodableWrapper, RlpEncodable, RlpEncodableWrapper};

/// A message between replicas. Shares are checked when they are combined, everything else before it is handled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Msg {
    /// The primary's proposal: PRE-PREPARE.
    PrePrepare(PrePrepare),
    /// Shares of σ and τ, for the commit collectors: SIGN-SHARE.
    SignShare(SignShare),
    /// A replica's share over a prepared batch, for the commit collectors: COMMIT.
    Commit(CommitShare),
    /// τ over a proposal: PREPARE.
    Prepare(Certificate),
    /// A decision with its proof: FULL-COMMIT-PROOF and FULL-COMMIT-PROOF-SLOW.
    Decided(Decision),
    /// A share of π over the state after a slot, for the execution collectors: SIGN-STATE.
    SignState(StateShare),
    /// π over the state after a slot: FULL-EXECUTE-PROOF.
    Executed(Executed, Bytes),
    /// A share of τ over a checkpoint.
    SignCheckpoint(StateShare),
    /// A stable checkpoint.
    Stable(Stable),
    /// Two proposals of one slot and view by its primary.
    Equivocation(Box<Signed<Proposal>>, Box<Signed<Proposal>>),
    /// A replica gives up its view.
    ViewChange(Signed<ViewChange>),
    /// A primary opens its view.
    NewView(Signed<NewView>),
    /// Asks for a batch by digest.
    Fetch(B256),
    /// Answers [`Msg::Fetch`].
    Fetched(Batch),
    /// Tells how far a replica is, so that others repeat what it misses.
    Status(Status),
    /// A replica waits in a view, and would leave it: COMPLAINT.
    Complaint(View),
}

/// Batch of a slot in a view: what σ and τ sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, RlpEncodable, RlpDecodable)]
pub struct Vote {
    /// View.
    pub view: View,
    /// Slot.
    pub slot: Slot,
    /// Digest of the batch, [`NULL`](crate::NULL) for the null filler.
    pub digest: B256,
}

/// A vote that has τ: what the second τ signs. The paper signs τ itself, which says the same where signatures are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodableWrapper, RlpDecodableWrapper)]
pub struct Prepared(pub Vote);

/// The statement of a primary's signature under its proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodableWrapper, RlpDecodableWrapper)]
pub struct Proposal(pub Vote);

/// The state after a slot: what π signs. A client trusts it; nothing is dropped because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Executed {
    /// Slot.
    pub slot: Slot,
    /// Digest of the outcome.
    pub digest: B256,
}

/// The state after a slot as a checkpoint: signed by τ, so that f+c+1 correct replicas have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Checkpoint {
    /// Slot.
    pub slot: Slot,
    /// Digest of the outcome.
    pub digest: B256,
}

impl From<Base> for Checkpoint {
    fn from(Base { slot, digest }: Base) -> Self {
        Self { slot, digest }
    }
}

impl From<Checkpoint> for Base {
    fn from(Checkpoint { slot, digest }: Checkpoint) -> Self {
        Self { slot, digest }
    }
}

/// PRE-PREPARE. The signature makes two of them evidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct PrePrepare {
    /// The signed statement.
    pub signed: Signed<Proposal>,
    /// The batch with its digest.
    pub batch: Batch,
}

/// SIGN-SHARE.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct SignShare {
    /// The vote.
    pub vote: Vote,
    /// Share of σ, empty if the replica takes no part in the fast path.
    pub fast: Bytes,
    /// Share of τ.
    pub slow: Bytes,
}

/// COMMIT.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct CommitShare {
    /// The vote.
    pub vote: Vote,
    /// Share of τ over [`Prepared`].
    pub share: Bytes,
}

/// SIGN-STATE, or the share of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct StateShare {
    /// Slot.
    pub slot: Slot,
    /// Digest of the outcome.
    pub digest: B256,
    /// The share.
    pub share: Bytes,
}

/// τ over a vote: no other batch has it in that view.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Certificate {
    /// The vote.
    pub vote: Vote,
    /// Signature of [`Group::Slow`].
    pub signature: Bytes,
}

/// A decision and its proof: σ over the vote, or τ over the prepared vote.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Decision {
    /// The vote.
    pub vote: Vote,
    /// Group that signed: [`Group::All`] or [`Group::Fast`] the vote, [`Group::Slow`] the prepared vote.
    pub group: Group,
    /// Signature of the group.
    pub signature: Bytes,
}

/// A checkpoint with its proof, none for the genesis state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Stable {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Signature of [`Group::Slow`].
    pub signature: Bytes,
}

/// VIEW-CHANGE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct ViewChange {
    /// The view to enter.
    pub view: View,
    /// The stable checkpoint.
    pub stable: Stable,
    /// Per slot the batch that was accepted in the highest view, ascending by slot.
    pub accepted: Vec<Vote>,
    /// Per slot τ of the highest view, ascending by slot.
    pub prepared: Vec<Certificate>,
    /// Per decided slot its proof, ascending by slot.
    pub decided: Vec<Decision>,
}

/// NEW-VIEW. Its choices follow from the view changes: every replica computes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct NewView {
    /// The view.
    pub view: View,
    /// View changes of n-f replicas or more, ascending by signer.
    pub changes: Vec<Signed<ViewChange>>,
}

/// STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Status {
    /// View that the replica is in, or changes to.
    pub view: View,
    /// True if the view is open at the replica.
    pub active: bool,
    /// Stable checkpoint.
    pub stable: Slot,
    /// Every slot up to this one is decided.
    pub decided: Slot,
}

impl Statement for Vote {
    const KIND: u8 = 0x51;
}

impl Statement for Prepared {
    const KIND: u8 = 0x52;
}

impl Statement for Proposal {
    const KIND: u8 = 0x53;
}

impl Statement for Executed {
    const KIND: u8 = 0x54;
}

impl Statement for Checkpoint {
    const KIND: u8 = 0x55;
}

impl Statement for ViewChange {
    const KIND: u8 = 0x56;
}

impl Statement for NewView {
    const KIND: u8 = 0x57;
}

fn claim(group: Group, statement: &impl Statement, domain: Domain, signature: &Bytes) -> Claim {
    Claim { signer: group.signer(), bytes: statement.signed_bytes(domain), signature: signature.clone() }
}

impl Certificate {
    /// The claim that a host has to verify.
    pub(super) fn claim(&self, domain: Domain) -> Claim {
        claim(Group::Slow, &self.vote, domain, &self.signature)
    }
}

impl Decision {
    /// The claim that a host has to verify.
    pub(super) fn claim(&self, domain: Domain) -> Claim {
        match self.group {
            Group::Slow => claim(Group::Slow, &Prepared(self.vote), domain, &self.signature),
            group => claim(group, &self.vote, domain, &self.signature),
        }
    }

    /// Returns true if the group is one that decides.
    pub(super) const fn is_of_deciding_group(&self) -> bool {
        matches!(self.group, Group::All | Group::Fast | Group::Slow)
    }
}

impl Stable {
    /// The genesis state needs no proof.
    pub(super) fn claim(&self, domain: Domain) -> Option<Claim> {
        (self.checkpoint.slot > 0).then(|| claim(Group::Slow, &self.checkpoint, domain, &self.signature))
    }
}

impl Executed {
    /// The claim of a client's certificate, see [`Out::Certificate`](crate::Out::Certificate).
    #[must_use]
    pub fn claim(&self, domain: Domain, signature: &Bytes) -> Claim {
        claim(Group::State, self, domain, signature)
    }
}

impl ViewChange {
    fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        claims.extend(self.stable.claim(domain));
        claims.extend(self.prepared.iter().map(|certificate| certificate.claim(domain)));
        claims.extend(self.decided.iter().map(|decision| decision.claim(domain)));
    }
}

tagged! {
    Msg, "message",
    1 => PrePrepare(body),
    2 => SignShare(body),
    3 => Commit(body),
    4 => Prepare(body),
    5 => Decided(body),
    6 => SignState(body),
    7 => Executed(body, signature),
    8 => SignCheckpoint(body),
    9 => Stable(body),
    10 => Equivocation(one, other),
    11 => ViewChange(body),
    12 => NewView(body),
    13 => Fetch(body),
    14 => Fetched(body),
    15 => Status(body),
    16 => Complaint(body),
}

impl Msg {
    const fn bounds(&self) -> alloy_rlp::Result<()> {
        let Self::NewView(opening) = self else { return Ok(()) };
        at_most(opening.body.changes.len(), MAX_REPLICAS, "more view changes than replicas")
    }
}

impl Message for Msg {
    fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        match self {
            Self::PrePrepare(proposal) => claims.push(proposal.signed.claim(domain)),
            Self::Prepare(certificate) => claims.push(certificate.claim(domain)),
            Self::Decided(decision) => claims.push(decision.claim(domain)),
            Self::Executed(executed, signature) => claims.push(executed.claim(domain, signature)),
            Self::Stable(stable) => claims.extend(stable.claim(domain)),
            Self::Equivocation(one, other) => claims.extend([one, other].map(|signed| signed.claim(domain))),
            Self::ViewChange(signed) => {
                claims.push(signed.claim(domain));
                signed.body.claims(domain, claims);
            }
            Self::NewView(signed) => {
                claims.push(signed.claim(domain));
                let first = claims.len();
                for change in &signed.body.changes {
                    claims.push(change.claim(domain));
                    change.body.claims(domain, claims);
                }
                // Many view changes carry the same certificates.
                claims[first..].sort_unstable_by(|a, b| {
                    (a.signer, &a.bytes, &a.signature).cmp(&(b.signer, &b.bytes, &b.signature))
                });
                claims.dedup();
            }
            _ => {}
        }
    }

    fn informs(&self) -> bool {
        let decided = matches!(self, Self::Decided(_) | Self::Executed(..) | Self::Stable(_));
        decided || matches!(self, Self::Fetch(_) | Self::Fetched(_) | Self::Status(_))
    }

    fn batches(&self) -> Vec<&Batch> {
        match self {
            Self::PrePrepare(proposal) => vec![&proposal.batch],
            Self::Fetched(batch) => vec![batch],
            _ => Vec::new(),
        }
    }

    fn label(&self) -> u64 {
        let of = |vote: &Vote| vote.view ^ vote.slot << 16 ^ short(&vote.digest);
        let fields = match self {
            Self::PrePrepare(body) => of(&body.signed.body.0),
            Self::SignShare(body) => of(&body.vote),
            Self::Commit(body) => of(&body.vote),
            Self::Prepare(body) => of(&body.vote),
            Self::Decided(body) => of(&body.vote) ^ (body.group as u64) << 40,
            Self::SignState(body) | Self::SignCheckpoint(body) => body.slot << 16 ^ short(&body.digest),
            Self::Executed(body, _) => body.slot << 16 ^ short(&body.digest),
            Self::Stable(body) => body.checkpoint.slot << 16 ^ short(&body.checkpoint.digest),
            Self::Equivocation(one, other) => of(&one.body.0).rotate_left(1) ^ of(&other.body.0),
            Self::ViewChange(signed) => signed.body.view ^ signed.body.stable.checkpoint.slot << 16,
            Self::NewView(signed) => signed.body.view,
            Self::Complaint(view) => *view,
            Self::Fetch(digest) => short(digest),
            Self::Fetched(batch) => short(&batch.digest()),
            Self::Status(status) => status.view ^ status.stable << 16 ^ status.decided << 32,
        };
        u64::from(self.kind()) << 56 ^ fields
    }
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A batch that this replica may have to vouch for. Before any other record that names it.
    Batch(Batch),
    /// The batch that this replica has accepted. Before PRE-PREPARE or SIGN-SHARE.
    Accepted {
        /// The vote.
        vote: Vote,
        /// Signature of the view's primary under its proposal, empty for a choice of a NEW-VIEW. A primary that comes back
        /// repeats its proposal, and a backup proves that the primary has made another one.
        signature: Bytes,
    },
    /// τ over a vote, the order vote. Before COMMIT.
    Prepared(Certificate),
    /// A decision. Before its execution is reported.
    Decided(Decision),
    /// The replica has left all views below. Before VIEW-CHANGE.
    Left(View),
    /// The replica has entered a view. Before the view's shares: after a crash no other batch may take the place of a choice.
    Entered(Signed<NewView>),
    /// A checkpoint is stable: records of its slots and below can go.
    Stable(Stable),
}

/// Returns true if the signer is one of `n` replicas.
pub(super) const fn is_member(signer: Index, n: usize) -> bool {
    (signer.0 as usize) < n
}
