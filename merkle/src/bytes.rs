/// Whether two byte strings are equal: those of up to 64 bytes, almost all keys and values, are compared by words that
/// overlap, without a call.
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

/// Whether the first and the last `N` bytes are equal. False if there are fewer.
#[inline]
fn same_ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    let ends = |bytes: &[u8]| Some((*bytes.first_chunk::<N>()?, *bytes.last_chunk::<N>()?));
    ends(a).is_some_and(|ends_of_a| ends(b) == Some(ends_of_a))
}

#[cfg(test)]
mod tests {
    use super::same;

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
