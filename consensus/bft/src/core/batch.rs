//! Batches: transactions that are ordered together.

use alloy_primitives::{Address, B256, Bytes, keccak256};
use alloy_rlp::{Decodable, Encodable, Header, RlpEncodable};
use std::sync::Arc;

/// Digest of the null filler, the empty batch that a view change puts into a slot.
///
/// No batch has this digest: it is the hash of no known preimage. The content of the filler follows from the order: no
/// transactions, the parent's timestamp, the zero beneficiary.
pub const NULL: B256 = B256::ZERO;

/// Transactions that are ordered together, with the environment that they run in. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    digest: B256,
    bytes: usize,
    content: Arc<Content>,
}

#[derive(Debug, PartialEq, Eq, Hash, RlpEncodable, alloy_rlp::RlpDecodable)]
struct Content {
    timestamp_ms: u64,
    beneficiary: Address,
    transactions: Vec<Bytes>,
}

impl Batch {
    /// A batch; the digest covers all three fields.
    #[must_use]
    pub fn new(timestamp_ms: u64, beneficiary: Address, transactions: Vec<Bytes>) -> Self {
        Content { timestamp_ms, beneficiary, transactions }.into()
    }

    /// Keccak-256 over the domain tag `phalanx-batch-1` and the RLP encoding.
    #[must_use]
    pub const fn digest(&self) -> B256 {
        self.digest
    }

    /// Length of the encoding, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Time that the proposer claims, in milliseconds since 1970. Never below the parent's once executed: the host takes
    /// the larger one.
    #[must_use]
    pub fn timestamp_ms(&self) -> u64 {
        self.content.timestamp_ms
    }

    /// Receiver of the fees.
    #[must_use]
    pub fn beneficiary(&self) -> Address {
        self.content.beneficiary
    }

    /// Encoded transactions, in order.
    #[must_use]
    pub fn transactions(&self) -> &[Bytes] {
        &self.content.transactions
    }
}

impl From<Content> for Batch {
    fn from(content: Content) -> Self {
        const TAG: &[u8] = b"phalanx-batch-1";
        let mut bytes = TAG.to_vec();
        content.encode(&mut bytes);
        Self { digest: keccak256(&bytes), bytes: bytes.len() - TAG.len(), content: Arc::new(content) }
    }
}

impl Encodable for Batch {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        self.content.encode(out);
    }

    fn length(&self) -> usize {
        self.bytes
    }
}

impl Decodable for Batch {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        // Each list element takes at least one byte, so that memory is bounded by the message.
        let mut peek = *bytes;
        let header = Header::decode(&mut peek)?;
        if !header.list || header.payload_length > peek.len() {
            return Err(alloy_rlp::Error::InputTooShort);
        }
        Content::decode(bytes).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_covers_every_field() {
        let tx = |byte: u8| Bytes::from(vec![byte]);
        let base = Batch::new(7, Address::ZERO, vec![tx(1), tx(2)]);
        let others = [
            Batch::new(8, Address::ZERO, vec![tx(1), tx(2)]),
            Batch::new(7, Address::with_last_byte(1), vec![tx(1), tx(2)]),
            Batch::new(7, Address::ZERO, vec![tx(2), tx(1)]),
            Batch::new(7, Address::ZERO, vec![Bytes::from(vec![1, 2])]),
            Batch::new(7, Address::ZERO, Vec::new()),
        ];
        for other in &others {
            assert_ne!(base.digest(), other.digest());
            assert_ne!(other.digest(), NULL);
        }
        assert_eq!(base.bytes(), alloy_rlp::encode(&base).len());
        assert_eq!(base, Batch::decode(&mut alloy_rlp::encode(&base).as_slice()).unwrap());
    }
}
