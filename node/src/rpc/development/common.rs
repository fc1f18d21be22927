//! Parts that all methods of a node for development share: names, orders to the producer, and numbers in every form.

use crate::{
    next::Next,
    orders::{Asked, Order},
    producer::Bell,
    rpc::{api::Api, args::Args, error::RpcError, registry::Registry},
};
use alloy_primitives::U256;
use crossbeam_channel::bounded;
use serde::Serialize;
use serde_json::Value;

/// Adds a method under all its names.
pub(super) fn add<R: Serialize + 'static>(
    registry: &mut Registry,
    names: &[&'static str],
    most: usize,
    run: fn(&Api, &Args) -> Result<R, RpcError>,
) {
    names.iter().for_each(|name| registry.light(name, most, run));
}

fn bell(api: &Api) -> Result<&Bell, RpcError> {
    api.exit.bell().ok_or_else(|| RpcError::server("this node makes no blocks of its own"))
}

pub(super) fn next(api: &Api) -> Result<&Next, RpcError> {
    bell(api).map(Bell::next)
}

/// Has the producer obey an order, and waits for its reply.
pub(super) fn order(api: &Api, order: Order) -> Result<u64, RpcError> {
    let (reply, said) = bounded(1);
    let gone = || RpcError::server("block production has stopped");
    if !bell(api)?.ask(Asked { order, reply }) {
        return Err(gone());
    }
    said.recv().map_err(|_| gone())?.map_err(RpcError::server)
}

/// Reads a number as tools send it: hexadecimal, decimal, or a number of JSON.
pub(super) fn number(value: &Value) -> Result<U256, String> {
    let wrong = || format!("{value} is no number");
    match value {
        Value::Number(number) => number.as_u64().map(U256::from).ok_or_else(wrong),
        Value::String(text) => match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some("") => Ok(U256::ZERO),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                U256::from_str_radix(digits, 16).map_err(|_| wrong())
            }
            None if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                U256::from_str_radix(text, 10).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// Reads a number of 64 bits.
pub(super) fn short(value: &Value) -> Result<u64, String> {
    number(value)?.try_into().map_err(|_| format!("{value} is above 2^64 - 1"))
}

pub(super) fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "true or false is expected".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_read_in_every_form_that_tools_send() {
        for value in [json!("0x10"), json!("0x010"), json!("16"), json!(16)] {
            assert_eq!(number(&value), Ok(U256::from(16)), "{value}");
        }
        assert_eq!(short(&json!("0x")), Ok(0));
        for wrong in [json!("0x1_0"), json!(""), json!("+1"), json!(-1), json!(1.5), json!(null), json!([1])] {
            assert!(number(&wrong).is_err(), "{wrong}");
        }
        assert!(short(&json!("0x10000000000000000")).is_err());
    }
}
