//! Encoding of accounts and slots in the state store. Canonical: one value, one encoding.
//!
//! ```text
//! key     account: address (20 bytes)          slot: address ‖ slot ‖ incarnation, if not zero (52 or 56 bytes)
//!         name of a block: "name" ‖ lowest byte of its height (5 bytes)
//!         use of the last block, if it is a service's: "used"
//! value   account: code? << 7 | incarnation? << 6 | nonce length ‖ incarnation, if not zero (4 bytes)
//!                  ‖ nonce ‖ balance length ‖ balance ‖ code hash, if any
//!         account that is gone: 0x60 ‖ incarnation (4 bytes)
//!         slot:    word
//!         name:    height (8 bytes) ‖ name (32 bytes)
//!         use:     height ‖ gas used ‖ excess blob gas ‖ blob gas used (8 bytes each)
//! ```
//! Numbers are big-endian without leading zeros. A slot that is zero is not stored, nor is an account that does not exist,
//! unless its incarnation must be remembered. Above a [remote state](super::RemoteState), which would be read for them, both are stored:
//! the account as 0x20, the slot as one zero byte.
//!
//! **Incarnations.** Before Cancun SELFDESTRUCT empties an account's storage at once, however large. The engine does so
//! by incrementing the account's incarnation, a part of the key of each of its slots: old slots are out of reach.
//! Cancun ended that (EIP-6780), so accounts created since then have incarnation zero, which costs nothing.

use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use revm::state::AccountInfo;

/// Maximum length of a key, in bytes.
pub(crate) const MAX_KEY: usize = 56;
/// Maximum length of a value, in bytes.
pub(crate) const MAX_VALUE: usize = 1 + 4 + 8 + 1 + 32 + 32;

const HAS_CODE: u8 = 0x80;
const HAS_INCARNATION: u8 = 0x40;
const GONE: u8 = 0x20 | HAS_INCARNATION;

/// An account that does not exist, though the remote one may.
pub(crate) const NO_ACCOUNT: &[u8] = &[0x20];
/// A slot that is zero, though the remote one may not be.
pub(crate) const NO_WORD: &[u8] = &[0];

/// A key or value on the stack.
#[derive(Clone, Copy)]
pub(crate) struct Encoded<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Encoded<N> {
    /// Empty, which is no key of the store.
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends a number of `len` bytes. The buffer has room for sixteen: all are written at once, those behind the
    /// number as zeros.
    #[inline]
    fn push_number(&mut self, number: u128, len: usize) {
        let bytes = number.unbounded_shl(128 - 8 * len as u32).to_be_bytes();
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(&bytes);
        self.len += len;
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> AsRef<[u8]> for Encoded<N> {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

#[inline]
pub(crate) fn account_key(address: &Address) -> Encoded<MAX_KEY> {
    let mut key = Encoded::new();
    key.push(address.as_slice());
    key
}

#[inline]
pub(crate) fn slot_key(address: &Address, slot: &U256, incarnation: u32) -> Encoded<MAX_KEY> {
    let mut key = Encoded::new();
    key.push(address.as_slice());
    key.push(&slot.to_be_bytes::<32>());
    if incarnation != 0 {
        key.push(&incarnation.to_be_bytes());
    }
    key
}

/// Address, slot and incarnation of a slot's key; `None` for any other key.
pub(crate) fn decode_slot_key(key: &[u8]) -> Option<(Address, U256, u32)> {
    let (address, rest) = key.split_at_checked(20)?;
    let (slot, rest) = rest.split_at_checked(32)?;
    let incarnation = match rest {
        [] => 0,
        rest => u32::from_be_bytes(rest.try_into().ok()?),
    };
    Some((Address::from_slice(address), U256::from_be_slice(slot), incarnation))
}

/// Key of the hash of the block at `height`.
pub(crate) const fn name_key(height: u64) -> [u8; 5] {
    [b'n', b'a', b'm', b'e', height as u8]
}

/// Encodes a block's hash, or a name, with its height.
pub(crate) fn encode_name(height: u64, name: &B256) -> [u8; 40] {
    let mut value = [0; 40];
    value[..8].copy_from_slice(&height.to_be_bytes());
    value[8..].copy_from_slice(name.as_slice());
    value
}

pub(crate) fn decode_name(value: &[u8]) -> Option<(u64, B256)> {
    let (height, name) = value.split_first_chunk()?;
    Some((u64::from_be_bytes(*height), B256::new(name.try_into().ok()?)))
}

/// Encodes a service's last block: its height, the name of its execution, and the digest of its header.
pub(crate) fn encode_last(height: u64, name: &B256, header: &B256) -> [u8; 72] {
    let mut value = [0; 72];
    value[..40].copy_from_slice(&encode_name(height, name));
    value[40..].copy_from_slice(header.as_slice());
    value
}

pub(crate) fn decode_last(value: &[u8]) -> Option<(u64, B256, B256)> {
    let (name, header) = value.split_at_checked(40)?;
    let (height, name) = decode_name(name)?;
    Some((height, name, B256::new(header.try_into().ok()?)))
}

/// Length of a number, in bytes.
#[inline]
const fn byte_len(number: u128) -> usize {
    (u128::BITS - number.leading_zeros()).div_ceil(8) as usize
}

/// The word as a number of sixteen bytes, if it fits: almost every balance does.
#[inline]
const fn short(word: &U256) -> Option<u128> {
    let [low, high, 0, 0] = *word.as_limbs() else { return None };
    Some((high as u128) << 64 | low as u128)
}

#[inline]
pub(crate) fn encode_slot(number: &U256) -> Encoded<32> {
    let mut value = Encoded::new();
    match short(number) {
        Some(number) => value.push_number(number, byte_len(number)),
        None => value.push(&number.to_be_bytes::<32>()[32 - number.byte_len()..]),
    }
    value
}

#[inline]
pub(crate) fn encode_account(account: &StoredAccount) -> Encoded<MAX_VALUE> {
    let StoredAccount { exists, nonce, balance, code_hash, incarnation } = account;
    let mut value = Encoded::new();
    if !exists {
        value.push(&[GONE]);
        value.push(&incarnation.to_be_bytes());
        return value;
    }
    let nonce = u128::from(*nonce);
    let nonce_len = byte_len(nonce);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    value.push(&[nonce_len as u8 | flag(code_hash.is_some(), HAS_CODE) | flag(*incarnation != 0, HAS_INCARNATION)]);
    if *incarnation != 0 {
        value.push(&incarnation.to_be_bytes());
    }
    value.push_number(nonce, nonce_len);
    match short(balance) {
        Some(balance) => {
            let len = byte_len(balance);
            value.push(&[len as u8]);
            value.push_number(balance, len);
        }
        None => {
            let len = balance.byte_len();
            value.push(&[len as u8]);
            value.push(&balance.to_be_bytes::<32>()[32 - len..]);
        }
    }
    if let Some(hash) = code_hash {
        value.push(hash.as_slice());
    }
    value
}

/// A stored account. Its code hash may be borrowed from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredAccount<H = B256> {
    /// False if only the incarnation is stored.
    pub(crate) exists: bool,
    pub(crate) nonce: u64,
    pub(crate) balance: U256,
    /// `None` when the account has no code.
    pub(crate) code_hash: Option<H>,
    /// Number of times that its storage was emptied.
    pub(crate) incarnation: u32,
}

impl StoredAccount {
    /// The account without its code.
    pub(crate) fn into_info(self) -> AccountInfo {
        let Self { balance, nonce, code_hash, .. } = self;
        AccountInfo { balance, nonce, code_hash: code_hash.unwrap_or(KECCAK256_EMPTY), code: None, account_id: None }
    }
}

impl StoredAccount<&B256> {
    /// Copies the borrowed code hash.
    const fn copied(self) -> StoredAccount {
        let Self { exists, nonce, balance, code_hash, incarnation } = self;
        StoredAccount { exists, nonce, balance, code_hash: code_hash.copied(), incarnation }
    }
}

/// Reads a big-endian number of at most sixteen bytes. From eight bytes on it reads two words, which overlap.
#[inline]
fn number(bytes: &[u8]) -> u128 {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            let behind_first = 8 * (bytes.len() as u32 - 8);
            let last = u64::from_be_bytes(*last) & !u64::MAX.unbounded_shl(behind_first);
            u128::from(u64::from_be_bytes(*first)) << behind_first | u128::from(last)
        }
        _ => bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)),
    }
}

/// Reads a big-endian number of at most 32 bytes.
#[inline]
fn word(bytes: &[u8]) -> U256 {
    if bytes.len() <= 16 { U256::from(number(bytes)) } else { U256::from_be_slice(bytes) }
}

/// Splits a number of `len` bytes, at most `most`, without leading zeros, from the rest.
#[inline]
fn take_number(len: u8, most: usize, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (number, rest) = bytes.split_at_checked(usize::from(len))?;
    (number.len() <= most && number.first() != Some(&0)).then_some((number, rest))
}

/// Decodes an account; `None` if the bytes are not its canonical encoding.
pub(crate) fn decode_account(bytes: &[u8]) -> Option<StoredAccount> {
    read_account(bytes).map(StoredAccount::copied)
}

/// Decodes like [`decode_account`], with each word kept in a register: a word written to memory and read again at once
/// in other pieces stalls.
#[inline(always)]
pub(crate) fn read_account(bytes: &[u8]) -> Option<StoredAccount<&B256>> {
    if bytes == NO_ACCOUNT {
        return Some(StoredAccount { exists: false, nonce: 0, balance: U256::ZERO, code_hash: None, incarnation: 0 });
    }
    let (head, bytes) = bytes.split_first()?;
    let (incarnation, bytes) = if head & HAS_INCARNATION == 0 {
        (0, bytes)
    } else {
        let (number, bytes) = bytes.split_first_chunk::<4>()?;
        (Some(u32::from_be_bytes(*number)).filter(|number| *number != 0)?, bytes)
    };
    if *head == GONE {
        let gone = StoredAccount { exists: false, nonce: 0, balance: U256::ZERO, code_hash: None, incarnation };
        return bytes.is_empty().then_some(gone);
    }
    let (nonce, bytes) = take_number(head & !(HAS_CODE | HAS_INCARNATION), 8, bytes)?;
    let (len, bytes) = bytes.split_first()?;
    let (balance, bytes) = take_number(*len, 32, bytes)?;
    let code_hash = match (head & HAS_CODE != 0, bytes) {
        (false, []) => None,
        (true, hash) => Some(hash.try_into().ok()?),
        _ => return None,
    };
    let (nonce, balance) = (number(nonce) as u64, word(balance));
    Some(StoredAccount { exists: true, nonce, balance, code_hash, incarnation })
}

/// Decodes a slot; `None` if the bytes are not its canonical encoding.
#[inline]
pub(crate) fn decode_slot(bytes: &[u8]) -> Option<U256> {
    if bytes.is_empty() || bytes.len() > 32 || bytes[0] == 0 && bytes != NO_WORD {
        return None;
    }
    Some(word(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_slots_and_keys_survive_the_round_trip() {
        // Numbers of every length, with distinct bytes.
        let digits = U256::from_be_bytes(core::array::from_fn::<u8, 32, _>(|at| at as u8 + 1));
        let mut numbers = vec![U256::ZERO, U256::from(255), U256::from(256), U256::from(u128::MAX), U256::MAX];
        numbers.extend((0..32).map(|bytes| digits >> (8 * bytes)));
        for nonce in (0..8).map(|bytes| (u64::MAX / 3) >> (8 * bytes)).chain([0, 1, 255, 256, u64::MAX]) {
            for balance in numbers.iter().copied() {
                for code_hash in [None, Some(B256::repeat_byte(3))] {
                    for incarnation in [0, 1, u32::MAX] {
                        let account = StoredAccount { exists: true, nonce, balance, code_hash, incarnation };
                        assert_eq!(decode_account(encode_account(&account).as_slice()), Some(account));
                    }
                }
            }
        }
        let gone =
            StoredAccount { exists: false, nonce: 0, balance: U256::ZERO, code_hash: None, incarnation: 0x0102_0304 };
        assert_eq!(decode_account(encode_account(&gone).as_slice()), Some(gone));
        for (slot, incarnation) in [(U256::ONE, 0), (U256::MAX, 1), (U256::ZERO, u32::MAX)] {
            let address = Address::repeat_byte(8);
            let key = slot_key(&address, &slot, incarnation);
            assert_eq!(decode_slot_key(key.as_slice()), Some((address, slot, incarnation)));
        }
        let absent = decode_account(NO_ACCOUNT).map(|account| (account.exists, account.incarnation));
        assert_eq!((absent, decode_slot(NO_WORD)), (Some((false, 0)), Some(U256::ZERO)));
        assert_eq!(decode_slot_key(&[1; 20]), None);
        assert_eq!(decode_slot_key(&[1; 55]), None);
        for number in &numbers[1..] {
            let encoded = encode_slot(number);
            assert_eq!(encoded.as_slice(), number.to_be_bytes_trimmed_vec());
            assert_eq!(decode_slot(encoded.as_slice()), Some(*number));
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        let account = StoredAccount { exists: true, nonce: 7, balance: U256::from(9), code_hash: None, incarnation: 0 };
        let bytes = encode_account(&account);
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
            &[0x41, 0, 0, 0, 0, 7, 1, 9],
            &[0x60, 0, 0, 0, 0],
            &[0x60, 0, 0, 0, 1, 0],
            &[0x20, 0],
            &[0x20, 0, 0, 0, 1],
        ] {
            assert_eq!(decode_account(bad), None, "{bad:?}");
        }
        assert_eq!(decode_slot(&[]), None);
        assert_eq!(decode_slot(&[0, 1]), None);
        assert_eq!(decode_slot(&[1; 33]), None);
    }
}
