//! Encodings of the Engine API: hexadecimal text with a prefix, and of numbers the only one. Readers of JSON-RPC take more forms.

use super::args;
use alloy_primitives::{B256, Bytes};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `QUANTITY` of so many bits.
    Quantity(usize),
    /// `DATA`, whose length its type has.
    Data,
    /// Array of `DATA`.
    List,
    /// Array of `WithdrawalV1`.
    Withdrawals,
}

/// Fields of `WithdrawalV1`.
const WITHDRAWAL: [(&str, Form); 4] = [
    ("index", Form::Quantity(64)),
    ("validatorIndex", Form::Quantity(64)),
    ("address", Form::Data),
    ("amount", Form::Quantity(64)),
];

impl Form {
    /// Checks everything about a value but its digits, which every reader checks many of at a time.
    fn check(self, value: &Value) -> Result<(), String> {
        let items = || value.as_array().ok_or("an array is expected");
        match self {
            Self::Quantity(bits) => prefixed(value).and_then(|_| args::canonical(value, bits)).map(drop),
            Self::Data if prefixed(value)?.len() % 2 != 0 => Err("hex string of odd length".into()),
            Self::Data => Ok(()),
            Self::List => items()?.iter().try_for_each(|item| Self::Data.check(item)),
            Self::Withdrawals => items()?.iter().try_for_each(|item| check(item, &WITHDRAWAL)),
        }
    }

    fn read<T: DeserializeOwned>(self, value: &Value) -> Result<T, String> {
        self.check(value)?;
        args::json(value)
    }
}

/// Digits of a text behind its prefix, of which one is allowed.
fn prefixed(value: &Value) -> Result<&str, String> {
    let text = value.as_str().ok_or("a string is expected")?;
    text.strip_prefix("0x").ok_or_else(|| "hex string without 0x prefix".into())
}

/// Checks that an object has these fields in their forms, and no other one. Null is none.
pub(super) fn check(value: &Value, fields: &[(&str, Form)]) -> Result<(), String> {
    let object = value.as_object().ok_or("an object is expected")?;
    for (name, form) in fields {
        let value = object.get(*name).filter(|value| !value.is_null()).ok_or_else(|| format!("{name} is missing"))?;
        form.check(value).map_err(|why| format!("{name}: {why}"))?;
    }
    let is_extra = |(name, value): &(&String, &Value)| !value.is_null() && fields.iter().all(|(own, _)| own != name);
    match object.iter().find(is_extra) {
        Some((name, _)) => Err(format!("{name} is none of this version's")),
        None => Ok(()),
    }
}

/// Reads `QUANTITY` of 64 bits.
pub(super) fn quantity(value: &Value) -> Result<u64, String> {
    prefixed(value)?;
    args::quantity(value)
}

/// Reads `DATA` of the length that its type has.
pub(super) fn data<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    Form::Data.read(value)
}

/// Reads an array of hashes.
pub(super) fn hashes(value: &Value) -> Result<Vec<B256>, String> {
    Form::List.read(value)
}

/// Reads an array of bytes.
pub(super) fn list(value: &Value) -> Result<Vec<Bytes>, String> {
    Form::List.read(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B64;
    use serde_json::json;

    #[test]
    fn objects_have_their_fields_alone_and_null_is_none() {
        let fields = [("a", Form::Quantity(64)), ("b", Form::List)];
        assert_eq!(check(&json!({ "a": "0x1", "b": [] }), &fields), Ok(()));
        assert_eq!(check(&json!({ "a": "0x1", "b": ["0x"], "c": null }), &fields), Ok(()));
        for wrong in [
            json!({ "a": "0x1" }),
            json!({ "a": "0x1", "b": null }),
            json!({ "a": "0x1", "b": [], "c": 3 }),
            json!({ "a": "0x1", "b": "0x" }),
            json!({ "a": "0x1", "b": ["0x1"] }),
            json!([1, 2]),
        ] {
            assert!(check(&wrong, &fields).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_and_bytes_have_one_encoding() {
        for (text, number) in [("0x0", 0), ("0xaB", 0xab), ("0xffffffffffffffff", u64::MAX)] {
            assert_eq!(quantity(&json!(text)), Ok(number));
        }
        for wrong in [json!("0x01"), json!("0x"), json!("0X1"), json!("12"), json!("0b1"), json!(1), json!("0x1g")] {
            assert!(quantity(&wrong).is_err() && Form::Quantity(256).check(&wrong).is_err(), "{wrong}");
        }
        let digits = "0123456789abCDef";
        assert!(data::<B64>(&json!(format!("0x{digits}"))).is_ok());
        for wrong in [digits.into(), format!("0X{digits}"), format!("0x{digits}0"), format!("0x{digits}00")] {
            assert!(data::<B64>(&json!(wrong)).is_err(), "{wrong}");
        }
        for wrong in [json!("0x"), json!(["00"]), json!(["0x0"]), json!([0]), json!(["0xgg"])] {
            assert!(list(&wrong).is_err() && hashes(&wrong).is_err(), "{wrong}");
        }
        let withdrawal = |index: Value| {
            let address = format!("0x{}", "00".repeat(20));
            json!([{ "index": index, "validatorIndex": "0x1", "address": address, "amount": "0x0" }])
        };
        assert!(Form::Withdrawals.check(&withdrawal(json!("0x1"))).is_ok());
        for wrong in [json!("0x01"), json!(1), json!(null)] {
            assert!(Form::Withdrawals.check(&withdrawal(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
