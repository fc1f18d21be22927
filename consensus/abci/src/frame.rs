//! Messages on a stream: a length as a varint, then as many bytes of Protocol Buffers.

use prost::Message;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};

/// Maximum size of a message, in bytes: that of CometBFT's own reader.
pub const MAX_BYTES: u64 = 100 << 20;

/// Maximum number of bytes of a varint.
const VARINT: u32 = 10;

/// Reads a message; `None` at the end of the stream between two messages. Memory grows with the bytes that arrive, not with
/// the announced length.
///
/// # Errors
/// `InvalidData` for a length above [`MAX_BYTES`] or a message that cannot be decoded, `UnexpectedEof` for a cut one.
pub fn read<M: Message + Default>(stream: &mut impl BufRead) -> Result<Option<M>> {
    let Some(bytes) = read_bytes(stream)? else { return Ok(None) };
    decode(&bytes).map(Some)
}

/// Decodes the bytes of a message.
pub(crate) fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M> {
    M::decode(bytes).map_err(|error| invalid(error.to_string()))
}

/// Reads the bytes of a message, as [`read`] does.
pub(crate) fn read_bytes(stream: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let Some(len) = length(stream)? else { return Ok(None) };
    if len > MAX_BYTES {
        return Err(invalid(format!("a message of {len} bytes; at most {MAX_BYTES} are read")));
    }
    let mut bytes = Vec::new();
    stream.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != len {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(bytes))
}

/// Reads the bytes of a message that has arrived whole; `None` if none has. Waits for nothing.
pub(crate) fn read_arrived(stream: &mut BufReader<impl Read>) -> Result<Option<Vec<u8>>> {
    let mut arrived = stream.buffer();
    // What is wrong is found when it is read.
    let Ok(Some(len)) = length(&mut arrived) else { return Ok(None) };
    if len > arrived.len() as u64 { Ok(None) } else { read_bytes(stream) }
}

/// Writes a message.
///
/// # Errors
/// The stream does not take it.
pub fn write<M: Message>(stream: &mut impl Write, message: &M) -> Result<()> {
    stream.write_all(&message.encode_length_delimited_to_vec())
}

fn length(stream: &mut impl BufRead) -> Result<Option<u64>> {
    let mut len = 0;
    for place in 0..VARINT {
        let mut byte = [0];
        match stream.read_exact(&mut byte) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && place == 0 => return Ok(None),
            read => read?,
        }
        let bits = u64::from(byte[0] & 0x7f);
        let shifted = bits << (7 * place);
        if shifted >> (7 * place) != bits {
            break;
        }
        len |= shifted;
        if byte[0] & 0x80 == 0 {
            return Ok(Some(len));
        }
    }
    Err(invalid("a length beyond 64 bits".into()))
}

fn invalid(why: String) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tendermint_proto::v0_38::abci::{Request, RequestEcho, request::Value};

    fn echo(len: usize) -> Request {
        Request { value: Some(Value::Echo(RequestEcho { message: "m".repeat(len) })) }
    }

    #[test]
    fn messages_come_back_and_every_cut_is_an_error() {
        let (first, second) = (echo(3), echo(300));
        let mut bytes = Vec::new();
        write(&mut bytes, &first).expect("written");
        let whole = bytes.len();
        write(&mut bytes, &second).expect("written");
        let mut stream = &bytes[..];
        assert_eq!(read(&mut stream).expect("sound"), Some(first));
        assert_eq!(read(&mut stream).expect("sound"), Some(second));
        assert_eq!(read::<Request>(&mut stream).expect("the end"), None);
        for cut in whole + 1..bytes.len() {
            let mut stream = &bytes[whole..cut];
            let error = read::<Request>(&mut stream).expect_err("a cut message");
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "cut at {cut}");
        }
    }

    #[test]
    fn only_what_has_arrived_whole_is_read_ahead() {
        let mut bytes = Vec::new();
        for len in [3, 300, 5] {
            write(&mut bytes, &echo(len)).expect("written");
        }
        for arrived in 0..=bytes.len() {
            // A reader that would wait for ever ends with an error here.
            let mut stream = BufReader::with_capacity(1 << 10, &bytes[..arrived]);
            let _ = stream.fill_buf();
            let mut count = 0;
            while let Some(message) = read_arrived(&mut stream).expect("sound") {
                assert_eq!(decode::<Request>(&message).expect("sound"), echo([3, 300, 5][count]));
                count += 1;
            }
            assert_eq!(count == 3, arrived == bytes.len(), "{arrived}");
        }
        assert!(read_arrived(&mut BufReader::new(&[0xff; 16][..])).expect("nothing").is_none());
    }

    #[test]
    fn lengths_are_bounded_before_anything_is_allocated() {
        let read = |bytes: &[u8]| read::<Request>(&mut &bytes[..]).expect_err("refused").kind();
        assert_eq!(read(&[0xff; 16]), ErrorKind::InvalidData);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), ErrorKind::InvalidData);
        let mut vast = Vec::new();
        prost::encode_length_delimiter(usize::try_from(MAX_BYTES).expect("64 bits") + 1, &mut vast).expect("room");
        assert_eq!(read(&vast), ErrorKind::InvalidData);
        let mut allowed = Vec::new();
        prost::encode_length_delimiter(usize::try_from(MAX_BYTES).expect("64 bits"), &mut allowed).expect("room");
        assert_eq!(read(&allowed), ErrorKind::UnexpectedEof);
        assert_eq!(read(&[2, 0xff, 0xff]), ErrorKind::InvalidData);
    }
}
