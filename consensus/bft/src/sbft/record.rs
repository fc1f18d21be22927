//! Encoding of log records: a byte of kind, then the fields.

use super::message::{Certificate, Decision, NewView, Record, Stable, Vote};
use crate::core::{Batch, MAX_REPLICAS, Signed, View};
use alloy_primitives::Bytes;
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};

#[derive(RlpEncodable, RlpDecodable)]
struct Accepted {
    vote: Vote,
    signature: Bytes,
}

impl Encodable for Record {
    fn encode(&self, out: &mut dyn BufMut) {
        let mut put = |kind: u8, body: &dyn Encodable| {
            out.put_u8(kind);
            body.encode(out);
        };
        match self {
            Self::Batch(batch) => put(1, batch),
            Self::Accepted { vote, signature } => put(2, &Accepted { vote: *vote, signature: signature.clone() }),
            Self::Prepared(certificate) => put(3, certificate),
            Self::Decided(decision) => put(4, decision),
            Self::Left(view) => put(5, view),
            Self::Entered(opening) => put(6, opening),
            Self::Stable(stable) => put(7, stable),
        }
    }
}

impl Decodable for Record {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match kind {
            1 => Self::Batch(Batch::decode(bytes)?),
            2 => {
                let Accepted { vote, signature } = Accepted::decode(bytes)?;
                Self::Accepted { vote, signature }
            }
            3 => Self::Prepared(Certificate::decode(bytes)?),
            4 => Self::Decided(Decision::decode(bytes)?),
            5 => Self::Left(View::decode(bytes)?),
            6 => {
                let opening = Signed::<NewView>::decode(bytes)?;
                if opening.body.changes.len() > MAX_REPLICAS {
                    return Err(Error::Custom("more view changes than replicas"));
                }
                Self::Entered(opening)
            }
            7 => Self::Stable(Stable::decode(bytes)?),
            _ => return Err(Error::Custom("unknown kind of record")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Checkpoint, ViewChange};
    use super::*;
    use crate::core::{Group, Index};
    use alloy_primitives::{Address, B256};

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
