//! Contract code, stored once each: analysed when it is first seen, named by a small number afterwards.

use alloy_primitives::{
    B256, Bytes, KECCAK256_EMPTY,
    map::{AddressMap, B256Map},
};
use parking_lot::RwLock;
use revm::{
    bytecode::{JumpTable, opcode::STOP},
    state::Bytecode,
};

/// A contract's code in [`Codes`]; the default is no code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CodeId(pub(crate) u32);

impl CodeId {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// All code that the engine has seen. Content-addressed, so an entry stays right even if the block that brought it is
/// dropped.
#[derive(Debug)]
pub(crate) struct Codes {
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    list: Vec<(B256, Bytecode)>,
    by_hash: B256Map<CodeId>,
}

impl Default for Codes {
    fn default() -> Self {
        let inner = Inner { list: vec![(KECCAK256_EMPTY, Bytecode::default())], by_hash: B256Map::default() };
        Self { inner: RwLock::new(inner) }
    }
}

impl Codes {
    /// Id of the code with `hash`, if it is known.
    pub(crate) fn find(&self, hash: &B256) -> Option<CodeId> {
        if *hash == KECCAK256_EMPTY { Some(CodeId::NONE) } else { self.inner.read().by_hash.get(hash).copied() }
    }

    /// Adds code under its hash.
    pub(crate) fn insert(&self, hash: B256, code: Bytecode) -> CodeId {
        if let Some(id) = self.find(&hash) {
            return id;
        }
        let mut inner = self.inner.write();
        let next = CodeId(u32::try_from(inner.list.len()).expect("fewer than 2^32 codes"));
        let id = *inner.by_hash.entry(hash).or_insert(next);
        if id == next {
            inner.list.push((hash, code));
        }
        id
    }

    /// Hash and code of `id`.
    pub(crate) fn get(&self, id: CodeId) -> (B256, Bytecode) {
        self.inner.read().list[id.0 as usize].clone()
    }

    pub(crate) fn hash(&self, id: CodeId) -> B256 {
        self.inner.read().list[id.0 as usize].0
    }
}

/// A worker's own copies of code, and of empty code, so that no two workers count references to one [`Bytecode`].
/// revm's own empty code is a static that all threads would write to at every account.
#[derive(Debug, Default)]
pub(crate) struct LocalCodes(Vec<Option<(B256, Bytecode)>>);

impl LocalCodes {
    /// Hash and code of `id`, copied from `codes` at the first call.
    #[inline]
    pub(crate) fn get(&mut self, id: CodeId, codes: &Codes) -> &(B256, Bytecode) {
        let index = id.0 as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        self.0[index].get_or_insert_with(|| {
            let (hash, code) = codes.get(id);
            (hash, unshared(&code))
        })
    }
}

/// Copies code without sharing its reference count, and keeps its kind: before Prague bytes that look like a delegation
/// are ordinary code, and before London any sender could deploy them.
fn unshared(code: &Bytecode) -> Bytecode {
    if code.is_empty() {
        return no_code();
    }
    let bytes = Bytes::copy_from_slice(code.original_byte_slice());
    if code.is_eip7702() {
        Bytecode::new_raw_checked(bytes).unwrap_or_else(|_| code.clone())
    } else {
        Bytecode::new_legacy(bytes)
    }
}

/// Empty code in an allocation of its own: revm returns its static for empty bytes.
#[expect(unsafe_code, reason = "revm has no other way to make code that it does not share")]
fn no_code() -> Bytecode {
    // SAFETY: one STOP, which has no immediates to read past the end, is revm's own empty code.
    unsafe { Bytecode::new_analyzed(Bytes::from_static(&[STOP]), 0, JumpTable::default()) }
}

/// Contracts by address, small enough to stay in cache where most accounts are not contracts.
pub(crate) type Contracts = AddressMap<B256>;

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Address;

    #[test]
    fn code_is_kept_once_and_copied_unshared() {
        let codes = Codes::default();
        let code = Bytecode::new_raw(Bytes::from_static(&[0x60, 1, 0x5b, 0]));
        let hash = code.hash_slow();
        let id = codes.insert(hash, code.clone());
        assert_eq!(codes.insert(hash, code.clone()), id);
        assert_eq!(codes.find(&hash), Some(id));
        assert_eq!(codes.find(&KECCAK256_EMPTY), Some(CodeId::NONE));
        assert_eq!(codes.find(&B256::ZERO), None);
        let mut local = LocalCodes::default();
        let (found, copy) = local.get(id, &codes);
        assert_eq!((*found, copy), (hash, &code));
        let delegation = Bytecode::new_eip7702(Address::repeat_byte(7));
        let id = codes.insert(delegation.hash_slow(), delegation.clone());
        assert_eq!(local.get(id, &codes).1, delegation);
        let (hash, none) = local.get(CodeId::NONE, &codes);
        assert_eq!((*hash, none), (KECCAK256_EMPTY, &Bytecode::default()));
        assert!(none.is_empty() && !none.is_default(), "a copy, which counts its own references");
        assert_eq!((none.hash_slow(), none.bytecode()), (KECCAK256_EMPTY, Bytecode::default().bytecode()));
    }
}
