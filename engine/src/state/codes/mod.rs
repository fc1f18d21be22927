//! Contract code, analysed once and shared by all executions: a cache over the store, bounded by bytes and age.
//!
//! An account's code is put here when the account is loaded, and named by a small number from then on. Between two blocks,
//! when no number is in use, the table drops code that no committed block made, code that was not used for long, and the
//! least recently used while there is too much. Later uses find it in the store.

mod kind;
mod local;

pub(crate) use kind::CodeRule;
pub(crate) use local::LocalCodes;

use alloy_primitives::{B256, KECCAK256_EMPTY, map::B256Map};
use core::{
    mem,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};
use kind::is_delegation;
use parking_lot::RwLock;
use revm::state::Bytecode;

/// Memory of one code besides its bytes and its jump table, in bytes, about.
const OVERHEAD: usize = 400;

/// Number of blocks for which unused code is kept, and of blocks between two searches for it.
const MAX_AGE: u32 = 1 << 14;
const AGED_EVERY: u32 = 1 << 10;

/// Number of blocks for which an unused delegation is kept. The state holds it in 23 bytes; a sender can make a new one
/// for 12,500 gas.
const DELEGATION_AGE: u32 = 4;

/// Number of ids that rest before they name other codes. Only then must workers forget what they keep by id.
const RESTING: usize = 1 << 16;

/// A contract's code in [`Codes`]; the default is no code. Valid until [`Codes::begin`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CodeId(pub(crate) u32);

impl CodeId {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Code that the engine has used lately. Content-addressed.
///
/// # Invariants
/// Within one period, from one [`Self::begin`] to the next, a hash has one id and an id one hash. Within one epoch an id
/// has at most one hash.
#[derive(Debug)]
pub(crate) struct Codes {
    inner: RwLock<Inner>,
    /// Number of times that resting ids were given back.
    epoch: AtomicU64,
    max_bytes: usize,
}

#[derive(Debug)]
struct Inner {
    rule: CodeRule,
    /// Codes by id.
    list: Vec<Option<Entry>>,
    by_hash: B256Map<Known>,
    /// Weight of all codes.
    bytes: usize,
    /// Number of the period.
    period: u32,
    /// Ids that executions have added since the period began.
    fresh: Vec<CodeId>,
    /// Ids of all codes that have the form of a delegation.
    delegations: Vec<CodeId>,
    /// Ids without code, and those of them that may name another.
    resting: Vec<CodeId>,
    free: Vec<CodeId>,
}

#[derive(Debug)]
struct Entry {
    hash: B256,
    code: Bytecode,
    /// True if a block of the store has the code.
    is_stored: bool,
}

#[derive(Debug)]
struct Known {
    id: CodeId,
    /// Last period in which the code was found.
    used: AtomicU32,
}

/// Memory of code, in bytes, about.
pub(crate) fn weight(code: &Bytecode) -> usize {
    let jumps = code.legacy_jump_table().map_or(0, |jumps| jumps.as_slice().len());
    OVERHEAD + code.bytes_slice().len() + jumps
}

impl Codes {
    /// Creates an empty table, which holds at most about `max_bytes` between two blocks.
    pub(crate) fn new(rule: CodeRule, max_bytes: usize) -> Self {
        let none = Entry { hash: KECCAK256_EMPTY, code: Bytecode::default(), is_stored: true };
        let inner = Inner {
            rule,
            list: vec![Some(none)],
            by_hash: B256Map::default(),
            bytes: 0,
            period: 0,
            fresh: Vec::new(),
            delegations: Vec::new(),
            resting: Vec::new(),
            free: Vec::new(),
        };
        Self { inner: RwLock::new(inner), epoch: AtomicU64::new(1), max_bytes }
    }

    /// Rule that gives code its kind.
    pub(crate) fn rule(&self) -> CodeRule {
        self.inner.read().rule
    }

    /// Id of the code with `hash`, if it is here.
    pub(crate) fn find(&self, hash: &B256) -> Option<CodeId> {
        if *hash == KECCAK256_EMPTY { Some(CodeId::NONE) } else { self.inner.read().find(hash) }
    }

    /// The code with `hash`, if it is here.
    pub(crate) fn code(&self, hash: &B256) -> Option<Bytecode> {
        let inner = self.inner.read();
        Some(inner.entry(inner.find(hash)?).code.clone())
    }

    /// Adds code that a block has made, under its hash. It is dropped when the period ends, unless [`Self::keep`] is
    /// called for it.
    pub(crate) fn insert(&self, hash: B256, code: Bytecode) -> CodeId {
        self.add(hash, code, false)
    }

    /// Adds code that the store holds.
    pub(crate) fn insert_stored(&self, hash: B256, code: Bytecode) -> CodeId {
        self.add(hash, code, true)
    }

    fn add(&self, hash: B256, code: Bytecode, is_stored: bool) -> CodeId {
        self.find(&hash).unwrap_or_else(|| self.inner.write().add(hash, code, is_stored))
    }

    /// Keeps code that a committed block has made.
    pub(crate) fn keep(&self, hashes: impl Iterator<Item = B256>) {
        let mut inner = self.inner.write();
        for hash in hashes {
            if let Some(id) = inner.find(&hash)
                && let Some(entry) = &mut inner.list[id.0 as usize]
            {
                entry.is_stored = true;
            }
        }
    }

    /// Hash and code of `id`.
    pub(crate) fn get(&self, id: CodeId) -> (B256, Bytecode) {
        let inner = self.inner.read();
        let Entry { hash, code, .. } = inner.entry(id);
        (*hash, code.clone())
    }

    pub(crate) fn hash(&self, id: CodeId) -> B256 {
        self.inner.read().entry(id).hash
    }

    /// True if there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.inner.read().bytes < self.max_bytes
    }

    /// Number of codes, and their bytes in memory.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        let inner = self.inner.read();
        (inner.by_hash.len(), inner.bytes)
    }

    /// Number of times that ids were given to other codes.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Gives code the kinds of another hard fork. Between two blocks: no id is in use.
    pub(crate) fn follow(&self, rule: CodeRule) {
        let mut inner = self.inner.write();
        if mem::replace(&mut inner.rule, rule) != rule {
            for id in inner.delegations.clone() {
                if let Some(entry) = &mut inner.list[id.0 as usize] {
                    entry.code = rule.correct(entry.code.clone());
                }
            }
        }
    }

    /// Begins a period, between two blocks: no id is in use. Drops code that did not come to be, delegations that the last
    /// blocks did not use, and the least recently used code if there is too much.
    ///
    /// O(codes dropped + delegations). Once in many blocks, and after a block that brought more than fits, O(codes).
    pub(crate) fn begin(&self) {
        let mut inner = self.inner.write();
        inner.begin(self.max_bytes);
        if inner.resting.len() >= RESTING {
            let resting = mem::take(&mut inner.resting);
            inner.free.extend(resting);
            self.epoch.fetch_add(1, Ordering::Release);
        }
    }
}

impl Inner {
    fn entry(&self, id: CodeId) -> &Entry {
        self.list[id.0 as usize].as_ref().expect("an id is used in its period alone")
    }

    fn find(&self, hash: &B256) -> Option<CodeId> {
        let Known { id, used } = self.by_hash.get(hash)?;
        // Popular code stays shared between the caches.
        if used.load(Ordering::Relaxed) != self.period {
            used.store(self.period, Ordering::Relaxed);
        }
        Some(*id)
    }

    fn add(&mut self, hash: B256, code: Bytecode, is_stored: bool) -> CodeId {
        if let Some(id) = self.find(&hash) {
            return id;
        }
        let code = self.rule.correct(code);
        self.bytes += weight(&code);
        let is_delegation = is_delegation(code.original_byte_slice());
        let entry = Some(Entry { hash, code, is_stored });
        let id = match self.free.pop() {
            Some(id) => {
                self.list[id.0 as usize] = entry;
                id
            }
            None => {
                self.list.push(entry);
                CodeId(u32::try_from(self.list.len() - 1).expect("fewer than 2^32 codes are in memory"))
            }
        };
        self.by_hash.insert(hash, Known { id, used: AtomicU32::new(self.period) });
        if !is_stored {
            self.fresh.push(id);
        }
        if is_delegation {
            self.delegations.push(id);
        }
        id
    }

    fn remove(&mut self, id: CodeId) {
        if let Some(Entry { hash, code, .. }) = self.list[id.0 as usize].take() {
            self.bytes -= weight(&code);
            self.by_hash.remove(&hash);
            self.resting.push(id);
        }
    }

    /// Number of periods since the code was used.
    fn age(&self, id: CodeId) -> u32 {
        let hash = self.list[id.0 as usize].as_ref().map(|entry| entry.hash);
        let used = hash.and_then(|hash| self.by_hash.get(&hash)).map(|known| known.used.load(Ordering::Relaxed));
        used.map_or(u32::MAX, |used| self.period.wrapping_sub(used))
    }

    fn begin(&mut self, max_bytes: usize) {
        for id in mem::take(&mut self.fresh) {
            if self.list[id.0 as usize].as_ref().is_some_and(|entry| !entry.is_stored) {
                self.remove(id);
            }
        }
        if self.period.is_multiple_of(AGED_EVERY) || self.bytes > max_bytes {
            self.make_room(max_bytes);
        }
        let mut delegations = mem::take(&mut self.delegations);
        delegations.retain(|id| {
            let is_kept = self.list[id.0 as usize].is_some() && self.age(*id) < DELEGATION_AGE;
            if !is_kept {
                self.remove(*id);
            }
            is_kept
        });
        self.delegations = delegations;
        self.period = self.period.wrapping_add(1);
    }

    /// Drops old code, and the least recently used until a quarter of the room is free if there is too much.
    fn make_room(&mut self, max_bytes: usize) {
        let known = self.by_hash.values();
        let mut by_age: Vec<(u32, CodeId)> =
            known.map(|known| (self.period.wrapping_sub(known.used.load(Ordering::Relaxed)), known.id)).collect();
        by_age.sort_unstable_by_key(|(age, id)| (core::cmp::Reverse(*age), id.0));
        let goal = if self.bytes > max_bytes { max_bytes - max_bytes / 4 } else { usize::MAX };
        for (age, id) in by_age {
            if age < MAX_AGE && self.bytes <= goal {
                break;
            }
            self.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DEFAULT_CODE_CACHE;
    use alloy_primitives::{Address, U256};

    fn codes(max_bytes: usize) -> Codes {
        Codes::new(CodeRule::Delegates, max_bytes)
    }

    fn code(number: u64, len: usize) -> (B256, Bytecode) {
        let mut bytes = vec![0x5b; len.max(8)];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        let code = Bytecode::new_legacy(bytes.into());
        (code.hash_slow(), code)
    }

    fn stored(codes: &Codes, number: u64, len: usize) -> CodeId {
        let (hash, code) = code(number, len);
        codes.insert_stored(hash, code)
    }

    fn delegation(number: u64) -> (B256, Bytecode) {
        let code = Bytecode::new_eip7702(Address::from_word(U256::from(number + 1).into()));
        (code.hash_slow(), code)
    }

    /// Checks the table's own books.
    #[track_caller]
    fn check(codes: &Codes) -> usize {
        let inner = codes.inner.read();
        let held: Vec<_> = inner.list.iter().skip(1).flatten().collect();
        assert_eq!(held.iter().map(|entry| weight(&entry.code)).sum::<usize>(), inner.bytes);
        assert_eq!(held.len(), inner.by_hash.len());
        assert!(held.iter().all(|entry| inner.entry(inner.by_hash[&entry.hash].id).hash == entry.hash));
        assert_eq!(
            held.len() + inner.resting.len() + inner.free.len() + 1,
            inner.list.len(),
            "every id is accounted for"
        );
        inner.bytes
    }

    #[test]
    fn code_is_held_once_under_its_hash() {
        let codes = codes(DEFAULT_CODE_CACHE);
        let (hash, made) = code(1, 30);
        let id = codes.insert(hash, made.clone());
        assert_eq!(codes.insert(hash, made.clone()), id);
        assert_eq!(codes.insert_stored(hash, made.clone()), id);
        assert_eq!((codes.find(&hash), codes.hash(id), codes.get(id)), (Some(id), hash, (hash, made.clone())));
        assert_eq!(
            codes.code(&hash).map(|code| code.bytecode_ptr()),
            Some(made.bytecode_ptr()),
            "shared, not analysed again"
        );
        assert_eq!((codes.find(&KECCAK256_EMPTY), codes.find(&B256::ZERO)), (Some(CodeId::NONE), None));
        assert_eq!(check(&codes), weight(&made));
    }

    #[test]
    fn what_no_commit_keeps_goes_with_its_block() {
        let codes = codes(DEFAULT_CODE_CACHE);
        let [(first, one), (second, two)] = [code(1, 30), code(2, 30)];
        let third = stored(&codes, 3, 30);
        codes.insert(first, one.clone());
        codes.insert(second, two);
        codes.keep([first, B256::ZERO].into_iter());
        codes.begin();
        assert_eq!((codes.code(&first), codes.find(&second)), (Some(one.clone()), None));
        assert_eq!(codes.find(&code(3, 30).0), Some(third));
        assert_eq!(check(&codes), 2 * weight(&one));
    }

    #[test]
    fn the_least_recently_used_goes_first_and_only_between_blocks() {
        let room = 100 * weight(&code(0, 1000).1);
        let codes = codes(room);
        let hot = stored(&codes, 0, 1000);
        for block in 0..50u64 {
            for number in 0..30 {
                stored(&codes, 1 + block * 30 + number, 1000);
            }
            assert_eq!(codes.find(&code(0, 1000).0), Some(hot), "block {block}");
            assert!((0..30).all(|number| codes.find(&code(1 + block * 30 + number, 1000).0).is_some()));
            codes.begin();
            assert!(check(&codes) <= room);
        }
        assert!(codes.find(&code(1, 1000).0).is_none());
        assert!(codes.has_room());
        // A block may need more than fits; the table has all of it as long as it runs.
        let ids: Vec<_> = (0..300).map(|number| stored(&codes, 1 << 40 | number, 1000)).collect();
        assert!((0..300).all(|number| codes.get(ids[number as usize]).0 == code(1 << 40 | number, 1000).0));
        assert!(check(&codes) > room && !codes.has_room());
        codes.begin();
        assert!(check(&codes) <= room);
    }

    #[test]
    fn unused_code_is_dropped_in_the_end() {
        let codes = codes(DEFAULT_CODE_CACHE);
        stored(&codes, 0, 30);
        stored(&codes, 1, 30);
        for _ in 0..MAX_AGE + 2 * AGED_EVERY {
            assert!(codes.find(&code(0, 30).0).is_some());
            codes.begin();
        }
        assert_eq!(codes.find(&code(1, 30).0), None);
        assert!(codes.find(&code(0, 30).0).is_some());
    }

    #[test]
    fn delegations_are_not_kept() {
        let codes = codes(DEFAULT_CODE_CACHE);
        let (used, to) = delegation(u64::MAX - 1);
        codes.insert_stored(used, to);
        let mut most = 0;
        for block in 0..400u64 {
            for number in 0..500 {
                let (hash, code) = delegation(block * 500 + number);
                codes.insert(hash, code);
                codes.keep([hash].into_iter());
            }
            assert!(codes.find(&used).is_some());
            codes.begin();
            most = most.max(check(&codes));
        }
        let each = weight(&delegation(0).1);
        assert!(most <= (500 * DELEGATION_AGE as usize + 1) * each, "{most}");
        let inner = codes.inner.read();
        assert!(inner.list.len() < 2 * RESTING + 500 * 8, "{} ids", inner.list.len());
        assert!(codes.epoch() > 1);
    }

    #[test]
    fn an_id_means_one_code_in_its_epoch() {
        let codes = codes(0);
        let mut local = LocalCodes::default();
        local.enter(&codes);
        let (mut met, mut epoch) = (B256Map::<CodeId>::default(), codes.epoch());
        let mut names: std::collections::HashMap<u32, B256> = Default::default();
        let mut begun = 0;
        for block in 0..300u64 {
            for number in 0..800 {
                let (hash, made) = code(block * 800 + number, 8);
                let id = codes.insert(hash, made.clone());
                assert_eq!(names.insert(id.0, hash).unwrap_or(hash), hash, "another code had the id");
                assert_eq!(local.get(id, &codes), (hash, made));
                met.insert(hash, id);
            }
            codes.begin();
            assert_eq!(check(&codes), 0);
            if codes.epoch() != epoch {
                epoch = codes.epoch();
                names.clear();
                begun += 1;
            }
            assert_eq!(local.enter(&codes), names.is_empty());
        }
        assert!(begun >= 2);
    }

    #[test]
    fn a_fork_changes_the_kind_of_what_is_here() {
        let codes = Codes::new(CodeRule::Runs, DEFAULT_CODE_CACHE);
        let (hash, delegation) = delegation(1);
        let plain = Bytecode::new_legacy(delegation.original_bytes());
        for made in [plain, delegation] {
            codes.follow(CodeRule::Runs);
            let id = codes.insert(hash, made);
            assert!(!codes.get(id).1.is_eip7702());
            codes.follow(CodeRule::Delegates);
            assert!(codes.get(id).1.is_eip7702() && codes.code(&hash).is_some_and(|code| code.is_eip7702()));
            codes.follow(CodeRule::Runs);
            assert!(!codes.get(id).1.is_eip7702());
            codes.begin();
            assert_eq!(codes.find(&hash), None);
        }
    }
}
