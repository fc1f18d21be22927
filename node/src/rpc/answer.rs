//! An answer in the making: JSON, once encoded, whose bytes are counted before they are taken.

use super::error::RpcError;
use crate::edge::{Account, Full, Held};
use jsonrpsee::types::{
    ErrorObjectOwned,
    error::{OVERSIZED_RESPONSE_CODE, OVERSIZED_RESPONSE_MSG},
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{
    io::{Error, ErrorKind, Result, Write},
    sync::Arc,
};

/// Capacity that an answer begins with, in bytes: most answers are shorter.
const FIRST: usize = 512;

/// Answer to a request, with the bytes that it holds until it is dropped.
#[derive(Debug)]
pub(super) struct Answer {
    json: Vec<u8>,
    _held: Option<Held>,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

/// An answer in the making.
#[derive(Debug)]
pub(super) struct Out {
    json: Vec<u8>,
    held: Held,
    /// Maximum number of bytes of an answer.
    max: usize,
    why: Option<Unwritten>,
}

/// Reason for which an answer has no room.
#[derive(Clone, Copy, Debug)]
enum Unwritten {
    Full(Full),
    TooLong,
}

impl Out {
    /// Begins an answer of at most `max` bytes.
    pub(super) fn new(account: &Arc<Account>, max: usize) -> Self {
        Self { json: Vec::new(), held: account.empty(), max, why: None }
    }

    pub(super) const fn len(&self) -> usize {
        self.json.len()
    }

    /// Writes the answer of a request.
    ///
    /// # Errors
    /// There is no room for it: what was written is of no use.
    pub(super) fn result(
        &mut self,
        id: &RawValue,
        result: &(impl Serialize + ?Sized),
    ) -> core::result::Result<(), RpcError> {
        let written = write!(self, "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.get())
            .map_err(serde_json::Error::io)
            .and_then(|()| serde_json::to_writer(&mut *self, result))
            .and_then(|()| self.write_all(b"}").map_err(serde_json::Error::io));
        written.map_err(|error| match self.why {
            Some(Unwritten::TooLong) => self.too_long(),
            Some(Unwritten::Full(full)) => RpcError::limit(full.to_string()),
            None => RpcError::internal(error.to_string()),
        })
    }

    fn too_long(&self) -> RpcError {
        RpcError::of(OVERSIZED_RESPONSE_CODE, format!("{OVERSIZED_RESPONSE_MSG}: more than {} bytes", self.max))
    }

    /// Appends JSON.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn append(&mut self, other: &[u8]) -> core::result::Result<(), RpcError> {
        self.write_all(other).map_err(|_| match self.why {
            Some(Unwritten::Full(full)) => RpcError::limit(full.to_string()),
            _ => self.too_long(),
        })
    }

    /// Appends the next answer of a batch.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn append_next(&mut self, answer: &[u8]) -> core::result::Result<(), RpcError> {
        self.begin_next()?;
        self.append(answer)
    }

    /// Begins the next answer of a batch.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn begin_next(&mut self) -> core::result::Result<(), RpcError> {
        self.append(if self.json.is_empty() { b"[" } else { b"," })
    }

    pub(super) fn finish(self) -> Answer {
        Answer { json: self.json, _held: Some(self.held) }
    }

    /// Makes room for further bytes: half as much again where that is to be had, else just enough.
    fn reserve(&mut self, bytes: usize) -> core::result::Result<(), Unwritten> {
        let needed = self.json.len().saturating_add(bytes);
        if needed > self.max {
            return Err(Unwritten::TooLong);
        }
        let capacity = self.json.capacity();
        if needed <= capacity {
            return Ok(());
        }
        let generous = needed.max(capacity + capacity / 2).max(FIRST).min(self.max.max(needed));
        let wanted = match self.held.grow(generous - self.held.bytes()) {
            Ok(()) => generous,
            Err(_) => {
                self.held.grow(needed - self.held.bytes()).map_err(Unwritten::Full)?;
                needed
            }
        };
        self.json.reserve_exact(wanted - self.json.len());
        Ok(())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if let Err(why) = self.reserve(bytes.len()) {
            self.why = Some(why);
            return Err(Error::from(ErrorKind::QuotaExceeded));
        }
        self.json.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Length up to which an answer with an error, or its id, is not counted, in bytes.
const SHORT: usize = 4 << 10;

/// Answer to a request with an error, counted where it is long: an id, an argument that is repeated, data of a call that reverts.
pub(super) fn refused(account: &Arc<Account>, id: &RawValue, why: impl Into<ErrorObjectOwned>) -> Answer {
    let answer = error(id, why);
    if answer.json.len() <= SHORT {
        return answer;
    }
    match account.take(answer.json.len()) {
        Ok(held) => Answer { json: answer.json, _held: Some(held) },
        Err(full) => {
            let id = if id.get().len() <= SHORT / 2 { id } else { RawValue::NULL };
            error(id, RpcError::limit(full.to_string()))
        }
    }
}

/// Answer with an error of the node's own words. It is short, and has room always.
pub(super) fn error(id: &RawValue, error: impl Into<ErrorObjectOwned>) -> Answer {
    let error: ErrorObjectOwned = error.into();
    // The types of an error have no keys that JSON cannot hold.
    let text = serde_json::to_string(&error).unwrap_or_default();
    Answer { json: format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{text}}}", id.get()).into_bytes(), _held: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::Pool;

    fn id() -> Box<RawValue> {
        RawValue::from_string("1".into()).expect("JSON")
    }

    #[test]
    fn an_answer_has_room_up_to_its_last_byte() {
        let text = "x".repeat(10_000);
        let whole = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "result": text }).to_string().len();
        for (max, pool, fits) in
            [(whole, 100_000, true), (whole - 1, 100_000, false), (100_000, whole, true), (100_000, whole - 1, false)]
        {
            let pool = Pool::new(pool);
            let account = Account::new(&pool, 0, usize::MAX);
            let mut out = Out::new(&account, max);
            let written = out.result(&id(), &text);
            assert_eq!(written.is_ok(), fits, "{max}: {written:?}");
            if fits {
                let answer = out.finish();
                assert_eq!(answer.as_ref().len(), whole);
                assert!((whole..=whole * 3 / 2).contains(&pool.used()), "what is held is what is there");
            } else {
                drop(out);
            }
            assert_eq!(pool.used(), 0);
        }
    }

    #[test]
    fn nothing_is_taken_that_is_not_counted() {
        let pool = Pool::new(1 << 20);
        let account = Account::new(&pool, 0, usize::MAX);
        let mut out = Out::new(&account, 1 << 20);
        for _ in 0..2_000 {
            out.write_all(&[b'x'; 77]).expect("room");
            assert!(out.json.capacity() <= pool.used());
        }
    }
}
