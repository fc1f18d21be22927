//! Memory that a message takes once it is decoded, told from its bytes before anything is allocated.

use super::refused::Refused;

/// Memory of an item of a decoded message beside its bytes, in bytes: a handle, and the allocator's share.
pub(crate) const ITEM: usize = 64;

/// Memory of a message once it is decoded, in bytes: one byte on the wire may become an item of many. The first byte of the
/// message is its kind, RLP follows.
///
/// # Errors
/// There are more than `most` items.
pub(crate) fn weigh(body: &[u8], most: usize) -> Result<usize, Refused> {
    let items = items(body.get(1..).unwrap_or_default());
    if items > most {
        return Err(Refused::Malformed(alloy_rlp::Error::Custom("too many items")));
    }
    Ok(body.len() + items * ITEM)
}

/// Number of strings and lists of an RLP encoding, nested ones as well. Malformed bytes end the count: decoding refuses them.
fn items(bytes: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(first) = bytes.get(at) {
        count += 1;
        // A list is entered, a string is passed over.
        at += match first {
            0..0x80 => 1,
            0x80..0xb8 => 1 + usize::from(first - 0x80),
            0xb8..0xc0 => {
                let digits = usize::from(first - 0xb7);
                let Some(length) = bytes.get(at + 1..at + 1 + digits) else { break };
                let length = length
                    .iter()
                    .fold(0_usize, |length, byte| length.saturating_mul(256).saturating_add(usize::from(*byte)));
                if length > bytes.len() {
                    break;
                }
                1 + digits + length
            }
            0xc0..0xf8 => 1,
            0xf8.. => 1 + usize::from(first - 0xf7),
        };
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;

    fn weight(txs: Vec<Bytes>, most: usize) -> Result<usize, Refused> {
        weigh(&[vec![1], alloy_rlp::encode(txs)].concat(), most)
    }

    #[test]
    fn every_item_counts_and_a_flood_of_them_is_refused() {
        let count = |lengths: &[usize]| {
            let txs: Vec<Bytes> = lengths.iter().map(|length| vec![0x99; *length].into()).collect();
            items(&alloy_rlp::encode(txs))
        };
        assert_eq!((count(&[]), count(&[0]), count(&[1, 55, 56, 300, 70_000])), (1, 2, 6));
        assert_eq!(items(&alloy_rlp::encode(vec![vec![7_u64, 300], vec![], vec![1]])), 7);
        // A megabyte of empty transactions would become 32 megabytes and more.
        let flood = vec![Bytes::new(); 1 << 20];
        assert!(matches!(weight(flood, 1 << 16), Err(Refused::Malformed(_))));
        assert_eq!(weight(vec![Bytes::new(); 1_000], 1 << 16).expect("few"), 1 + 1_003 + 1_001 * ITEM);
    }

    #[test]
    fn bytes_that_are_no_rlp_end_the_count() {
        for bytes in
            [&[0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0xb9, 1], &[0xbf], &[0xff], &[0x85, 1]]
        {
            assert_eq!(items(bytes), 1, "{bytes:?}");
        }
        assert!(weigh(&[], 0).expect("nothing") == 0);
    }
}
