//! Records of the log, and their encoding: a byte of kind, then the fields as a list.

use super::{
    block::{Block, Kept, Offered},
    message::{Certificate, Checkpoint},
};
use crate::core::{MAX_REPLICAS, Signed, View};
use alloy_primitives::B256;
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};
use std::sync::Arc;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A vote, an order vote, a nullify or a proposal. Before it is signed.
    Voted(Kept<Offered>),
    /// The certificate that an order vote follows from. Before that vote: if a voter is gone for good, this replica may be the
    /// only one that can end the view, which it cannot give up any more.
    Certified(Certificate),
    /// Blocks that an order certificate of the last one has ordered, oldest first. Before they are executed.
    Ordered(Vec<Arc<Block<Offered>>>, Certificate),
    /// A checkpoint that this replica has announced.
    Announced(Signed<Checkpoint>),
    /// A checkpoint is stable: records of its slots and below can go.
    Stable(Checkpoint, Vec<Signed<Checkpoint>>),
}

#[derive(RlpEncodable, RlpDecodable)]
struct Named {
    view: View,
    id: B256,
}

#[derive(RlpEncodable, RlpDecodable)]
struct Ordered {
    blocks: Vec<Arc<Block<Offered>>>,
    certificate: Certificate,
}

#[derive(RlpEncodable, RlpDecodable)]
struct Stable {
    checkpoint: Checkpoint,
    proof: Vec<Signed<Checkpoint>>,
}

impl Encodable for Record {
    fn encode(&self, out: &mut dyn BufMut) {
        let mut put = |kind: u8, body: &dyn Encodable| {
            out.put_u8(kind);
            body.encode(out);
        };
        match self {
            Self::Voted(Kept::Voted(block)) => put(1, block),
            Self::Voted(Kept::OrderVoted(view, id)) => put(2, &Named { view: *view, id: *id }),
            Self::Voted(Kept::Nullified(view)) => put(3, view),
            Self::Voted(Kept::Proposed(view, id)) => put(4, &Named { view: *view, id: *id }),
            Self::Ordered(blocks, certificate) => {
                put(5, &Ordered { blocks: blocks.clone(), certificate: certificate.clone() });
            }
            Self::Certified(certificate) => put(8, certificate),
            Self::Announced(signed) => put(6, signed),
            Self::Stable(checkpoint, proof) => put(7, &Stable { checkpoint: *checkpoint, proof: proof.clone() }),
        }
    }
}

impl Decodable for Record {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match kind {
            1 => Self::Voted(Kept::Voted(Decodable::decode(bytes)?)),
            2 => {
                let Named { view, id } = Decodable::decode(bytes)?;
                Self::Voted(Kept::OrderVoted(view, id))
            }
            3 => Self::Voted(Kept::Nullified(Decodable::decode(bytes)?)),
            4 => {
                let Named { view, id } = Decodable::decode(bytes)?;
                Self::Voted(Kept::Proposed(view, id))
            }
            5 => {
                let Ordered { blocks, certificate } = Decodable::decode(bytes)?;
                Self::Ordered(blocks, certificate)
            }
            6 => Self::Announced(Decodable::decode(bytes)?),
            7 => {
                let Stable { checkpoint, proof } = Decodable::decode(bytes)?;
                if proof.len() > MAX_REPLICAS {
                    return Err(Error::Custom("more checkpoints than replicas"));
                }
                Self::Stable(checkpoint, proof)
            }
            8 => Self::Certified(Decodable::decode(bytes)?),
            _ => return Err(Error::Custom("unknown kind of record")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            block::{CertKind, Place},
            message::{Signature, Vote},
        },
        *,
    };
    use crate::core::{Batch, Index};
    use alloy_primitives::{Address, Bytes};

    #[test]
    fn every_record_comes_back() {
        let id = B256::repeat_byte(7);
        let place = Place { view: 9, parent: id, parent_view: 7, author: Index(1), height: 5 };
        let batch = Batch::new(5, Address::repeat_byte(1), vec![Bytes::from_static(b"tx")]);
        let signature = Bytes::from_static(&[1; 64]);
        let block = Block::new(place, Offered { batch, signature: signature.clone() });
        let vote = Vote { kind: CertKind::Order, view: 9, id: block.id };
        let signatures = vec![Signature { signer: Index(2), bytes: signature.clone() }; 3];
        let body = Checkpoint { slot: 128, view: 200, id, digest: id };
        let signed = Signed { signer: Index(2), signature, body };
        let records = [
            Record::Voted(Kept::Voted(Arc::new(block.clone()))),
            Record::Voted(Kept::OrderVoted(9, id)),
            Record::Voted(Kept::Nullified(10)),
            Record::Voted(Kept::Proposed(11, id)),
            Record::Certified(Certificate { vote, signatures: signatures.clone() }),
            Record::Ordered(vec![Arc::new(block)], Certificate { vote, signatures }),
            Record::Announced(signed.clone()),
            Record::Stable(body, vec![signed; 3]),
        ];
        for record in records {
            let bytes = alloy_rlp::encode(&record);
            assert_eq!(Record::decode(&mut bytes.as_slice()), Ok(record));
            // Every prefix is refused, and none panics.
            assert!((0..bytes.len()).all(|end| Record::decode(&mut &bytes[..end]).is_err()));
        }
    }
}
