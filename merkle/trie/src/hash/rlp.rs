//! RLP (Yellow Paper, appendix B) of paths and values, without intermediate buffers.

use alloy_primitives::{B256, U256};

use crate::types::{Account, DEPTH};

const STRING: u8 = 0x80;
const LIST: u8 = 0xc0;

/// Writes the header of a string or a list with a payload of at most 65,535 bytes.
fn header(kind: u8, len: usize, out: &mut Vec<u8>) {
    match len {
        0..56 => out.push(kind + len as u8),
        56..256 => out.extend_from_slice(&[kind + 56, len as u8]),
        _ => out.extend_from_slice(&[kind + 57, (len >> 8) as u8, len as u8]),
    }
}

const fn header_len(len: usize) -> usize {
    match len {
        0..56 => 1,
        56..256 => 2,
        _ => 3,
    }
}

pub(super) fn list(len: usize, out: &mut Vec<u8>) {
    header(LIST, len, out);
}

/// Writes a string.
pub(super) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    if !is_itself(bytes) {
        header(STRING, bytes.len(), out);
    }
    out.extend_from_slice(bytes);
}

pub(super) const fn string_len(bytes: &[u8]) -> usize {
    if is_itself(bytes) { 1 } else { header_len(bytes.len()) + bytes.len() }
}

const fn is_itself(bytes: &[u8]) -> bool {
    matches!(bytes, [byte] if *byte < STRING)
}

/// Kind of node that a path belongs to, as its first nibble says.
#[derive(Clone, Copy)]
pub(super) enum PathOf {
    Extension = 0x00,
    Leaf = 0x20,
}

/// Bytes of the nibbles `from..to` of a key (Yellow Paper, appendix C): first byte, then pairs of nibbles.
pub(super) struct Path {
    bytes: [u8; 33],
    len: usize,
}

impl Path {
    pub(super) fn new(of: PathOf, key: &B256, from: usize, to: usize) -> Self {
        let nibble = |at| crate::types::nibble(key, at) as u8;
        let mut path = Self { bytes: [0; 33], len: 1 + (to - from) / 2 };
        let odd = !(to - from).is_multiple_of(2);
        path.bytes[0] = of as u8 | if odd { 0x10 | nibble(from) } else { 0 };
        let from = from + usize::from(odd);
        if from.is_multiple_of(2) {
            path.bytes[1..path.len].copy_from_slice(&key[from / 2..to / 2]);
        } else {
            for (byte, at) in path.bytes[1..path.len].iter_mut().zip((from..).step_by(2)) {
                *byte = nibble(at) << 4 | nibble(at + 1);
            }
        }
        path
    }

    pub(super) fn of_leaf(key: &B256, from: usize) -> Self {
        Self::new(PathOf::Leaf, key, from, DEPTH)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Writes an account as the value of a leaf: nonce, balance, storage root, hash of the code (Yellow Paper, 4.1).
pub(crate) fn account_value(account: &Account, storage: &B256, out: &mut Vec<u8>) {
    let (nonce, balance) = (account.nonce.to_be_bytes(), account.balance.to_be_bytes::<32>());
    let nonce = &nonce[account.nonce.leading_zeros() as usize / 8..];
    let balance = &balance[account.balance.leading_zeros() / 8..];
    list(string_len(nonce) + string_len(balance) + 33 + 33, out);
    string(nonce, out);
    string(balance, out);
    for hash in [storage, &account.code_hash] {
        let mut string = [STRING + 32; 33];
        string[1..].copy_from_slice(&hash.0);
        out.extend_from_slice(&string);
    }
}

/// Writes the value of a slot as the value of a leaf.
pub(crate) fn slot_value(value: &U256, out: &mut Vec<u8>) {
    string(&value.to_be_bytes::<32>()[value.leading_zeros() / 8..], out);
}
