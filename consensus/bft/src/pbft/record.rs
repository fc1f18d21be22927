//! Encoding of log records: a byte of kind, then the fields as a list.

use super::message::{Checkpoint, NewView, Record, Vote};
use crate::core::{Base, Batch, MAX_REPLICAS, Signed, Slot, View};
use alloy_primitives::B256;
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};

#[derive(RlpEncodable, RlpDecodable)]
struct Decided {
    slot: Slot,
    digest: B256,
}

#[derive(RlpEncodable, RlpDecodable)]
struct Stable {
    slot: Slot,
    digest: B256,
    proof: Vec<Signed<Checkpoint>>,
}

impl Encodable for Record {
    fn encode(&self, out: &mut dyn BufMut) {
        let mut put = |kind: u8, body: &dyn Encodable| {
            out.put_u8(kind);
            body.encode(out);
        };
        match self {
            Self::Batch(batch) => put(1, batch),
            Self::PrePrepared(vote) => put(2, vote),
            Self::Prepared(vote) => put(3, vote),
            Self::Left(view) => put(4, view),
            Self::Entered(signed) => put(5, signed),
            Self::Learned(signed) => put(6, signed),
            Self::Decided(slot, digest) => put(7, &Decided { slot: *slot, digest: *digest }),
            Self::Stable(Base { slot, digest }, proof) => {
                put(8, &Stable { slot: *slot, digest: *digest, proof: proof.clone() });
            }
            Self::Announced(signed) => put(9, signed),
        }
    }
}

impl Decodable for Record {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match kind {
            1 => Self::Batch(Batch::decode(bytes)?),
            2 => Self::PrePrepared(Vote::decode(bytes)?),
            3 => Self::Prepared(Vote::decode(bytes)?),
            4 => Self::Left(View::decode(bytes)?),
            5 => Self::Entered(Signed::<NewView>::decode(bytes)?),
            6 => Self::Learned(Signed::<NewView>::decode(bytes)?),
            7 => {
                let Decided { slot, digest } = Decided::decode(bytes)?;
                Self::Decided(slot, digest)
            }
            8 => {
                let Stable { slot, digest, proof } = Stable::decode(bytes)?;
                if proof.len() > MAX_REPLICAS {
                    return Err(Error::Custom("more checkpoints than replicas"));
                }
                Self::Stable(Base { slot, digest }, proof)
            }
            9 => Self::Announced(Signed::<Checkpoint>::decode(bytes)?),
            _ => return Err(Error::Custom("unknown kind of record")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Index;
    use alloy_primitives::{Address, Bytes};

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
            Record::Stable(Base { slot: 128, digest }, vec![signed.clone(); 3]),
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
