//! Encoding of forced transactions, in blocks alone: that of deposits on OP Stack rollups, without their system flag.

use super::RecoverError;
use alloy_eips::eip2718::Eip2718Error;
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::{Decodable as _, Encodable as _, Header};
use phalanx_paralyze::ForcedTx;
use revm::primitives::TxKind;

/// Encodes a forced transaction as a block holds it: `0x7e ‖ rlp([source, from, to, mint, value, gas, false, data])`.
///
/// `source` tells its origin and must be unique on the chain, as the hash of the bytes names the transaction.
pub fn encode_forced(source: B256, tx: &ForcedTx) -> Bytes {
    let ForcedTx { from, kind, mint, value, gas_limit, data } = tx;
    let mut fields = Vec::with_capacity(160 + data.len());
    source.encode(&mut fields);
    from.encode(&mut fields);
    kind.encode(&mut fields);
    mint.encode(&mut fields);
    value.encode(&mut fields);
    gas_limit.encode(&mut fields);
    false.encode(&mut fields);
    data.encode(&mut fields);
    let mut out = Vec::with_capacity(fields.len() + 10);
    out.push(ForcedTx::TYPE);
    Header { list: true, payload_length: fields.len() }.encode(&mut out);
    out.append(&mut fields);
    out.into()
}

/// Decodes all of `bytes`, which begin with the type.
pub(super) fn decode_forced(bytes: &[u8]) -> Result<ForcedTx, RecoverError> {
    let mut rest = &bytes[1..];
    let tx = fields(&mut rest).map_err(Eip2718Error::from)?;
    if rest.is_empty() { Ok(tx) } else { Err(RecoverError::Trailing { len: rest.len() }) }
}

/// RLP has one encoding of every value, and the decoders refuse all others: equal transactions are equal bytes.
fn fields(rest: &mut &[u8]) -> alloy_rlp::Result<ForcedTx> {
    let mut list = Header::decode_bytes(rest, true)?;
    let list = &mut list;
    let _source = B256::decode(list)?;
    let from = Address::decode(list)?;
    let kind = TxKind::decode(list)?;
    let mint = u128::decode(list)?;
    let value = U256::decode(list)?;
    let gas_limit = u64::decode(list)?;
    if bool::decode(list)? {
        return Err(alloy_rlp::Error::Custom("a forced transaction uses the block's gas: clear its system flag"));
    }
    let data = Bytes::decode(list)?;
    if !list.is_empty() {
        return Err(alloy_rlp::Error::UnexpectedLength);
    }
    // Not a slice of the block.
    Ok(ForcedTx { from, kind, mint, value, gas_limit, data: Bytes::copy_from_slice(&data) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_else_is() {
        let from = Address::repeat_byte(7);
        for kind in [TxKind::Create, TxKind::Call(Address::repeat_byte(8))] {
            for data in [Bytes::new(), vec![3; 90].into()] {
                let tx = ForcedTx { from, kind, mint: u128::MAX, value: U256::MAX, gas_limit: u64::MAX, data };
                let bytes = encode_forced(B256::repeat_byte(9), &tx);
                assert_eq!(decode_forced(&bytes).expect("as it was encoded"), tx);
                for end in 1..bytes.len() {
                    assert!(decode_forced(&bytes[..end]).is_err(), "cut at {end}");
                }
                let longer = [&bytes[..], &[0]].concat();
                assert!(matches!(decode_forced(&longer), Err(RecoverError::Trailing { len: 1 })));
                // Another bit anywhere is another transaction, or none.
                for bit in 8..bytes.len() * 8 {
                    let mut other = bytes.to_vec();
                    other[bit / 8] ^= 1 << (bit % 8);
                    let source = || B256::from_slice(&other[bytes.len() - encoded_len(&tx)..][..32]);
                    if let Ok(decoded) = decode_forced(&other) {
                        assert_eq!(encode_forced(source(), &decoded), other, "bit {bit}");
                    }
                }
            }
        }
    }

    /// Length of the encoding from the source on.
    fn encoded_len(tx: &ForcedTx) -> usize {
        let fixed = 32 + 21 + tx.kind.length() + tx.mint.length() + tx.value.length() + tx.gas_limit.length() + 1;
        fixed + tx.data.length()
    }

    #[test]
    fn the_system_flag_is_refused() {
        let bytes = encode_forced(B256::ZERO, &ForcedTx::default());
        let mut other = bytes.to_vec();
        // Before the empty data.
        let flag = other.len() - 2;
        assert_eq!(other[flag], 0x80);
        other[flag] = 1;
        assert!(matches!(decode_forced(&other), Err(RecoverError::Decode(_))));
    }
}
