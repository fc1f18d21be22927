//! Records of a host's log, and their encoding: a byte of kind, then the fields as a list.

use crate::{
    boundary::Boundary,
    certified::{Anchor, Certified},
    chain::Tip,
    frame::Filled,
};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};
use phalanx_bft::{Batch, Slot};
use phalanx_engine_api::{BlockId, ExecId};

/// A record of a host's log.
#[derive(Clone, Debug)]
pub enum HostRecord<R> {
    /// The block below the oldest one of the log. First record of a compacted log.
    Base(Tip),
    /// A record of the protocol.
    Protocol(R),
    /// A decided block. Slots come in order.
    Block(Slot, Option<Batch>),
    /// Own result of a block, encoded; durable before the engine commits the block. A replica that is behind checks blocks against
    /// it. The block may not be decided yet, or never be.
    Outcome(Slot, Bytes),
    /// True: the log lacks what the replica has said before, so that it stays silent. False: nothing of that matters any longer.
    Silent(bool),
    /// The epoch begins above this block. First record of a log of any epoch but the first; older records are below the block.
    Epoch(Box<Boundary>),
}

impl<R> HostRecord<R> {
    /// Log of a replica that has the state after a block and nothing else, in the epoch that begins above `boundary`. One that may have voted
    /// for more than this log has is `silent` until that does not matter.
    #[must_use]
    pub fn joined(boundary: Option<&Boundary>, anchor: &Anchor, silent: bool) -> Vec<Self> {
        let Certified { slot, result, .. } = anchor.block();
        let mut records: Vec<Self> =
            boundary.map(|boundary| Self::Epoch(Box::new(boundary.clone()))).into_iter().collect();
        records.extend([Self::Base(anchor.tip()), Self::Outcome(*slot, result.clone())]);
        records.extend(silent.then_some(Self::Silent(true)));
        records
    }

    /// Log of a replica in the epoch that begins above `boundary`, from its log of the one before: the blocks, without what its protocol
    /// has said. A replica that was silent stays so, since its folder may be older than what it has said in the new epoch.
    #[must_use]
    pub fn pass(boundary: &Boundary, log: Vec<Self>) -> Vec<Self> {
        let mut silent = false;
        let mut records = vec![Self::Epoch(Box::new(boundary.clone()))];
        for record in log {
            match record {
                Self::Silent(now) => silent = now,
                Self::Protocol(_) | Self::Epoch(_) => {}
                Self::Block(slot, _) | Self::Outcome(slot, _) if slot > boundary.slot() => {}
                kept => records.push(kept),
            }
        }
        records.extend(silent.then_some(Self::Silent(true)));
        records
    }
}

#[derive(RlpEncodable, RlpDecodable)]
struct Base {
    slot: Slot,
    id: B256,
    exec: B256,
    timestamp_ms: u64,
}

#[derive(RlpEncodable, RlpDecodable)]
struct Block {
    slot: Slot,
    filled: Filled,
}

#[derive(RlpEncodable, RlpDecodable)]
struct Outcome {
    slot: Slot,
    outcome: Bytes,
}

impl<R: Encodable> Encodable for HostRecord<R> {
    fn encode(&self, out: &mut dyn BufMut) {
        let mut put = |kind: u8, body: &dyn Encodable| {
            out.put_u8(kind);
            body.encode(out);
        };
        match self {
            Self::Base(Tip { slot, id, exec, timestamp_ms }) => {
                put(1, &Base { slot: *slot, id: id.0, exec: exec.0, timestamp_ms: *timestamp_ms });
            }
            Self::Protocol(record) => put(2, record),
            Self::Block(slot, batch) => put(3, &Block { slot: *slot, filled: Filled::new(batch.clone()) }),
            Self::Outcome(slot, outcome) => put(4, &Outcome { slot: *slot, outcome: outcome.clone() }),
            Self::Silent(silent) => put(5, silent),
            Self::Epoch(boundary) => put(6, boundary),
        }
    }
}

impl<R: Decodable> Decodable for HostRecord<R> {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match kind {
            1 => {
                let Base { slot, id, exec, timestamp_ms } = Base::decode(bytes)?;
                Self::Base(Tip { slot, id: BlockId(id), exec: ExecId(exec), timestamp_ms })
            }
            2 => Self::Protocol(R::decode(bytes)?),
            3 => {
                let Block { slot, filled } = Block::decode(bytes)?;
                let content = filled.content().ok_or(Error::Custom("a slot with two batches"))?;
                Self::Block(slot, content.cloned())
            }
            4 => {
                let Outcome { slot, outcome } = Outcome::decode(bytes)?;
                Self::Outcome(slot, outcome)
            }
            5 => Self::Silent(Decodable::decode(bytes)?),
            6 => Self::Epoch(Box::new(Boundary::decode(bytes)?)),
            _ => return Err(Error::Custom("unknown kind of record")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use alloy_primitives::Address;

    #[test]
    fn every_record_comes_back() {
        let tip =
            Tip { slot: 7, id: BlockId(B256::repeat_byte(1)), exec: ExecId(B256::repeat_byte(2)), timestamp_ms: 9 };
        let batch = Batch::new(5, Address::repeat_byte(1), vec![Bytes::from_static(b"tx")]);
        let hash = B256::repeat_byte;
        let block = Certified {
            slot: 8,
            block: hash(4),
            parent: hash(5),
            timestamp_ms: 6,
            beneficiary: Address::repeat_byte(7),
            payload: hash(8),
            result: Bytes::from_static(&[9; 136]),
            certificate: Bytes::from_static(&[1]),
        };
        let change = Change { epoch: 1, network: hash(6) };
        let boundary = Boundary { change, block, parent: hash(7), batch: batch.clone() };
        let records = [
            HostRecord::Epoch(Box::new(boundary)),
            HostRecord::Base(tip),
            HostRecord::Protocol(77u64),
            HostRecord::Block(8, Some(batch)),
            HostRecord::Block(9, None),
            HostRecord::Outcome(8, Bytes::from_static(&[3; 136])),
            HostRecord::Silent(true),
            HostRecord::Silent(false),
        ];
        for record in records {
            let bytes = alloy_rlp::encode(&record);
            let back: HostRecord<u64> = Decodable::decode(&mut bytes.as_slice()).expect("a record");
            assert_eq!(format!("{back:?}"), format!("{record:?}"));
            assert!((0..bytes.len()).all(|end| HostRecord::<u64>::decode(&mut &bytes[..end]).is_err()));
        }
    }
}
