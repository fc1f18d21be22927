//! Compares and copies short byte strings by overlapping words: almost all keys and values have at most 64 bytes.

/// Returns true if two byte strings are equal. Up to 64 bytes are compared by overlapping words, without a call.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len()
        && match a.len() {
            8..=16 => same_ends::<8>(a, b),
            17..=32 => same_ends::<16>(a, b),
            33..=64 => same_ends::<32>(a, b),
            _ => a == b,
        }
}

/// Returns true if the first and the last `N` bytes are equal; false if there are fewer.
#[inline]
fn same_ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    let ends = |bytes: &[u8]| Some((*bytes.first_chunk::<N>()?, *bytes.last_chunk::<N>()?));
    ends(a).is_some_and(|ends_of_a| ends(b) == Some(ends_of_a))
}

/// Copies a byte string over another of the same length: 8 to 64 bytes by overlapping words, without a call.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    match from.len() {
        8..=16 => copy_ends::<8>(to, from),
        17..=32 => copy_ends::<16>(to, from),
        33..=64 => copy_ends::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes.
#[inline]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        to.first_chunk_mut().into_iter().for_each(|to| *to = *first);
        to.last_chunk_mut().into_iter().for_each(|to| *to = *last);
    }
}

#[cfg(test)]
mod tests {
    use super::{copy, same};

    #[test]
    fn every_byte_is_copied() {
        let bytes: Vec<u8> = (1..=70).collect();
        for len in 0..=bytes.len() {
            let mut to = [0; 72];
            copy(&mut to[1..=len], &bytes[..len]);
            assert!(to[0] == 0 && to[1..=len] == bytes[..len] && to[len + 1..].iter().all(|byte| *byte == 0), "{len}");
        }
    }

    #[test]
    fn every_byte_and_the_length_matter() {
        for len in 0..70 {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            assert!(same(&bytes, &bytes.clone()), "length {len}");
            for at in 0..len {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert!(!same(&bytes, &other), "length {len} byte {at}");
                assert!(!same(&bytes, &bytes[..at]) && !same(&bytes[..at], &bytes), "lengths {len} and {at}");
            }
        }
    }
}
