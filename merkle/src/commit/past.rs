//! A paged state some blocks ago, read through the undo records: keys had other positions then, and their entries are
//! still in the log.

use std::collections::{BTreeMap, VecDeque};

use phalanx_merkle_proof::Hash;

use super::rollback::UndoRecord;
use crate::{
    state::{BaseState as _, Session, StateView as _},
    types::prefix,
};

/// Paged state some blocks ago.
#[derive(Debug)]
pub(crate) struct Past<'s> {
    pub(crate) session: &'s Session<'s>,
    pub(crate) history: &'s VecDeque<UndoRecord>,
    pub(crate) depth: usize,
}

impl Past<'_> {
    fn undo_records(&self) -> impl Iterator<Item = &UndoRecord> {
        self.history.iter().rev().take(self.depth)
    }

    /// Entry that a key, or sentinel, had then, given its position now.
    fn roll_back(&self, sentinel: bool, key: &[u8], hash: &Hash, now: Option<u64>) -> Option<u32> {
        let is_it = |id: &u32| {
            let item = self.session.item(*id);
            item.sentinel == sentinel && item.key() == key
        };
        let was = self.undo_records().fold(now, |after, undo| {
            let index = undo.steps.index();
            match after {
                Some(after) => index.after.get(&after).copied().unwrap_or(Some(after)),
                None => {
                    let gone = index.gone.get(&prefix(hash)).into_iter().flatten().copied();
                    gone.filter(|sn| self.session.at(*sn).is_some_and(|id| is_it(&id))).last()
                }
            }
        });
        self.session.at(was?)
    }

    /// Entry that a key had then.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let now = self.session.find(key).map(|id| self.session.written(id).sn);
        self.roll_back(false, key, &self.session.hash_of(key), now)
    }

    /// Entry that a key of the present had then.
    fn of(&self, id: u32) -> Option<u32> {
        let item = self.session.item(id);
        self.roll_back(item.sentinel, item.key(), &item.links.hash, Some(item.written.sn))
    }

    /// Positions of keys that were deleted since, even if they exist again, by prefix.
    fn gone(&self) -> BTreeMap<u64, Vec<u64>> {
        let mut gone: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (prefix, sns) in self.undo_records().flat_map(|undo| &undo.steps.index().gone) {
            gone.entry(*prefix).or_default().extend(sns);
        }
        gone
    }

    /// Entries that the keys of these positions had then, in key order.
    fn were(&self, sns: &[u64]) -> Vec<(Hash, u32)> {
        let ids = sns.iter().filter_map(|sn| self.session.at(*sn));
        let were = ids.filter_map(|id| self.find(self.session.item(id).key()));
        let mut were: Vec<(Hash, u32)> = were.map(|id| (self.session.item(id).links.hash, id)).collect();
        were.sort_unstable();
        were.dedup_by_key(|(hash, _)| *hash);
        were
    }

    /// Entry before a hash in the key order of then.
    pub(crate) fn predecessor(&self, hash: &Hash) -> Option<u32> {
        let gone = self.gone();
        let below = |sns: &Vec<u64>| self.were(sns).into_iter().rev().find(|(place, _)| place < hash);
        let gone = gone.range(..=prefix(hash)).rev().find_map(|(_, sns)| below(sns)).map(|(_, id)| id);
        let mut at = self.session.predecessor(hash);
        let kept = loop {
            let Some(id) = at else { break None };
            if let Some(was) = self.of(id) {
                break Some(was);
            }
            at = self.session.predecessor(&self.session.item(id).links.hash);
        };
        [gone, kept].into_iter().flatten().max_by_key(|id| self.session.item(*id).links.hash)
    }

    /// Entries from a hash on in the key order of then.
    pub(crate) fn in_key_order<'r>(&'r self, from: &'r Hash) -> impl Iterator<Item = u32> + 'r {
        let gone = self.gone().split_off(&prefix(from)).into_values().flat_map(|sns| self.were(&sns));
        let mut gone = gone.filter(move |(place, _)| place >= from).peekable();
        let mut kept = self.session.in_key_order(from).filter_map(|id| self.of(id)).peekable();
        let hash = |id: u32| self.session.item(id).links.hash;
        std::iter::from_fn(move || match (gone.peek(), kept.peek()) {
            (Some((place, _)), Some(id)) if *place == hash(*id) => {
                // The key was deleted and created again.
                gone.next();
                kept.next()
            }
            (Some((place, _)), Some(id)) if *place < hash(*id) => gone.next().map(|(_, id)| id),
            (Some(_), None) => gone.next().map(|(_, id)| id),
            (_, _) => kept.next(),
        })
    }
}
