//! Messages and log records.

use crate::core::{
    Batch, Claim, Domain, Index, MAX_REPLICAS, Message, Signed, Slot, Statement, View, at_most, short, tagged,
};
use alloy_primitives::B256;
use alloy_rlp::{RlpDecodable, RlpEncodable};

/// A message between replicas. Only what travels further than one hop is signed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Msg {
    /// The primary's proposal.
    PrePrepare(PrePrepare),
    /// A backup accepts the proposal.
    Prepare(Vote),
    /// A replica has seen a quorum accept: the order vote.
    Commit(Vote),
    /// A replica has executed up to a checkpoint.
    Checkpoint(Signed<Checkpoint>),
    /// A replica gives up its view.
    ViewChange(Leaving),
    /// A primary opens its view.
    NewView(Signed<NewView>),
    /// Asks for a batch by digest.
    Fetch(Fetch),
    /// Answers [`Msg::Fetch`].
    Fetched(Batch),
    /// Tells how far a replica is, so that others repeat what it misses.
    Status(Status),
    /// Tells a replica that is behind what was decided. It believes f+1 of them.
    Decided(Decision),
    /// A replica waits for the primary of this view: it leaves if others wait as well.
    Complaint(View),
}

/// PRE-PREPARE.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct PrePrepare {
    /// View.
    pub view: View,
    /// Slot.
    pub slot: Slot,
    /// The batch.
    pub batch: Batch,
}

/// PREPARE or COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Vote {
    /// View.
    pub view: View,
    /// Slot.
    pub slot: Slot,
    /// Digest of the batch, [`NULL`](crate::NULL) for the null filler.
    pub digest: B256,
}

/// CHECKPOINT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Checkpoint {
    /// Slot.
    pub slot: Slot,
    /// Digest of the outcome.
    pub digest: B256,
}

/// Report of one prepared or pre-prepared batch in a [`ViewChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, RlpEncodable, RlpDecodable)]
pub struct Report {
    /// Slot.
    pub slot: Slot,
    /// Digest of the batch.
    pub digest: B256,
    /// Highest view in which it got there.
    pub view: View,
}

/// VIEW-CHANGE, with a replica's journal of what it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct ViewChange {
    /// The view to enter.
    pub view: View,
    /// The stable checkpoint: h. A quorum of signed checkpoints travels beside the statement.
    pub stable: Checkpoint,
    /// Per slot the batch that was prepared in the highest view, ascending by slot: P.
    pub prepared: Vec<Report>,
    /// Per slot and batch the highest view in which it was pre-prepared, ascending: Q.
    pub preprepared: Vec<Report>,
}

/// VIEW-CHANGE with the proof of its stable checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Leaving {
    /// The signed report.
    pub change: Signed<ViewChange>,
    /// Checkpoints of a quorum; none for the genesis state.
    pub proof: Vec<Signed<Checkpoint>>,
}

/// NEW-VIEW.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct NewView {
    /// The view.
    pub view: View,
    /// View changes that the choice follows from, ascending by signer.
    pub changes: Vec<Signed<ViewChange>>,
    /// Checkpoint that the view starts from: the highest one of the view changes.
    pub stable: Checkpoint,
    /// Checkpoints of a quorum that prove it; none for the genesis state.
    pub proof: Vec<Signed<Checkpoint>>,
    /// Digests for the slots behind the checkpoint, one after the other.
    pub choices: Vec<B256>,
}

/// FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Fetch {
    /// Digest of the batch.
    pub digest: B256,
}

/// DECIDED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Decision {
    /// Slot.
    pub slot: Slot,
    /// Digest of the batch.
    pub digest: B256,
}

/// STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Status {
    /// View that the replica is in, or changes to.
    pub view: View,
    /// True if the view is open at the replica.
    pub active: bool,
    /// Highest view whose NEW-VIEW the replica knows.
    pub opened: View,
    /// Stable checkpoint.
    pub stable: Slot,
    /// Every slot up to this one is decided.
    pub decided: Slot,
}

impl Statement for Checkpoint {
    const KIND: u8 = 1;
}

impl Statement for ViewChange {
    const KIND: u8 = 2;
}

impl Statement for NewView {
    const KIND: u8 = 3;
}

tagged! {
    Msg, "message",
    1 => PrePrepare(body),
    2 => Prepare(body),
    3 => Commit(body),
    4 => Checkpoint(body),
    5 => ViewChange(body),
    6 => NewView(body),
    7 => Fetch(body),
    8 => Fetched(body),
    9 => Status(body),
    10 => Decided(body),
    11 => Complaint(body),
}

impl Msg {
    fn bounds(&self) -> alloy_rlp::Result<()> {
        match self {
            Self::ViewChange(leaving) => at_most(leaving.proof.len(), MAX_REPLICAS, "more checkpoints than replicas"),
            Self::NewView(signed) => {
                let length = signed.body.changes.len().max(signed.body.proof.len());
                at_most(length, MAX_REPLICAS, "more view changes or checkpoints than replicas")
            }
            _ => Ok(()),
        }
    }
}

impl Message for Msg {
    fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        match self {
            Self::Checkpoint(signed) => claims.push(signed.claim(domain)),
            Self::ViewChange(leaving) => {
                claims.push(leaving.change.claim(domain));
                claims.extend(leaving.proof.iter().map(|checkpoint| checkpoint.claim(domain)));
            }
            Self::NewView(signed) => {
                claims.push(signed.claim(domain));
                claims.extend(signed.body.proof.iter().map(|checkpoint| checkpoint.claim(domain)));
                claims.extend(signed.body.changes.iter().map(|change| change.claim(domain)));
            }
            _ => {}
        }
    }

    fn informs(&self) -> bool {
        matches!(self, Self::Checkpoint(_) | Self::Fetch(_) | Self::Fetched(_) | Self::Status(_) | Self::Decided(_))
    }

    fn batches(&self) -> Vec<&Batch> {
        match self {
            Self::PrePrepare(proposal) => vec![&proposal.batch],
            Self::Fetched(batch) => vec![batch],
            _ => Vec::new(),
        }
    }

    fn label(&self) -> u64 {
        let fields = match self {
            Self::PrePrepare(body) => body.view ^ body.slot << 16 ^ short(&body.batch.digest()),
            Self::Prepare(vote) | Self::Commit(vote) => vote.view ^ vote.slot << 16 ^ short(&vote.digest),
            Self::Checkpoint(signed) => signed.body.slot << 16 ^ short(&signed.body.digest),
            Self::ViewChange(leaving) => leaving.change.body.view ^ leaving.change.body.stable.slot << 16,
            Self::NewView(signed) => signed.body.view,
            Self::Fetch(body) => short(&body.digest),
            Self::Fetched(batch) => short(&batch.digest()),
            Self::Decided(body) => (body.slot << 16) ^ short(&body.digest),
            Self::Complaint(view) => *view,
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
    /// The proposal that this replica made or accepted. Before PRE-PREPARE or PREPARE.
    PrePrepared(Vote),
    /// The order vote. Before COMMIT.
    Prepared(Vote),
    /// The replica has left all views below. Before VIEW-CHANGE.
    Left(View),
    /// The replica has entered a view. Before the view's votes: after a crash no other batch may take the place of a choice.
    Entered(Signed<NewView>),
    /// The replica knows the NEW-VIEW of a view that it has left or skipped. Before a report that leaves out what it supersedes.
    Learned(Signed<NewView>),
    /// A slot is decided.
    Decided(Slot, B256),
    /// A checkpoint is stable: records of its slots and below can go.
    Stable {
        /// Last slot of the checkpoint.
        slot: Slot,
        /// Digest of its outcome.
        digest: B256,
        /// Checkpoints of a quorum.
        proof: Vec<Signed<Checkpoint>>,
    },
    /// A checkpoint that this replica has announced.
    Announced(Signed<Checkpoint>),
}

/// Returns true if the signer is one of `n` replicas.
pub(super) const fn is_member(signer: Index, n: usize) -> bool {
    (signer.0 as usize) < n
}
