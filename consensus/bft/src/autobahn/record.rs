//! Log records. The encoding is a byte of kind, then the fields as a list.

use super::{
    certificate::{Qc, Tc},
    statement::{Checkpoint, PrepVote},
};
use crate::{
    core::{MAX_REPLICAS, Signed, Slot, View, at_most, tagged},
    lanes::{Car, Cut, LaneVote},
};

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A car that this replica may have to vouch for. Before any vote that covers it.
    Car(Car),
    /// A vote on a car. Before the vote leaves.
    LaneVote(LaneVote),
    /// A cut that this replica votes for, or that is decided. Before any record that names it.
    Cut(Slot, Cut),
    /// A vote on a proposal. Before PREPARE or PREP-VOTE.
    Voted(PrepVote),
    /// A certificate. Before CONFIRM-ACK.
    Acked(Qc),
    /// A complaint: no vote in this view or below follows. Before TIMEOUT.
    Complained(Slot, View),
    /// A view has begun by this ticket. Before anything that the replica says in that view.
    Ticket(Tc),
    /// A slot is decided.
    Committed(Qc),
    /// A checkpoint is stable: records of its slots and below can go.
    Stable(Vec<Signed<Checkpoint>>),
    /// A checkpoint that this replica has announced.
    Announced(Signed<Checkpoint>),
}

tagged! {
    Record, "record",
    1 => Car(car),
    2 => LaneVote(vote),
    3 => Cut[slot, cut],
    4 => Voted(vote),
    5 => Acked(qc),
    6 => Complained[slot, view],
    7 => Committed(qc),
    8 => Stable(proof),
    9 => Announced(signed),
    10 => Ticket(tc),
}

impl Record {
    fn bounds(&self) -> alloy_rlp::Result<()> {
        match self {
            Self::Stable(proof) => at_most(proof.len(), MAX_REPLICAS, "more checkpoints than replicas"),
            Self::Ticket(tc) => {
                at_most(tc.timeouts.len(), MAX_REPLICAS, "more complaints than replicas")?;
                at_most(tc.qc.len(), 1, "more certificates than one")
            }
            _ => Ok(()),
        }
    }
}
