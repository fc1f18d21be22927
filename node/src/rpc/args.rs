//! Arguments of a method: geth's rules for what is canonical, and its texts for what is not.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rpc_types_eth::TransactionRequest;
use jsonrpsee::types::Params;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fault of an argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadArgument {
    #[error("non-array args")]
    NoArray,
    #[error("too many arguments, want at most {most}")]
    TooMany { most: usize },
    #[error("missing value for required argument {place}")]
    Missing { place: usize },
    #[error("invalid argument {place}: {why}")]
    Invalid { place: usize, why: String },
}

/// Positional arguments of a request.
#[derive(Clone, Debug)]
pub(super) struct Args(Vec<Value>);

/// Block that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockRef {
    Latest,
    Safe,
    Finalised,
    Earliest,
    Pending,
    Height(u64),
    Hash(B256),
}

impl Args {
    pub(super) fn read(params: &Params<'_>, most: usize) -> Result<Self, BadArgument> {
        let values: Vec<Value> = match params.as_str() {
            None | Some("null") => Vec::new(),
            Some(text) => serde_json::from_str(text).map_err(|_| BadArgument::NoArray)?,
        };
        if values.len() > most {
            return Err(BadArgument::TooMany { most });
        }
        Ok(Self(values))
    }

    /// All arguments, as they came.
    pub(super) fn all(&self) -> Value {
        Value::Array(self.0.clone())
    }

    /// All arguments, with another one at a place.
    pub(super) fn with(&self, place: usize, value: Value) -> Value {
        let mut all = self.0.clone();
        if let Some(at) = all.get_mut(place) {
            *at = value;
        }
        Value::Array(all)
    }

    /// An argument that is there and not null.
    pub(super) fn value(&self, place: usize) -> Option<&Value> {
        self.0.get(place).filter(|value| !value.is_null())
    }

    /// Reads an optional argument.
    pub(super) fn optional<T>(
        &self,
        place: usize,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, BadArgument> {
        self.value(place).map(|value| read(value).map_err(|why| BadArgument::Invalid { place, why })).transpose()
    }

    /// Reads an argument that must be there.
    pub(super) fn required<T>(
        &self,
        place: usize,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<T, BadArgument> {
        self.optional(place, read)?.ok_or(BadArgument::Missing { place })
    }

    /// Reads an optional block, or the newest.
    pub(super) fn block(&self, place: usize) -> Result<BlockRef, BadArgument> {
        Ok(self.optional(place, block)?.unwrap_or(BlockRef::Latest))
    }
}

/// Reads a value by its own rules. Numbers and bytes in it are hexadecimal digits alone: some readers take more forms of them.
pub(super) fn json<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    all_hex(value)?;
    T::deserialize(value).map_err(|error| error.to_string())
}

/// Checks every text in a value that begins like a hexadecimal number.
fn all_hex(value: &Value) -> Result<(), String> {
    // Without an early end, so that many are looked at side by side: a payload has megabytes of them.
    let are_digits = |text: &str| text.bytes().fold(true, |are, byte| are & is_digit(byte));
    let is_hex = |text: &str| match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !are_digits(digits) => Err("invalid hex string".to_owned()),
        _ => Ok(()),
    };
    match value {
        Value::String(text) => is_hex(text),
        Value::Array(items) => items.iter().try_for_each(all_hex),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| is_hex(name).and_then(|()| all_hex(value))),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

const fn is_digit(byte: u8) -> bool {
    (byte.wrapping_sub(b'0') < 10) | ((byte | 0x20).wrapping_sub(b'a') < 6)
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "a string is expected".into())
}

fn digits(text: &str) -> Result<&str, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    digits.ok_or_else(|| "hex string without 0x prefix".into())
}

/// Reads a quantity of at most `bits`, in its only encoding.
pub(super) fn canonical(value: &Value, bits: usize) -> Result<U256, String> {
    let digits = digits(text(value)?)?;
    if digits.is_empty() {
        return Err("hex string \"0x\"".into());
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err("hex number with leading zero digits".into());
    }
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("invalid hex string".into());
    }
    let number = U256::from_str_radix(digits, 16).ok().filter(|number| number.bit_len() <= bits);
    number.ok_or_else(|| format!("hex number > {bits} bits"))
}

/// Reads a quantity of 64 bits.
pub(super) fn quantity(value: &Value) -> Result<u64, String> {
    Ok(canonical(value, 64)?.to())
}

/// Reads a count: a quantity, or a plain number as libraries send for fee histories.
pub(super) fn count(value: &Value) -> Result<u64, String> {
    value.as_u64().map_or_else(|| quantity(value), Ok)
}

/// Reads bytes.
pub(super) fn bytes(value: &Value) -> Result<Bytes, String> {
    let digits = digits(text(value)?)?;
    if digits.len() % 2 != 0 {
        return Err("hex string of odd length".into());
    }
    // The reader takes a prefix of its own.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("invalid hex string".into());
    }
    digits.parse().map_err(|_| "invalid hex string".into())
}

/// Reads a hash.
pub(super) fn hash(value: &Value) -> Result<B256, String> {
    let bytes = bytes(value)?;
    B256::try_from(&bytes[..])
        .map_err(|_| format!("hex string has length {}, want 64 for common.Hash", 2 * bytes.len()))
}

/// Reads an address.
pub(super) fn address(value: &Value) -> Result<Address, String> {
    let bytes = bytes(value)?;
    Address::try_from(&bytes[..])
        .map_err(|_| format!("hex string has length {}, want 40 for common.Address", 2 * bytes.len()))
}

/// Reads the number of a storage slot: up to 32 bytes, leading zeros or not.
pub(super) fn slot(value: &Value) -> Result<U256, String> {
    let text = text(value)?;
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if digits.len() > 64 {
        return Err("storage key too long (want at most 32 bytes)".into());
    }
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("invalid hex in storage key".into());
    }
    U256::from_str_radix(digits, 16).map_err(|_| "invalid hex in storage key".into())
}

/// Reads a block by tag, height or hash.
pub(super) fn block(value: &Value) -> Result<BlockRef, String> {
    if let Value::Object(fields) = value {
        return match (fields.get("blockHash"), fields.get("blockNumber")) {
            (Some(_), Some(_)) => Err("cannot specify both BlockHash and BlockNumber, choose one or the other".into()),
            (Some(value), None) => Ok(BlockRef::Hash(hash(value)?)),
            (None, Some(value)) => number(value),
            (None, None) => Err("a blockHash or a blockNumber is expected".into()),
        };
    }
    if value.as_str().is_some_and(|text| text.len() == 66) {
        return Ok(BlockRef::Hash(hash(value)?));
    }
    number(value)
}

/// Reads a block by tag or height.
pub(super) fn number(value: &Value) -> Result<BlockRef, String> {
    Ok(match text(value)? {
        "latest" | "" => BlockRef::Latest,
        "safe" => BlockRef::Safe,
        "finalized" => BlockRef::Finalised,
        "earliest" => BlockRef::Earliest,
        "pending" => BlockRef::Pending,
        _ => BlockRef::Height(
            canonical(value, 63)
                .map_err(|why| match &why[..] {
                    "hex number > 63 bits" => "block number larger than int64".into(),
                    _ => why,
                })?
                .to(),
        ),
    })
}

/// Fields of a call that are quantities, with their widths.
const QUANTITIES: [(&str, usize); 8] = [
    ("gas", 64),
    ("nonce", 64),
    ("gasPrice", 256),
    ("maxFeePerGas", 256),
    ("maxPriorityFeePerGas", 256),
    ("maxFeePerBlobGas", 256),
    ("value", 256),
    ("chainId", 256),
];

/// Reads a call or transaction that is not signed.
pub(super) fn call(value: &Value) -> Result<TransactionRequest, String> {
    let Value::Object(fields) = value else { return Err("an object is expected".into()) };
    for (name, bits) in QUANTITIES {
        if let Some(value) = fields.get(name).filter(|value| !value.is_null()) {
            canonical(value, bits).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    json(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_have_one_encoding() {
        for (given, expected) in [("0x0", 0), ("0x1", 1), ("0xffffffffffffffff", u64::MAX), ("0xAb", 0xab)] {
            assert_eq!(quantity(&json!(given)), Ok(expected));
        }
        for (wrong, why) in [
            ("0x", "hex string \"0x\""),
            ("0x01", "hex number with leading zero digits"),
            ("1", "hex string without 0x prefix"),
            ("0xg", "invalid hex string"),
            ("0x+1", "invalid hex string"),
            ("0x10000000000000000", "hex number > 64 bits"),
        ] {
            assert_eq!(quantity(&json!(wrong)), Err(why.to_owned()), "{wrong}");
        }
        assert!(quantity(&json!(1)).is_err() && quantity(&json!({})).is_err());
    }

    #[test]
    fn hexadecimal_values_have_digits_alone() {
        let zero = "0".repeat(62);
        for wrong in ["0x0x".to_owned() + &zero, format!("0x_{zero}0"), format!("0x+{zero}0"), format!(" 0x{zero}0")] {
            assert!(bytes(&json!(wrong)).is_err() && hash(&json!(wrong)).is_err(), "{wrong}");
            assert!(address(&json!(wrong[..42])).is_err(), "{wrong}");
        }
        for wrong in ["0x1_0", "0x+1", " 0x1", "0x", "0x0x1", ""] {
            let refused = slot(&json!(wrong)).is_err();
            assert!(refused || ["0x", ""].contains(&wrong), "{wrong}");
        }
        assert_eq!(slot(&json!("0x010")), Ok(U256::from(16)), "leading zeros are usual");
        let with = |value: &str| json!({ "0x01": { "balance": value, "items": [{ "a": value }] } });
        assert!(json::<Value>(&with("0x10")).is_ok() && json::<Value>(&with("text")).is_ok());
        assert!(json::<Value>(&with("0x1_0")).is_err());
        assert!(json::<Value>(&json!({ "0x0x01": 1 })).is_err());
    }

    #[test]
    fn blocks_have_tags_heights_and_hashes() {
        let hash = B256::repeat_byte(7);
        for (given, expected) in [
            (json!("latest"), BlockRef::Latest),
            (json!("safe"), BlockRef::Safe),
            (json!("finalized"), BlockRef::Finalised),
            (json!("earliest"), BlockRef::Earliest),
            (json!("pending"), BlockRef::Pending),
            (json!("0x10"), BlockRef::Height(16)),
            (json!(hash), BlockRef::Hash(hash)),
            (json!({"blockHash": hash, "requireCanonical": true}), BlockRef::Hash(hash)),
            (json!({"blockNumber": "0x2"}), BlockRef::Height(2)),
        ] {
            assert_eq!(block(&given), Ok(expected), "{given}");
        }
        for wrong in [json!("newest"), json!(5), json!("0x8000000000000000"), json!({}), json!([]), json!("0x007")] {
            assert!(block(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn calls_are_checked_before_they_are_read() {
        assert!(call(&json!({"to": Address::ZERO, "gas": "0x5208", "value": "0x0", "data": "0x12"})).is_ok());
        for wrong in [
            json!({"gas": "0x05208"}),
            json!({"value": 5}),
            json!({"value": format!("0x1{}", "0".repeat(64))}),
            json!({"to": "0x12"}),
            json!({"data": "0x123"}),
            json!([]),
        ] {
            assert!(call(&wrong).is_err(), "{wrong}");
        }
    }
}
