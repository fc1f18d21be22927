//! Signatures, channels and key files, of a dealer and of operators.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod keys;
mod bls;
mod members;

/// A key file's content without its checksum, to be edited.
fn content(json: &str) -> serde_json::Value {
    let mut value: serde_json::Value = serde_json::from_str(json).unwrap();
    value.as_object_mut().unwrap().remove("checksum").unwrap();
    value
}

/// Flips every bit of a file: it is refused, or means the same.
fn survives_flips<T: PartialEq>(json: &str, parse: impl Fn(&[u8]) -> Option<T>) {
    let bytes = json.as_bytes();
    let good = parse(bytes);
    assert!(good.is_some());
    for bit in 0..bytes.len() * 8 {
        let mut hurt = bytes.to_vec();
        hurt[bit / 8] ^= 1 << (bit % 8);
        let read = parse(&hurt);
        assert!(read.is_none() || read == good, "bit {bit} makes other keys");
    }
}
