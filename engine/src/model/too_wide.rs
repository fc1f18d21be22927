//! Numbers that the rules of a chain allow and that fields of revm and alloy do not hold. They are refused by name.

use alloy_rlp::{Header, PayloadView};

/// A number is refused that the rules allow: this engine holds it in fewer bits.
///
/// No chain reaches such a number: the whole supply of mainnet is less than 2^87 wei.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} does not fit {bits} bits, the limit of this engine")]
pub struct TooWide {
    /// The number.
    pub field: &'static str,
    /// Bits that the engine holds it in.
    pub bits: u32,
}

/// Place in a list, name and bits of a number.
type Field = (usize, &'static str, u32);

const GAS_PRICE: &str = "the gas price";
const MAX_FEE: &str = "the maximum fee per gas";
const PRIORITY_FEE: &str = "the maximum priority fee per gas";
const BLOB_FEE: &str = "the maximum fee per blob gas";

/// Fees of a transaction, by its type. Other numbers that are too wide make it invalid: no gas limit past 64 bits fits a
/// block, and no nonce is so high (EIP-2681).
const fn fees(tx_type: u8) -> &'static [Field] {
    match tx_type {
        0 => &[(1, GAS_PRICE, 128)],
        1 => &[(2, GAS_PRICE, 128)],
        2 | 4 => &[(2, PRIORITY_FEE, 128), (3, MAX_FEE, 128)],
        3 => &[(2, PRIORITY_FEE, 128), (3, MAX_FEE, 128), (9, BLOB_FEE, 128)],
        _ => &[],
    }
}

const HEADER: &[Field] = &[(8, "the block number", 64), (11, "the timestamp", 64), (15, TooWide::BASE_FEE.field, 64)];

impl TooWide {
    /// The base fee of a block, in wei.
    pub(crate) const BASE_FEE: Self = Self { field: "the base fee per gas", bits: 64 };
    /// The price of blob gas in a block, in wei.
    pub(crate) const BLOB_BASE_FEE: Self = Self { field: "the base fee per blob gas", bits: 128 };

    /// Finds the first fee that is too wide in a transaction that could not be decoded, given by its EIP-2718 bytes.
    pub fn in_transaction(bytes: &[u8]) -> Option<Self> {
        let (tx_type, mut rest) = match bytes.split_first()? {
            (0xc0.., _) => (0, bytes),
            (tx_type, rest) => (*tx_type, rest),
        };
        let fields = items(&mut rest)?;
        // Blobs beside the transaction.
        match (tx_type, fields.first()) {
            (3, Some([0xc0..=0xff, ..])) => Self::among(&items(&mut &*fields[0])?, fees(3)),
            _ => Self::among(&fields, fees(tx_type)),
        }
    }

    /// Finds the first number that is too wide in a block that could not be decoded, given in RLP.
    pub fn in_block(mut rlp: &[u8]) -> Option<Self> {
        let parts = items(&mut rlp)?;
        let header = items(&mut &**parts.first()?)?;
        let txs = items(&mut &**parts.get(1)?).unwrap_or_default();
        let in_txs = || {
            txs.iter().find_map(|tx| match tx {
                // A transaction with a type is a string.
                [0xc0..=0xff, ..] => Self::in_transaction(tx),
                typed => Self::in_transaction(Header::decode_bytes(&mut &**typed, false).ok()?),
            })
        };
        Self::among(&header, HEADER).or_else(in_txs)
    }

    fn among(items: &[&[u8]], fields: &[Field]) -> Option<Self> {
        let is_wide = |(place, _, bits): &&Field| {
            let number = items.get(*place).and_then(|item| Header::decode_bytes(&mut &**item, false).ok());
            number.is_some_and(|number| {
                // Zeros in front are malformed, and do not make a number wide.
                let zeros = number.iter().take_while(|byte| **byte == 0).count();
                number.len() - zeros > *bits as usize / 8
            })
        };
        fields.iter().find(is_wide).map(|(_, field, bits)| Self { field, bits: *bits })
    }
}

/// Items of an RLP list, with their heads.
fn items<'a>(rlp: &mut &'a [u8]) -> Option<Vec<&'a [u8]>> {
    match Header::decode_raw(rlp).ok()? {
        PayloadView::List(items) => Some(items),
        PayloadView::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_rlp::Encodable;

    fn list(numbers: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        alloy_rlp::encode_list::<&[u8], [u8]>(numbers, &mut out);
        out
    }

    #[test]
    fn every_fee_that_is_too_wide_is_named() {
        let wide: &[u8] = &[1; 17];
        let fits: &[u8] = &[0xff; 16];
        let zeros: &[u8] = &[[0; 8].as_slice(), &[1; 16]].concat();
        for (tx_type, count) in [(0, 9), (1, 11), (2, 12), (3, 14), (4, 13)] {
            for place in 0..count {
                let tx = |number| {
                    let mut fields = vec![fits; count];
                    fields[place] = number;
                    let head = if tx_type == 0 { vec![] } else { vec![tx_type] };
                    [head, list(&fields)].concat()
                };
                let named = fees(tx_type).iter().find(|(at, ..)| *at == place).map(|(_, field, _)| *field);
                assert_eq!(TooWide::in_transaction(&tx(wide)).map(|wide| wide.field), named, "{tx_type} {place}");
                for number in [fits, zeros, &[]] {
                    assert_eq!(TooWide::in_transaction(&tx(number)), None);
                }
            }
        }
    }

    #[test]
    fn a_block_is_searched_with_its_transactions() {
        let header = |base_fee: &[u8]| list(&[&[[7].as_slice(); 15][..], &[base_fee]].concat());
        let block = |header: Vec<u8>, tx: &[u8]| {
            let mut typed = Vec::new();
            tx.encode(&mut typed);
            let mut txs = Vec::new();
            Header { list: true, payload_length: typed.len() }.encode(&mut txs);
            txs.extend(typed);
            let body = [header, txs, vec![0xc0]].concat();
            let mut out = Vec::new();
            Header { list: true, payload_length: body.len() }.encode(&mut out);
            [out, body].concat()
        };
        let fine = [&[2], list(&[[7].as_slice(); 12]).as_slice()].concat();
        let wide = [&[2], list(&[&[[7].as_slice(); 3][..], &[&[1; 20]]].concat()).as_slice()].concat();
        assert_eq!(TooWide::in_block(&block(header(&[1; 8]), &fine)), None);
        assert_eq!(TooWide::in_block(&block(header(&[1; 9]), &fine)), Some(TooWide::BASE_FEE));
        let found = TooWide::in_block(&block(header(&[1; 8]), &wide)).expect("a wide fee");
        assert_eq!(found.to_string(), "the maximum fee per gas does not fit 128 bits, the limit of this engine");
    }

    #[test]
    fn no_bytes_are_a_panic() {
        let block = list(&[&[1; 60], &[2; 3], &[0xc2, 1, 1]]);
        for cut in 0..block.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = block[..cut].to_vec();
                bytes.push(byte);
                let _ = (TooWide::in_block(&bytes), TooWide::in_transaction(&bytes));
            }
        }
    }
}
