//! Frames: length, tag, body.
//!
//! ```text
//!  length of tag and body (4, big-endian) │ tag │ body
//! ```

use super::{refused::Refused, seal::Seal};
use std::io::{Read, Write};

/// Bytes for which memory is taken before they have come.
const STEP: usize = 1 << 16;

/// Writes a frame.
pub(crate) fn write_frame(out: &mut impl Write, seal: &mut Seal, body: &[u8]) -> Result<(), Refused> {
    let tag = seal.tag(body);
    let length = u32::try_from(tag.len() + body.len());
    let length = length.map_err(|_| Refused::TooLong { bytes: body.len() as u64, most: u32::MAX as usize })?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&tag)?;
    out.write_all(body)?;
    Ok(())
}

/// True if these bytes begin with a whole frame.
pub(crate) fn has_frame(bytes: &[u8]) -> bool {
    bytes.split_first_chunk().is_some_and(|(length, rest)| rest.len() >= u32::from_be_bytes(*length) as usize)
}

/// Reads the next frame and checks its tag. Memory grows with the bytes that come, not with the length that is claimed.
pub(crate) fn read_frame(input: &mut impl Read, seal: &mut Seal, most: usize) -> Result<Vec<u8>, Refused> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    let tag_bytes = seal.tag_bytes();
    if length > most + tag_bytes {
        return Err(Refused::TooLong { bytes: length as u64, most });
    }
    let Some(body_bytes) = length.checked_sub(tag_bytes) else { return Err(Refused::Unproven) };
    let mut tag = vec![0; tag_bytes];
    input.read_exact(&mut tag)?;
    let mut body = Vec::with_capacity(body_bytes.min(STEP));
    input.take(body_bytes as u64).read_to_end(&mut body)?;
    if body.len() < body_bytes {
        return Err(Refused::Io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    if seal.opens(&body, &tag) { Ok(body) } else { Err(Refused::Unproven) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_lies_about_lengths_cost_nothing() {
        let mut wire = Vec::new();
        for body in [&b""[..], b"one", &[7; 100_000]] {
            write_frame(&mut wire, &mut Seal::None, body).expect("memory");
        }
        assert!(has_frame(&wire[..4]) && has_frame(&wire[4..11]), "of no bytes, and of three");
        assert!((4..11).all(|end| !has_frame(&wire[4..end])) && !has_frame(&[]));
        let mut input = wire.as_slice();
        let mut read = |most| read_frame(&mut input, &mut Seal::None, most);
        assert_eq!(read(100_000).expect("a frame"), b"");
        assert_eq!(read(100_000).expect("a frame"), b"one");
        assert!(matches!(read(99_999), Err(Refused::TooLong { bytes: 100_000, most: 99_999 })));
        let mut lie = &[0x7f, 0xff, 0xff, 0xff, 1, 2, 3][..];
        assert!(matches!(read_frame(&mut lie, &mut Seal::None, u32::MAX as usize), Err(Refused::Io(_))));
    }
}
