//! Record of a file: a head that binds it to its place, then the body.
//!
//! ```text
//!  length of the body (4) │ checksum of the length (12) │ checksum of the body (16) │ body │ end mark (1)
//! ```
//!
//! Numbers are big-endian. Checksums are the first bytes of BLAKE3 over the previous
//! record's checksum, the record's offset and what they cover. So a record counts only at its offset, behind its predecessor.

/// Length of the head, in bytes.
pub(crate) const HEAD: usize = 32;

/// Last byte of a record: a record whose end reads as zeros was not written to its end.
const END: u8 = 0xa5;

/// Checksum of a record's body, which the next record's checksums cover.
pub(crate) type Link = [u8; 16];

/// Place of a record: its offset in bytes, and the checksum of the record before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) after: Link,
}

impl Place {
    /// Checksum of the length of a body.
    fn of_length(&self, length: [u8; 4]) -> [u8; 12] {
        self.checksum("phalanx journal 2, length of a record", length, &[])
    }

    /// Checksum of a body.
    fn of_body(&self, length: [u8; 4], body: &[u8]) -> Link {
        self.checksum("phalanx journal 2, body of a record", length, body)
    }

    fn checksum<const N: usize>(&self, context: &str, length: [u8; 4], body: &[u8]) -> [u8; N] {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&self.after).update(&self.at.to_be_bytes()).update(&length).update(body);
        let mut checksum = [0; N];
        hasher.finalize_xof().fill(&mut checksum);
        checksum
    }
}

/// Makes a record for a place, with its link. `encode` appends the body. `None` if it has none or it is longer than a record can
/// state.
pub(crate) fn frame(place: &Place, encode: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<(Vec<u8>, Link)> {
    let mut out = vec![0; HEAD];
    encode(&mut out)?;
    let length = u32::try_from(out.len() - HEAD).ok()?.to_be_bytes();
    let (head, body) = out.split_at_mut(HEAD);
    let link = place.of_body(length, body);
    head[..4].copy_from_slice(&length);
    head[4..16].copy_from_slice(&place.of_length(length));
    head[16..].copy_from_slice(&link);
    out.push(END);
    Some((out, link))
}

/// Length of a record by its head; `None` if the checksum of the length fails.
pub(crate) fn length(head: &[u8; HEAD], place: &Place) -> Option<u64> {
    let (length, rest) = head.split_first_chunk::<4>()?;
    let (length, checksum) = (*length, *rest.first_chunk::<12>()?);
    (place.of_length(length) == checksum).then_some(HEAD as u64 + u64::from(u32::from_be_bytes(length)) + 1)
}

/// Link in a head.
pub(crate) fn link(head: &[u8; HEAD]) -> Link {
    let mut link = Link::default();
    link.copy_from_slice(&head[HEAD - size_of::<Link>()..]);
    link
}

/// Body and link of a record that is exactly `bytes`; `None` for anything but a whole record of this place.
pub(crate) fn unframe<'a>(bytes: &'a [u8], place: &Place) -> Option<(&'a [u8], Link)> {
    let (head, rest) = bytes.split_first_chunk()?;
    let (&END, body) = rest.split_last()? else { return None };
    let whole = length(head, place)? == bytes.len() as u64;
    let (expected, [a, b, c, d, ..]) = (link(head), *head);
    (whole && place.of_body([a, b, c, d], body) == expected).then_some((body, expected))
}
