//! Attributes of a whole block beside its environment: what a payload of the API carries for a chain of Ethereum's kind.

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{RlpDecodable, RlpEncodable};

/// Fields of a whole block that neither the environment nor the parent determines, as
/// [`Payload::with_attributes`](phalanx_engine_api::Payload::with_attributes) carries them. A payload without attributes
/// has the [`Default`].
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
pub struct BlockAttributes {
    /// Root of the parent's beacon block, from Cancun on (EIP-4788).
    pub parent_beacon_block_root: B256,
    /// Withdrawals, from Shanghai on (EIP-4895).
    pub withdrawals: Vec<Withdrawal>,
    /// Slot of the block in consensus, from Amsterdam on (EIP-7843); `None` for the block's height.
    pub slot_number: Option<u64>,
}

impl BlockAttributes {
    /// Encodes the attributes; the default is empty.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        if *self == Self::default() { Bytes::new() } else { alloy_rlp::encode(self).into() }
    }

    /// Decodes attributes. Returns `None` for bytes that [`Self::encode`] does not make.
    #[must_use]
    pub fn decode(bytes: &Bytes) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let attributes = <Self as alloy_rlp::Decodable>::decode(&mut &bytes[..]).ok()?;
        (attributes.encode() == *bytes).then_some(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_one_encoding() {
        let withdrawals = vec![Withdrawal { index: 1, amount: 7, ..Withdrawal::default() }];
        let attributes = BlockAttributes { withdrawals, ..BlockAttributes::default() };
        let bytes = attributes.encode();
        assert_eq!(BlockAttributes::decode(&bytes), Some(attributes));
        assert_eq!(BlockAttributes::decode(&Bytes::new()), Some(BlockAttributes::default()));
        let long = alloy_rlp::encode(BlockAttributes::default()).into();
        assert_eq!(BlockAttributes::decode(&long), None, "the default is empty");
        let mut tail = bytes.to_vec();
        tail.push(0);
        assert_eq!(BlockAttributes::decode(&tail.into()), None);
        (1..bytes.len()).for_each(|cut| assert_eq!(BlockAttributes::decode(&bytes.slice(..cut)), None));
    }
}
