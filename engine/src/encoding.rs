//! How accounts and slots are written into the state store. Canonical: one value, one encoding.
//!
//! ```text
//! key     account: address (20 bytes)          slot: address ‖ slot (52 bytes)
//! value   account: code? << 7 | nonce length ‖ nonce ‖ balance length ‖ balance ‖ code hash, if any
//!         slot:    word
//! ```
//! Numbers are big-endian without leading zeros. A slot that is zero, or an account that does not exist, is not stored.

use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};

/// Longest key.
pub(crate) const MAX_KEY: usize = 52;
/// Longest value.
pub(crate) const MAX_VALUE: usize = 1 + 8 + 1 + 32 + 32;

const HAS_CODE: u8 = 0x80;

/// A key or value on the stack.
pub(crate) struct Encoded<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Encoded<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

pub(crate) fn slot_key(address: &Address, slot: &U256) -> [u8; MAX_KEY] {
    let mut key = [0; MAX_KEY];
    key[..20].copy_from_slice(address.as_slice());
    key[20..].copy_from_slice(&slot.to_be_bytes::<32>());
    key
}

fn minimal(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|b| **b == 0).count()..]
}

const fn word(number: &U256) -> ([u8; 32], usize) {
    (number.to_be_bytes(), 32 - number.byte_len())
}

pub(crate) fn encode_slot(number: &U256) -> Encoded<32> {
    let (bytes, start) = word(number);
    let mut value = Encoded::new();
    value.push(&bytes[start..]);
    value
}

pub(crate) fn encode_account(nonce: u64, balance: &U256, code_hash: &B256) -> Encoded<MAX_VALUE> {
    let has_code = *code_hash != KECCAK256_EMPTY;
    let nonce = nonce.to_be_bytes();
    let nonce = minimal(&nonce);
    let (balance, start) = word(balance);
    let mut value = Encoded::new();
    value.push(&[nonce.len() as u8 | if has_code { HAS_CODE } else { 0 }]);
    value.push(nonce);
    value.push(&[(32 - start) as u8]);
    value.push(&balance[start..]);
    if has_code {
        value.push(code_hash.as_slice());
    }
    value
}

/// A stored account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredAccount {
    pub(crate) nonce: u64,
    pub(crate) balance: U256,
    /// `None` when the account has no code.
    pub(crate) code_hash: Option<B256>,
}

/// Reads a number of at most `N` bytes that starts with its length, and what follows it.
fn take_number<const N: usize>(len: u8, bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    let len = len as usize;
    if len > N || bytes.len() < len || (len > 0 && bytes[0] == 0) {
        return None;
    }
    let mut number = [0; N];
    number[N - len..].copy_from_slice(&bytes[..len]);
    Some((number, &bytes[len..]))
}

/// `None` when the bytes are not the canonical encoding of an account.
pub(crate) fn decode_account(bytes: &[u8]) -> Option<StoredAccount> {
    let (head, bytes) = bytes.split_first()?;
    let (nonce, bytes) = take_number::<8>(head & !HAS_CODE, bytes)?;
    let (len, bytes) = bytes.split_first()?;
    let (balance, bytes) = take_number::<32>(*len, bytes)?;
    let code_hash = match (head & HAS_CODE != 0, bytes) {
        (false, []) => None,
        (true, hash) => Some(B256::new(hash.try_into().ok()?)),
        _ => return None,
    };
    Some(StoredAccount { nonce: u64::from_be_bytes(nonce), balance: U256::from_be_bytes(balance), code_hash })
}

/// `None` when the bytes are not the canonical encoding of a slot.
pub(crate) fn decode_slot(bytes: &[u8]) -> Option<U256> {
    if bytes.is_empty() || bytes.len() > 32 || bytes[0] == 0 {
        return None;
    }
    Some(U256::from_be_slice(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_slots_survive_the_round_trip() {
        let numbers = [U256::ZERO, U256::ONE, U256::from(255), U256::from(256), U256::from(u128::MAX), U256::MAX];
        for nonce in [0, 1, 255, 256, u64::MAX] {
            for balance in numbers {
                for hash in [KECCAK256_EMPTY, B256::repeat_byte(3)] {
                    let bytes = encode_account(nonce, &balance, &hash);
                    let code_hash = (hash != KECCAK256_EMPTY).then_some(hash);
                    assert_eq!(decode_account(bytes.as_slice()), Some(StoredAccount { nonce, balance, code_hash }));
                }
            }
        }
        for number in &numbers[1..] {
            assert_eq!(decode_slot(encode_slot(number).as_slice()), Some(*number));
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        let bytes = encode_account(7, &U256::from(9), &KECCAK256_EMPTY);
        let good = bytes.as_slice();
        assert_eq!(good, [1, 7, 1, 9]);
        for bad in [
            &[][..],
            &[1],
            &[1, 7],
            &[1, 7, 1],
            &[1, 7, 1, 9, 0],
            &[2, 0, 7, 1, 9],
            &[1, 7, 2, 0, 9],
            &[9],
            &[0x81, 7, 1, 9],
        ] {
            assert_eq!(decode_account(bad), None, "{bad:?}");
        }
        assert_eq!(decode_slot(&[]), None);
        assert_eq!(decode_slot(&[0, 1]), None);
        assert_eq!(decode_slot(&[1; 33]), None);
    }
}
