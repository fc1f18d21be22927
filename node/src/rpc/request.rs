//! Requests of JSON-RPC 2.0, as they arrive.

use jsonrpsee::types::{ErrorObjectOwned, error::ErrorCode};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Memory of a value that arguments are decoded to, in bytes, for each mark of JSON that separates values.
const VALUE_BYTES: usize = 64;

/// A request: a call, or a notification, which has no id.
#[derive(Debug, Deserialize)]
pub(super) struct Request<'b> {
    #[serde(borrow, default)]
    jsonrpc: Cow<'b, str>,
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<&'b RawValue>,
    #[serde(borrow)]
    pub(super) method: Cow<'b, str>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'b RawValue>,
}

#[derive(Debug, Deserialize)]
struct Named<'b> {
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<&'b RawValue>,
}

/// Reads a member that is there, also if it is null.
fn there<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Body of a request: a call, or a batch.
#[derive(Debug)]
pub(super) enum Body<'b> {
    One(&'b RawValue),
    Batch(Vec<&'b RawValue>),
}

/// Member of a body.
#[derive(Debug)]
pub(super) enum Member<'b> {
    /// A call, with the id that its answer has.
    Call(&'b RawValue, Request<'b>),
    /// Nothing that is answered.
    Notification,
    /// No request: the answer has this id.
    Wrong(&'b RawValue, ErrorObjectOwned),
}

impl<'b> Body<'b> {
    /// Reads a body.
    ///
    /// # Errors
    /// The body is no JSON.
    pub(super) fn read(body: &'b [u8]) -> Result<Self, ErrorObjectOwned> {
        let is_batch = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        let read = if is_batch {
            serde_json::from_slice(body).map(Self::Batch)
        } else {
            serde_json::from_slice(body).map(Self::One)
        };
        read.map_err(|_| ErrorCode::ParseError.into())
    }
}

/// Reads one request. An id is a string, a number or null, and its answer has it as it came.
pub(super) fn read(text: &RawValue) -> Member<'_> {
    let wrong = |id: Option<_>| Member::Wrong(id.unwrap_or(RawValue::NULL), ErrorCode::InvalidRequest.into());
    let Ok(request) = serde_json::from_str::<Request<'_>>(text.get()) else {
        let named = serde_json::from_str::<Named<'_>>(text.get());
        return wrong(named.ok().and_then(|named| named.id).filter(|id| is_id(id)));
    };
    match request.id {
        Some(id) if !is_id(id) => wrong(None),
        id if request.jsonrpc != "2.0" => wrong(id),
        Some(id) => Member::Call(id, request),
        None => Member::Notification,
    }
}

fn is_id(id: &RawValue) -> bool {
    matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9' | b'n'))
}

/// Memory that the arguments of a body take while they are decoded, in bytes, beside the body: short values take most.
pub(super) fn decoded_bytes(body: &[u8]) -> usize {
    // Eight bits hold the count of a piece, and processors count them side by side.
    let is_mark = |&byte: &u8| u8::from((byte == b',') | (byte == b':') | (byte == b'[') | (byte == b'{'));
    let marks: usize = body.chunks(255).map(|piece| usize::from(piece.iter().map(is_mark).sum::<u8>())).sum();
    marks.saturating_mul(VALUE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> String {
        let Ok(Body::One(text)) = Body::read(text.as_bytes()) else { panic!("{text}") };
        match read(text) {
            Member::Call(id, request) => {
                format!("{} {} {:?}", id.get(), request.method, request.params.map(RawValue::get))
            }
            Member::Notification => "nothing".into(),
            Member::Wrong(id, error) => format!("{} {}", id.get(), error.code()),
        }
    }

    #[test]
    fn every_scalar_is_an_id_and_stays_as_it_is() {
        for id in ["1", "-1", "1.5", "1e3", "18446744073709551616", "\"\\u00e9\"", "\"\"", "null"] {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}");
            assert_eq!(one(&text), format!("{id} m None"));
        }
        for id in ["true", "[1]", "{}"] {
            assert_eq!(one(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}")), "null -32600");
        }
    }

    #[test]
    fn what_is_no_request_has_its_id_where_it_can() {
        assert_eq!(one("{\"jsonrpc\":\"2.0\",\"method\":\"m\"}"), "nothing");
        assert_eq!(one("{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"m\"}"), "7 -32600");
        assert_eq!(one("{\"id\":7,\"method\":\"m\"}"), "7 -32600");
        assert_eq!(one("{\"jsonrpc\":\"2.0\",\"id\":7}"), "7 -32600");
        assert_eq!(one("{\"jsonrpc\":\"2.0\",\"id\":7,\"id\":8,\"method\":\"m\"}"), "null -32600");
        assert_eq!(one("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":null,\"x\":[1]}"), "7 m None");
        assert_eq!(one("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":[1]}"), "7 m Some(\"[1]\")");
        assert_eq!(one("null"), "null -32600");
        assert!(Body::read(b"{\"id\":1,").is_err() && Body::read(b"[1,").is_err() && Body::read(b"").is_err());
        assert!(matches!(Body::read(b" \n[1,2]"), Ok(Body::Batch(list)) if list.len() == 2));
    }

    #[test]
    fn decoded_values_take_no_more_than_is_counted() {
        let texts = [
            format!("[{}0]", "0,".repeat(1_000)),
            format!("[{}0]", "[],".repeat(1_000)),
            format!("[{}0]", "{},".repeat(1_000)),
            format!("{{{}\"x\":0}}", (0..1_000).map(|n| format!("\"{n}\":0,")).collect::<String>()),
        ];
        fn taken(value: &serde_json::Value) -> usize {
            size_of_val(value)
                + match value {
                    serde_json::Value::Array(list) => list.iter().map(taken).sum(),
                    serde_json::Value::Object(map) => {
                        map.iter().map(|(key, value)| size_of::<String>() + key.len() + taken(value)).sum()
                    }
                    _ => 0,
                }
        }
        for text in texts {
            let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert!(decoded_bytes(text.as_bytes()) + text.len() >= taken(&value), "{}", &text[..20]);
        }
    }
}
