//! Encoding of log records: a byte of kind, then the fields as a list.

use super::message::Record;
use crate::core::{MAX_REPLICAS, at_most, tagged};

tagged! {
    Record, "record",
    1 => Batch(batch),
    2 => PrePrepared(vote),
    3 => Prepared(vote),
    4 => Left(view),
    5 => Entered(signed),
    6 => Learned(signed),
    7 => Decided[slot, digest],
    8 => Stable{slot, digest, proof},
    9 => Announced(signed),
}

impl Record {
    const fn bounds(&self) -> alloy_rlp::Result<()> {
        let Self::Stable { proof, .. } = self else { return Ok(()) };
        at_most(proof.len(), MAX_REPLICAS, "more checkpoints than replicas")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{Batch, Index, Signed},
        pbft::{Checkpoint, NewView, Vote},
    };
    use alloy_primitives::{Address, B256, Bytes};
    use alloy_rlp::Decodable as _;

    #[test]
    fn every_record_comes_back() {
        let digest = B256::repeat_byte(7);
        let vote = Vote { view: 3, slot: 9, digest };
        let signed = Signed {
            signer: Index(2),
            signature: Bytes::from_static(&[1; 64]),
            body: Checkpoint { slot: 128, digest },
        };
        let body = NewView {
            view: 3,
            changes: Vec::new(),
            stable: signed.body,
            proof: vec![signed.clone()],
            choices: vec![digest],
        };
        let opening = Signed { signer: Index(3), signature: Bytes::from_static(&[2; 64]), body };
        let records = [
            Record::Batch(Batch::new(5, Address::repeat_byte(1), vec![Bytes::from_static(b"tx")])),
            Record::PrePrepared(vote),
            Record::Prepared(vote),
            Record::Left(4),
            Record::Entered(opening.clone()),
            Record::Learned(opening),
            Record::Decided(9, digest),
            Record::Stable { slot: 128, digest, proof: vec![signed.clone(); 3] },
            Record::Announced(signed),
        ];
        for record in records {
            let bytes = alloy_rlp::encode(&record);
            assert_eq!(Record::decode(&mut bytes.as_slice()), Ok(record));
            // Every prefix is refused, and none panics.
            assert!((0..bytes.len()).all(|end| Record::decode(&mut &bytes[..end]).is_err()));
        }
    }
}
