//! Encoding of log records: a byte of kind, then the fields.

use super::message::Record;
use crate::core::{MAX_REPLICAS, at_most, tagged};

tagged! {
    Record, "record",
    1 => Batch(batch),
    2 => Accepted{vote, signature},
    3 => Prepared(certificate),
    4 => Decided(decision),
    5 => Left(view),
    6 => Entered(opening),
    7 => Stable(stable),
}

impl Record {
    const fn bounds(&self) -> alloy_rlp::Result<()> {
        let Self::Entered(opening) = self else { return Ok(()) };
        at_most(opening.body.changes.len(), MAX_REPLICAS, "more view changes than replicas")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{Batch, Group, Index, Signed},
        sbft::{Certificate, Checkpoint, Decision, NewView, Stable, ViewChange, Vote},
    };
    use alloy_primitives::{Address, B256, Bytes};
    use alloy_rlp::Decodable as _;

    #[test]
    fn every_record_comes_back() {
        let digest = B256::repeat_byte(7);
        let vote = Vote { view: 3, slot: 9, digest };
        let signature = Bytes::from_static(&[1; 48]);
        let certificate = Certificate { vote, signature: signature.clone() };
        let decision = |group| Decision { vote, group, signature: signature.clone() };
        let stable = Stable { checkpoint: Checkpoint { slot: 128, digest }, signature: signature.clone() };
        let change = ViewChange {
            view: 3,
            stable: stable.clone(),
            accepted: vec![vote; 2],
            prepared: vec![certificate.clone()],
            decided: vec![decision(Group::Slow)],
        };
        let signed = Signed { signer: Index(2), signature: Bytes::from_static(&[2; 64]), body: change };
        let opening = NewView { view: 3, changes: vec![signed; 3] };
        let records = [
            Record::Batch(Batch::new(5, Address::repeat_byte(1), vec![Bytes::from_static(b"tx")])),
            Record::Accepted { vote, signature: signature.clone() },
            Record::Accepted { vote, signature: Bytes::new() },
            Record::Prepared(certificate),
            Record::Decided(decision(Group::All)),
            Record::Decided(decision(Group::Slow)),
            Record::Left(4),
            Record::Entered(Signed { signer: Index(3), signature, body: opening }),
            Record::Stable(stable),
        ];
        for record in records {
            let bytes = alloy_rlp::encode(&record);
            assert_eq!(Record::decode(&mut bytes.as_slice()), Ok(record));
            // Every prefix is refused, and none panics.
            assert!((0..bytes.len()).all(|end| Record::decode(&mut &bytes[..end]).is_err()));
        }
    }
}
