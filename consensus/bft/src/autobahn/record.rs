//! Log records. The encoding is a byte of kind, then the fields as a list.

use super::{
    certificate::{Qc, Tc},
    statement::{Checkpoint, PrepVote},
};
use crate::{
    core::{MAX_REPLICAS, Signed, Slot, View},
    lanes::{Car, Cut, LaneVote},
};
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};

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

#[derive(RlpEncodable, RlpDecodable)]
struct CutOf {
    slot: Slot,
    cut: Cut,
}

#[derive(RlpEncodable, RlpDecodable)]
struct Complained {
    slot: Slot,
    view: View,
}

impl Encodable for Record {
    fn encode(&self, out: &mut dyn BufMut) {
        let mut put = |kind: u8, body: &dyn Encodable| {
            out.put_u8(kind);
            body.encode(out);
        };
        match self {
            Self::Car(car) => put(1, car),
            Self::LaneVote(vote) => put(2, vote),
            Self::Cut(slot, cut) => put(3, &CutOf { slot: *slot, cut: cut.clone() }),
            Self::Voted(vote) => put(4, vote),
            Self::Acked(qc) => put(5, qc),
            Self::Complained(slot, view) => put(6, &Complained { slot: *slot, view: *view }),
            Self::Committed(qc) => put(7, qc),
            Self::Stable(proof) => put(8, proof),
            Self::Announced(signed) => put(9, signed),
            Self::Ticket(tc) => put(10, tc),
        }
    }
}

impl Decodable for Record {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match kind {
            1 => Self::Car(Car::decode(bytes)?),
            2 => Self::LaneVote(LaneVote::decode(bytes)?),
            3 => {
                let CutOf { slot, cut } = CutOf::decode(bytes)?;
                Self::Cut(slot, cut)
            }
            4 => Self::Voted(PrepVote::decode(bytes)?),
            5 => Self::Acked(Qc::decode(bytes)?),
            6 => {
                let Complained { slot, view } = Complained::decode(bytes)?;
                Self::Complained(slot, view)
            }
            7 => Self::Committed(Qc::decode(bytes)?),
            8 => {
                let proof = Vec::<Signed<Checkpoint>>::decode(bytes)?;
                if proof.len() > MAX_REPLICAS {
                    return Err(Error::Custom("more checkpoints than replicas"));
                }
                Self::Stable(proof)
            }
            9 => Self::Announced(Signed::decode(bytes)?),
            10 => {
                let tc = Tc::decode(bytes)?;
                if tc.timeouts.len() > MAX_REPLICAS || tc.qc.len() > 1 {
                    return Err(Error::Custom("more complaints than replicas"));
                }
                Self::Ticket(tc)
            }
            _ => return Err(Error::Custom("unknown kind of record")),
        })
    }
}
