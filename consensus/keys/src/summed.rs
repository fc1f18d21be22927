//! Files with a checksum: a damaged key is refused, and is not another key.
//!
//! The checksum is the field `checksum` beside the others: BLAKE3 of the rest as compact JSON with sorted names. Files of older versions have
//! none.

use alloy_primitives::B256;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

const FIELD: &str = "checksum";

/// Reason why a file is not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// Not JSON of this shape; the parser's message.
    Malformed(String),
    /// The checksum is of other content.
    Damaged,
}

impl From<serde_json::Error> for Unread {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// The content of a file with its checksum.
pub(crate) fn write(keys: &impl Serialize) -> String {
    let mut value = serde_json::to_value(keys).expect("keys are plain data");
    if let Value::Object(fields) = &mut value {
        let sum = sum(fields);
        fields.insert(FIELD.into(), sum.to_string().into());
    }
    serde_json::to_string_pretty(&value).expect("keys are plain data")
}

/// Parses a file, and checks its checksum if it has one.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unread> {
    let mut fields: Map<String, Value> = serde_json::from_slice(bytes)?;
    match fields.remove(FIELD) {
        // From the bytes, in which a field that comes twice is refused.
        None => Ok(serde_json::from_slice(bytes)?),
        Some(expected) if serde_json::from_value::<B256>(expected.clone())? == sum(&fields) => {
            Ok(serde_json::from_value(Value::Object(fields))?)
        }
        Some(_) => Err(Unread::Damaged),
    }
}

fn sum(fields: &Map<String, Value>) -> B256 {
    let content = serde_json::to_vec(fields).expect("keys are plain data");
    B256::new(blake3::derive_key("phalanx-keys 1 file", &content))
}
