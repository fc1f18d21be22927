//! A worker's copies of the code that it runs often.
//!
//! revm counts references to code at every access of an account. Workers that all run one contract would take turns at
//! its counter, so each copies code that it meets again and again. Code that it meets a few times is shared: a copy
//! would cost more than the counter.

use super::{CodeId, Codes, weight};
use alloy_primitives::{B256, Bytes, KECCAK256_EMPTY};
use revm::{
    bytecode::{JumpTable, opcode::STOP},
    state::Bytecode,
};

/// Number of codes that a worker knows by id, a power of two. A later code takes the place of an earlier one.
const PLACES: usize = 1 << 12;

/// Number of uses from which a worker has a copy of its own: copying 24 KiB takes about as long as one call.
const COPIED_FROM: u32 = 4;

/// Maximum number of bytes of a worker's copies. When there are more, all are dropped.
const MAX_BYTES: usize = 2 << 20;

/// A worker's own copies of code, and of empty code, so that no two workers count references to the same [`Bytecode`].
/// revm's own empty code is a static that all threads would write to at every account.
#[derive(Debug)]
pub(crate) struct LocalCodes {
    none: (B256, Bytecode),
    /// By the lowest bits of the id.
    places: Vec<Place>,
    /// Bytes of all copies, at most [`MAX_BYTES`].
    bytes: usize,
    /// Epoch of the table in which the ids are valid.
    epoch: u64,
}

/// Last code with an id of these lowest bits.
#[derive(Clone, Debug, Default)]
struct Place {
    id: CodeId,
    uses: u32,
    copy: Option<(B256, Bytecode)>,
}

impl Default for LocalCodes {
    fn default() -> Self {
        Self { none: (KECCAK256_EMPTY, no_code()), places: Vec::new(), bytes: 0, epoch: 0 }
    }
}

impl LocalCodes {
    /// Prepares for a block. Returns true if ids have been given to other codes since the last block, so that whatever
    /// else names code by id must be dropped as well.
    pub(crate) fn enter(&mut self, codes: &Codes) -> bool {
        let epoch = codes.epoch();
        let begins = core::mem::replace(&mut self.epoch, epoch) != epoch;
        if begins {
            self.forget();
        }
        begins
    }

    fn forget(&mut self) {
        self.places.clear();
        self.bytes = 0;
    }

    /// Hash and code of `id`.
    #[inline]
    pub(crate) fn get(&mut self, id: CodeId, codes: &Codes) -> (B256, Bytecode) {
        if id.is_none() {
            return self.none.clone();
        }
        match self.places.get(id.0 as usize % PLACES) {
            Some(Place { id: held, copy: Some(copy), .. }) if *held == id => copy.clone(),
            _ => self.meet(id, codes),
        }
    }

    /// Hash and code of an `id` without a copy, which the last of many uses makes.
    #[inline(never)]
    fn meet(&mut self, id: CodeId, codes: &Codes) -> (B256, Bytecode) {
        let (hash, code) = codes.get(id);
        let index = id.0 as usize % PLACES;
        if index >= self.places.len() {
            self.places.resize(index + 1, Place::default());
        }
        let place = &mut self.places[index];
        if place.id != id {
            let dropped = core::mem::replace(place, Place { id, ..Place::default() });
            self.bytes -= dropped.copy.map_or(0, |(_, code)| weight(&code));
        }
        place.uses += 1;
        if place.uses < COPIED_FROM {
            return (hash, code);
        }
        let copy = (hash, unshared(&code));
        place.copy = Some(copy.clone());
        self.bytes += weight(&copy.1);
        if self.bytes > MAX_BYTES {
            self.forget();
        }
        copy
    }
}

/// Copies code without sharing its reference count, and without analysing it again.
#[expect(unsafe_code, reason = "revm copies no analysis otherwise")]
fn unshared(code: &Bytecode) -> Bytecode {
    let copy = Bytes::copy_from_slice;
    match code.legacy_jump_table() {
        // SAFETY: bytes with their padding, and the jumps of exactly these bytes.
        Some(jumps) => unsafe { Bytecode::new_analyzed(copy(code.bytes_slice()), code.len(), jumps.clone()) },
        None => Bytecode::new_eip7702_raw(copy(code.bytes_slice())).unwrap_or_else(|_| code.clone()),
    }
}

/// Empty code in an allocation of its own: revm returns its static for empty bytes.
#[expect(unsafe_code, reason = "revm has no other way to make code that it does not share")]
fn no_code() -> Bytecode {
    // SAFETY: one STOP, which has no immediates to read past the end, is revm's own empty code.
    unsafe { Bytecode::new_analyzed(Bytes::from_static(&[STOP]), 0, JumpTable::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::DEFAULT_CODE_CACHE, state::codes::CodeRule};
    use alloy_primitives::Address;

    fn table() -> Codes {
        Codes::new(CodeRule::Delegates, DEFAULT_CODE_CACHE)
    }

    fn long(number: u32, len: usize) -> Bytecode {
        let mut code = vec![0x5b; len];
        code[..4].copy_from_slice(&number.to_be_bytes());
        Bytecode::new_legacy(code.into())
    }

    #[test]
    fn code_is_shared_at_first_and_copied_when_it_comes_again() {
        let codes = table();
        let delegation = Bytecode::new_eip7702(Address::repeat_byte(7));
        // An unfinished push at the end is padded.
        for code in [long(1, 24_576), Bytecode::new_legacy(vec![0x5b, 0x7f, 0x5b].into()), delegation] {
            let id = codes.insert(code.hash_slow(), code.clone());
            let mut local = LocalCodes::default();
            for uses in 1..COPIED_FROM + 3 {
                let (hash, found) = local.get(id, &codes);
                assert_eq!((hash, &found, found.kind()), (code.hash_slow(), &code, code.kind()));
                let is_shared = found.bytecode_ptr() == code.bytecode_ptr();
                assert_eq!(is_shared, uses < COPIED_FROM, "use {uses}");
                assert_eq!(found.bytes_slice(), code.bytes_slice(), "with its padding");
                assert_eq!(found.legacy_jump_table(), code.legacy_jump_table());
            }
            let copy = local.get(id, &codes).1;
            assert_eq!(copy.bytecode_ptr(), local.get(id, &codes).1.bytecode_ptr(), "one copy");
        }
    }

    #[test]
    fn no_code_is_a_copy_as_well() {
        let (hash, none) = LocalCodes::default().get(CodeId::NONE, &table());
        assert_eq!((hash, &none), (KECCAK256_EMPTY, &Bytecode::default()));
        assert!(none.is_empty() && !none.is_default(), "a copy, which counts its own references");
        assert_eq!((none.hash_slow(), none.bytecode()), (KECCAK256_EMPTY, Bytecode::default().bytecode()));
    }

    #[test]
    fn copies_are_bounded_by_bytes_and_places() {
        let codes = table();
        let large = (0..200).map(|number| long(number, 24_576));
        let ids: Vec<_> = large.map(|code| codes.insert(code.hash_slow(), code)).collect();
        let mut local = LocalCodes::default();
        let mut most = 0;
        for (number, id) in (0..).zip(&ids) {
            for _ in 0..2 * COPIED_FROM {
                assert_eq!(local.get(*id, &codes).1, long(number, 24_576));
                most = most.max(local.bytes);
            }
            let held: usize =
                local.places.iter().filter_map(|place| place.copy.as_ref()).map(|copy| weight(&copy.1)).sum();
            assert_eq!(held, local.bytes);
        }
        assert!(most <= MAX_BYTES && most > MAX_BYTES / 2, "{most}");
        let small: Vec<_> = (0..2 * PLACES as u32).map(|number| long(number, 4)).collect();
        let ids: Vec<_> = small.iter().map(|code| codes.insert(code.hash_slow(), code.clone())).collect();
        for _ in 0..2 {
            for (id, code) in ids.iter().zip(&small) {
                for _ in 0..COPIED_FROM {
                    assert_eq!(local.get(*id, &codes).1, *code);
                }
            }
        }
        assert!(local.places.len() <= PLACES && local.bytes <= MAX_BYTES);
    }
}
