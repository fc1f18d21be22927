//! Values that the operator of a chain for development sets, without a transaction.

use alloy_primitives::{Address, Bytes, U256};
use alloy_rlp::{Decodable, Encodable, Header, RlpDecodable, RlpEncodable};

/// Value of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edited {
    /// Balance, in wei.
    Balance(U256),
    /// Nonce of the next transaction.
    Nonce(u64),
    /// Code; empty for none.
    Code(Bytes),
    /// A slot of the storage, and its word.
    Slot(U256, U256),
}

/// Sets a value of an account, before the transactions of a block: part of the block, which its name binds and every execution
/// repeats. Only a chain for development ([`Parameters::development`](crate::chain::Parameters::development)) has blocks with any.
///
/// EIP-161 knows no account with a nonce of zero that has storage: one that an edit would leave so has nonce 1 afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Account that is changed.
    pub account: Address,
    /// Its new value.
    pub value: Edited,
}

/// Encoding: the account, the number of the kind, the slot or zero, and the value as bytes without leading zeros, or the code.
#[derive(RlpEncodable, RlpDecodable)]
struct Fields {
    account: Address,
    kind: u8,
    slot: U256,
    value: Bytes,
}

impl Edit {
    fn fields(&self) -> Fields {
        let account = self.account;
        let of = |kind, slot, value: Bytes| Fields { account, kind, slot, value };
        match &self.value {
            Edited::Balance(balance) => of(0, U256::ZERO, balance.to_be_bytes_trimmed_vec().into()),
            Edited::Nonce(nonce) => of(1, U256::ZERO, U256::from(*nonce).to_be_bytes_trimmed_vec().into()),
            Edited::Code(code) => of(2, U256::ZERO, code.clone()),
            Edited::Slot(slot, word) => of(3, *slot, word.to_be_bytes_trimmed_vec().into()),
        }
    }
}

impl Encodable for Edit {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        self.fields().encode(out);
    }

    fn length(&self) -> usize {
        self.fields().length()
    }
}

impl Decodable for Edit {
    /// Another encoding of the same edit is not refused here: a reader of attributes compares the bytes.
    fn decode(buf: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let mut ahead = *buf;
        if !Header::decode(&mut ahead)?.list {
            return Err(alloy_rlp::Error::UnexpectedString);
        }
        let Fields { account, kind, slot, value } = Fields::decode(buf)?;
        let number = || U256::try_from_be_slice(&value).ok_or(alloy_rlp::Error::Overflow);
        let value = match kind {
            0 => Edited::Balance(number()?),
            1 => Edited::Nonce(number()?.try_into().map_err(|_| alloy_rlp::Error::Overflow)?),
            // Not a slice of the block.
            2 => Edited::Code(Bytes::copy_from_slice(&value)),
            3 => Edited::Slot(slot, number()?),
            _ => return Err(alloy_rlp::Error::Custom("an edit of an unknown kind")),
        };
        Ok(Self { account, value })
    }
}
