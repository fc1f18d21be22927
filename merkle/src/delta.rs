use std::sync::Arc;

use crate::{Error, Locator, MAX_KEY_LEN, MAX_VALUE_LEN};

/// Most operations in one delta.
pub(crate) const MAX_OPS: usize = (1 << 31) - 1;

/// What a block changes, in any order, in one flat arena: a hundred thousand updates are a few allocations.
///
/// A key may be given several times, by name or by locator; the last operation counts. What leaves a key as it was, a put
/// of the value it has or a delete of what is not there, does not enter the commitment.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Keys and values, as the operations name them.
    bytes: Vec<u8>,
    ops: Vec<Op>,
    pub(crate) codes: Vec<([u8; 32], Arc<[u8]>)>,
    /// The first thing that was too long to take; `prepare` reports it.
    too_long: Option<(&'static str, usize, usize)>,
}

/// Who an operation is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    Key(&'a [u8]),
    At(Locator),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Where in the arena the key, if any, and then the value begin.
    at: u64,
    /// The target of an operation without key.
    locator: Locator,
    value_len: u16,
    key_len: u8,
    kind: Kind,
}

const _: () = assert!(size_of::<Op>() == 24);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    PutAt,
    Delete,
    DeleteAt,
}

impl Delta {
    /// An empty delta.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty delta with room for `ops` operations of `bytes` bytes of keys and values in all.
    pub fn with_capacity(ops: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ops: Vec::with_capacity(ops), ..Self::default() }
    }

    /// Gives `key` the value `value`.
    ///
    /// Beyond [`MAX_KEY_LEN`] or [`MAX_VALUE_LEN`] the delta as a whole is refused when it is prepared.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.push(Kind::Put, Locator::NONE, key, value);
    }

    /// Gives the located key the value `value`, without its bytes and without looking it up again.
    #[inline]
    pub fn put_at(&mut self, locator: Locator, value: &[u8]) {
        self.push(Kind::PutAt, locator, &[], value);
    }

    /// Removes `key`.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) {
        self.push(Kind::Delete, Locator::NONE, key, &[]);
    }

    /// Removes the located key.
    #[inline]
    pub fn delete_at(&mut self, locator: Locator) {
        self.push(Kind::DeleteAt, locator, &[], &[]);
    }

    /// Adds contract code under its hash. Code is content addressed and outside the commitment; the values that name
    /// the hash bind it, and the caller checks that the hash is the code's.
    pub fn put_code(&mut self, hash: [u8; 32], code: impl Into<Arc<[u8]>>) {
        let code = code.into();
        if code.len() > crate::row::MAX_CODE_LEN {
            self.too_long.get_or_insert(("code", code.len(), crate::row::MAX_CODE_LEN));
            return;
        }
        self.codes.push((hash, code));
    }

    /// Adds the operations of `later` behind its own, and its codes. O(bytes of `later`), without looking at keys.
    pub fn append(&mut self, later: Self) {
        let Self { bytes, ops, codes, too_long } = later;
        let start = self.bytes.len() as u64;
        self.bytes.extend_from_slice(&bytes);
        self.ops.extend(ops.into_iter().map(|op| Op { at: start + op.at, ..op }));
        self.codes.extend(codes);
        self.too_long = self.too_long.or(too_long);
    }

    /// Number of operations.
    pub const fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is no operation and no code.
    pub const fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.codes.is_empty()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
        self.codes.clear();
        self.too_long = None;
    }

    #[inline]
    fn push(&mut self, kind: Kind, locator: Locator, key: &[u8], value: &[u8]) {
        let (Ok(key_len), Ok(value_len)) = (u8::try_from(key.len()), u16::try_from(value.len())) else {
            return self.refuse(key, value);
        };
        let at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.ops.push(Op { at, locator, value_len, key_len, kind });
    }

    #[cold]
    fn refuse(&mut self, key: &[u8], value: &[u8]) {
        self.too_long.get_or_insert(if key.len() > MAX_KEY_LEN {
            ("key", key.len(), MAX_KEY_LEN)
        } else {
            ("value", value.len(), MAX_VALUE_LEN)
        });
    }

    /// # Errors
    /// [`Error::TooLong`] if something was too long to take.
    pub(crate) const fn check(&self) -> Result<(), Error> {
        if let Some((what, len, max)) = self.too_long {
            return Err(Error::TooLong { what, len, max });
        }
        if self.ops.len() > MAX_OPS {
            return Err(Error::TooLong { what: "delta", len: self.ops.len(), max: MAX_OPS });
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn ops(&self) -> &[Op] {
        &self.ops
    }

    #[inline]
    pub(crate) fn target(&self, op: &Op) -> Target<'_> {
        match op.kind {
            Kind::PutAt | Kind::DeleteAt => Target::At(op.locator),
            Kind::Put | Kind::Delete => Target::Key(&self.bytes[op.at as usize..][..usize::from(op.key_len)]),
        }
    }

    /// The value of a put, `None` for a delete.
    #[inline]
    pub(crate) fn value(&self, op: &Op) -> Option<&[u8]> {
        match op.kind {
            Kind::Put | Kind::PutAt => {
                Some(&self.bytes[op.at as usize + usize::from(op.key_len)..][..usize::from(op.value_len)])
            }
            Kind::Delete | Kind::DeleteAt => None,
        }
    }

    /// Asks the cache for the bytes of an operation.
    #[inline]
    pub(crate) fn prefetch(&self, op: &Op) {
        if let Some(byte) = self.bytes.get(op.at as usize) {
            crate::prefetch::prefetch(byte);
        }
    }
}
