//! Changes of slots: a storage is whole, one task, or spread, a task per piece that changes.

use alloy_primitives::B256;
use rayon::prelude::*;

use super::{
    EMPTY_ROOT, Update,
    fold::{Fold, Folding},
    spread::spread,
    tasks::{Done, Task, Tasks, run},
    values::{SlotNames, SlotValues},
};
use crate::{
    grow::{NONE, Step, Verb},
    nodes::{Node, Root, SHARDS, Storage, Top, What},
    types::{AccountChange, Changes, Error, Fate, Values, Wipe},
};

/// Accounts that a thread should look up at least.
const LOOKUPS: usize = 256;

/// Storages after a block, by the number of their account's change; those that are as before are absent.
#[derive(Debug, Default)]
pub(super) struct Storages {
    /// Records by part and place, [`NONE`] where nothing changed.
    parts: Vec<Vec<u32>>,
}

impl Storages {
    fn set(&mut self, change: u32, record: u32) {
        let (part, at) = Changes::place(change);
        self.parts.resize_with(self.parts.len().max(part + 1), Vec::new);
        let part = &mut self.parts[part];
        part.resize(part.len().max(at + 1), NONE);
        part[at] = record;
    }

    /// Record of the storage after the block, 0 if it is empty; `None` if it did not change.
    pub(super) fn get(&self, change: u32) -> Option<u32> {
        let (part, at) = Changes::place(change);
        self.parts.get(part)?.get(at).copied().filter(|record| *record != NONE)
    }
}

/// A storage that changes.
struct Plan {
    account: u32,
    /// Record before the block, 0 if it is new.
    record: u32,
    len: u64,
    before: Before,
    done: Option<Done>,
}

enum Before {
    Whole {
        node: Node,
        root: B256,
    },
    /// Index among the folds.
    Spread(usize),
}

impl<V: Values> Update<'_, V> {
    /// Applies the changes of slots; returns the storages after the block.
    pub(super) fn storages(&mut self) -> Result<Storages, Error<V::Error>> {
        let changes = self.changes;
        let touched = |(part, accounts): (usize, &Vec<AccountChange>)| {
            let touched = accounts.iter().enumerate().filter(|(_, account)| account.touches_storage());
            touched.map(|(at, _)| Changes::number(part, at)).collect::<Vec<_>>()
        };
        let touched: Vec<Vec<u32>> = changes.parts().par_iter().enumerate().map(touched).collect();
        let touched = touched.concat();
        let mut storages = Storages::default();
        if touched.is_empty() {
            return Ok(storages);
        }
        let (shards, before) = (&*self.shards, &self.before.top);
        let record = |at: &u32| {
            let key = &changes.at(*at).key;
            let (shard, piece) = (&shards[usize::from(key[0])], &before.pieces[usize::from(key[0])]);
            shard.find(piece.node, key).map(|leaf| shard.leaves.get(leaf).name.storage())
        };
        let records: Vec<Option<u32>> = touched.par_iter().with_min_len(LOOKUPS).map(record).collect();

        let (mut plans, mut folds, mut tasks) = (Vec::new(), Vec::new(), Tasks::default());
        for (at, record) in touched.into_iter().zip(records) {
            let account = changes.at(at);
            if account.fate == Fate::Kept && record.is_none() {
                return Err(Error::NoAccount { address: account.address });
            }
            let before = record.unwrap_or(0);
            let record = self.wiped(account, before);
            if record != before {
                storages.set(at, 0);
            }
            if account.fate != Fate::Removed && !account.slots().is_empty() {
                plans.push(self.plan(at, record, &mut folds, &mut tasks));
            }
        }
        let Tasks { tasks, steps } = tasks.ordered();
        let output = (&mut self.journal, &mut *self.spare, &mut self.work);
        let values = SlotValues { changes, values: self.values, tasks: &tasks };
        let done = run(self.shards, &tasks, &steps[..], &SlotNames(changes), &values, self.lanes, output)?;
        self.finish(&values, plans, folds, &tasks, done, &mut storages)?;
        Ok(storages)
    }

    /// The record of a storage after the account was removed or its storage wiped, 0 if it has none.
    fn wiped(&mut self, account: &AccountChange, record: u32) -> u32 {
        if record == 0 || account.fate != Fate::Removed && account.wipe == Wipe::Nothing {
            return record;
        }
        self.journal.replaced.push((account.key[0], What::Storage(record)));
        0
    }

    /// Adds the tasks of a storage.
    fn plan(&mut self, at: u32, record: u32, folds: &mut Vec<Fold>, tasks: &mut Tasks) -> Plan {
        let account = self.changes.at(at);
        let home = account.key[0];
        let Storage { root, len, nodes } = match record {
            0 => Storage { root: EMPTY_ROOT, len: 0, nodes: Root::Whole(Node::Empty) },
            record => self.shards[usize::from(home)].storages.get(record).clone(),
        };
        let top = match nodes {
            Root::Whole(node) if len + account.slots().len() as u64 <= self.spread => {
                let steps = self.slot_steps(account, tasks);
                tasks.tasks.push(Task { shard: home, at: 0, node, steps, account: at });
                let before = Before::Whole { node, root };
                return Plan { account: at, record, len, before, done: None };
            }
            Root::Whole(node) => spread(self.shards, home, node, &mut self.journal),
            Root::Spread(top) => top,
        };
        self.spread_tasks(at, &top, tasks);
        folds.push(Fold::new(top));
        Plan { account: at, record, len, before: Before::Spread(folds.len() - 1), done: None }
    }

    /// Appends the steps of an account's slots.
    fn slot_steps(&self, account: &AccountChange, tasks: &mut Tasks) -> core::ops::Range<usize> {
        let start = tasks.steps.len();
        let slots = &self.changes.slots()[account.slots()];
        tasks.steps.extend((account.slots().start as u32..).zip(slots).map(|(change, slot)| {
            let verb = if slot.value.is_zero() { Verb::Delete } else { Verb::Put };
            Step { key: slot.key, change, verb }
        }));
        start..tasks.steps.len()
    }

    /// Adds a task for each piece that changes.
    fn spread_tasks(&self, at: u32, top: &Top, tasks: &mut Tasks) {
        let steps = self.slot_steps(self.changes.at(at), tasks);
        tasks.steps[steps.clone()].sort_by_key(|step| step.key[0]);
        let mut start = steps.start;
        while start < steps.end {
            let piece = tasks.steps[start].key[0];
            let len = tasks.steps[start..steps.end].partition_point(|step| step.key[0] == piece);
            let node = top.pieces[usize::from(piece)].node;
            tasks.tasks.push(Task { shard: piece, at: 2, node, steps: start..start + len, account: at });
            start += len;
        }
    }

    /// Makes the records of storages after the tasks.
    fn finish(
        &mut self,
        values: &SlotValues<'_, V>,
        mut plans: Vec<Plan>,
        mut folds: Vec<Fold>,
        tasks: &[Task],
        done: Vec<Done>,
        storages: &mut Storages,
    ) -> Result<(), Error<V::Error>> {
        let accounts: Vec<u32> =
            plans.iter().filter(|plan| matches!(plan.before, Before::Spread(_))).map(|plan| plan.account).collect();
        // Plans are in the order of accounts.
        for (task, done) in tasks.iter().zip(done) {
            let plan = plans.binary_search_by_key(&task.account, |plan| plan.account).expect("a plan per task");
            let plan = &mut plans[plan];
            match plan.before {
                Before::Whole { .. } => plan.done = Some(done),
                Before::Spread(fold) => {
                    plan.len = plan.len.wrapping_add_signed(done.added);
                    let (fold, piece) = (&mut folds[fold], usize::from(task.shard));
                    if done.reference.is_some() || done.node != fold.top.pieces[piece].node {
                        fold.set(piece, done.node, done.reference, done.change);
                    }
                }
            }
        }
        let mut folding = Folding {
            shards: self.shards,
            lanes: self.lanes,
            work: &mut self.work,
            value: |fold: usize, _: &_, leaf: &_, change, out: &mut _| {
                values.write_of(accounts[fold], leaf, change, out)
            },
        };
        folding.roots(&mut folds)?;
        let mut folds = folds.into_iter();
        for plan in plans {
            let (root, len, nodes) = match (plan.before, plan.done) {
                (Before::Whole { node, root }, Some(done)) => {
                    if done.node == node && done.reference.is_none() {
                        continue;
                    }
                    let root = done.reference.map_or(root, |reference| reference.root());
                    (root, plan.len.wrapping_add_signed(done.added), Root::Whole(done.node))
                }
                (Before::Whole { .. }, None) => continue,
                (Before::Spread(_), _) => match folds.next() {
                    Some(fold) => (fold.root, plan.len, Root::Spread(fold.top)),
                    None => continue,
                },
            };
            let home = self.changes.at(plan.account).key[0];
            if plan.record != 0 {
                self.journal.replaced.push((home, What::Record(plan.record)));
            }
            let mut record = 0;
            if len != 0 {
                record = self.shards[usize::from(home)].storages.add(Storage { root, len, nodes });
                self.journal.made.push((home, What::Record(record)));
            }
            storages.set(plan.account, record);
        }
        Ok(())
    }
}

const _: () = assert!(SHARDS == 1 << u8::BITS);
