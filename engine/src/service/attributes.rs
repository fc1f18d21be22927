//! Attributes of a whole block beside its environment: what a payload of the API carries for a chain of Ethereum's kind.

use crate::model::{Edit, Edited};
use alloy_consensus::constants::MAXIMUM_EXTRA_DATA_SIZE;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use revm::state::Bytecode;

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
    /// Edits before the transactions, in order, on a chain for development; `None` for none.
    pub edits: Option<Vec<Edit>>,
    /// Extra data of the header, at most 32 bytes; `None` for none.
    pub extra_data: Option<Bytes>,
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
        let is_short = attributes.edits.as_ref().is_none_or(|edits| !edits.is_empty());
        (is_short && attributes.encode() == *bytes).then_some(attributes)
    }

    /// True if a header has room for the extra data.
    pub(super) fn has_short_extra_data(&self) -> bool {
        self.extra_data.as_ref().is_none_or(|data| data.len() <= MAXIMUM_EXTRA_DATA_SIZE)
    }

    /// True if the code of every edit is one that an account may have.
    pub(super) fn have_sound_codes(&self) -> bool {
        self.edits.iter().flatten().all(|edit| match &edit.value {
            Edited::Code(code) => Bytecode::new_raw_checked(code.clone()).is_ok(),
            _ => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, U256};

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

    #[test]
    fn edits_are_read_as_they_were_written_and_no_list_of_none_is() {
        let account = Address::repeat_byte(7);
        let values = [
            Edited::Balance(U256::MAX),
            Edited::Balance(U256::ZERO),
            Edited::Nonce(u64::MAX),
            Edited::Code(Bytes::from_static(&[0x5f, 0x00])),
            Edited::Code(Bytes::new()),
            Edited::Slot(U256::from(300), U256::from(5)),
        ];
        let edits: Vec<Edit> = values.into_iter().map(|value| Edit { account, value }).collect();
        let attributes = BlockAttributes { edits: Some(edits), ..BlockAttributes::default() };
        let bytes = attributes.encode();
        assert_eq!(BlockAttributes::decode(&bytes), Some(attributes));
        let plain = BlockAttributes { withdrawals: vec![Withdrawal::default()], ..BlockAttributes::default() };
        // A cut behind the withdrawals would be a list of another length.
        (1..bytes.len()).for_each(|cut| assert_eq!(BlockAttributes::decode(&bytes.slice(..cut)), None));
        let none = BlockAttributes { edits: Some(Vec::new()), ..plain };
        assert_eq!(BlockAttributes::decode(&none.encode()), None);
    }

    #[test]
    fn extra_data_has_one_encoding() {
        let of = |extra_data| BlockAttributes { extra_data, ..BlockAttributes::default() };
        let some = of(Some(Bytes::from_static(b"a builder")));
        let bytes = some.encode();
        assert_eq!(BlockAttributes::decode(&bytes), Some(some));
        (1..bytes.len()).for_each(|cut| assert_eq!(BlockAttributes::decode(&bytes.slice(..cut)), None));
        assert_eq!(BlockAttributes::decode(&of(Some(Bytes::new())).encode()), None, "none is left out");
        for (len, fits) in [(0, true), (32, true), (33, false)] {
            assert_eq!(of(Some(vec![1; len].into())).has_short_extra_data(), fits, "{len}");
        }
    }
}
