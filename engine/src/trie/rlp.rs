//! RLP straight into vectors, for receipts and nodes of their trie. alloy's encoders make a virtual call per item,
//! which cost an ERC20 transfer some 50 ns.

/// First byte of a string's header; alone, the empty string.
pub(crate) const STRING: u8 = 0x80;
const LIST: u8 = 0xc0;

/// Maximum payload whose length fits into the header's only byte.
const SHORT: usize = 55;

/// Length of an item with a header, by the length of its payload.
#[inline]
pub(crate) const fn length(payload: usize) -> usize {
    let header = if payload <= SHORT { 1 } else { 1 + bytes_of(payload as u64) };
    header + payload
}

/// Length of an encoded string.
#[inline]
pub(crate) const fn string_length(bytes: &[u8]) -> usize {
    if is_own_encoding(bytes) { 1 } else { length(bytes.len()) }
}

/// Length of an encoded number.
#[inline]
pub(crate) const fn number_length(number: u64) -> usize {
    if number < STRING as u64 { 1 } else { 1 + bytes_of(number) }
}

/// Writes the header of a list with `payload` bytes of items.
#[inline]
pub(crate) fn list(payload: usize, out: &mut Vec<u8>) {
    header(LIST, payload, out);
}

/// Writes a header.
#[inline]
pub(crate) fn header(kind: u8, payload: usize, out: &mut Vec<u8>) {
    if payload <= SHORT {
        out.push(kind + payload as u8);
    } else {
        out.push(kind + SHORT as u8 + bytes_of(payload as u64) as u8);
        out.extend_from_slice(significant(&(payload as u64).to_be_bytes()));
    }
}

/// Writes a string.
#[inline]
pub(crate) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    if !is_own_encoding(bytes) {
        header(STRING, bytes.len(), out);
    }
    out.extend_from_slice(bytes);
}

/// Writes a string of 2 to 55 bytes.
#[inline]
pub(crate) fn fixed<const N: usize>(bytes: &[u8; N], out: &mut Vec<u8>) {
    const { assert!(1 < N && N <= SHORT) };
    out.push(STRING + N as u8);
    out.extend_from_slice(bytes);
}

/// Writes a number.
#[inline]
pub(crate) fn number(number: u64, out: &mut Vec<u8>) {
    if 0 < number && number < STRING.into() {
        out.push(number as u8);
    } else {
        out.push(STRING + bytes_of(number) as u8);
        out.extend_from_slice(significant(&number.to_be_bytes()));
    }
}

/// Returns true if the bytes are a single small byte, which is its own encoding.
#[inline]
const fn is_own_encoding(bytes: &[u8]) -> bool {
    matches!(bytes, [0..STRING])
}

#[inline]
const fn bytes_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

#[inline]
fn significant(bytes: &[u8; 8]) -> &[u8] {
    &bytes[8 - bytes_of(u64::from_be_bytes(*bytes))..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_rlp::{Encodable, Header};

    #[test]
    fn items_are_those_of_alloy() {
        let lengths = [0, 1, 2, 54, 55, 56, 57, 255, 256, 257, 65_535, 65_536, 70_000];
        for len in lengths {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let bytes = vec![byte; len];
                let (mut mine, mut theirs) = (Vec::new(), Vec::new());
                string(&bytes, &mut mine);
                bytes.as_slice().encode(&mut theirs);
                assert_eq!((mine.len(), &mine), (string_length(&bytes), &theirs), "{len} bytes {byte}");
            }
            let (mut mine, mut theirs) = (Vec::new(), Vec::new());
            list(len, &mut mine);
            Header { list: true, payload_length: len }.encode(&mut theirs);
            assert_eq!((mine.len() + len, &mine), (length(len), &theirs), "a list of {len}");
        }
        for value in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, u64::MAX >> bit]) {
            let (mut mine, mut theirs) = (Vec::new(), Vec::new());
            number(value, &mut mine);
            value.encode(&mut theirs);
            assert_eq!((mine.len(), &mine), (number_length(value), &theirs), "{value}");
        }
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        fixed(&[7; 32], &mut mine);
        [7u8; 32].encode(&mut theirs);
        assert_eq!(mine, theirs);
    }
}
