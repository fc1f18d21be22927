//! Encoding of a host's log records: a byte of kind, then the fields as a list.

use crate::{chain::Tip, config::HostRecord, frame::Filled};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};
use phalanx_bft::Slot;
use phalanx_engine_api::{BlockId, ExecId};

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
            _ => return Err(Error::Custom("unknown kind of record")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Address;
    use phalanx_bft::Batch;

    #[test]
    fn every_record_comes_back() {
        let tip =
            Tip { slot: 7, id: BlockId(B256::repeat_byte(1)), exec: ExecId(B256::repeat_byte(2)), timestamp_ms: 9 };
        let batch = Batch::new(5, Address::repeat_byte(1), vec![Bytes::from_static(b"tx")]);
        let records = [
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
