//! Changes of accounts: the last step of an update.

use alloy_primitives::B256;
use rayon::prelude::*;

use super::{
    Accounts, Update,
    fold::{Fold, Folding},
    storages::Storages,
    tasks::{Steps, Task, run},
    values::{AccountNames, AccountValues},
};
use crate::{
    grow::{NONE, Step, Verb},
    hash::LeafValues,
    nodes::{SHARDS, Top},
    types::{AccountChange, Changes, Error, Fate, Values},
};

impl<V: Values> Update<'_, V> {
    /// Applies the accounts' changes; `storages` are the new storages.
    pub(super) fn accounts(&mut self, storages: &Storages) -> Result<Accounts, Error<V::Error>> {
        let steps = AccountSteps::of(self.changes, storages);
        let tasks = steps.tasks(&self.before.top);
        let values = AccountValues { changes: self.changes, values: self.values };
        let names = AccountNames { changes: self.changes, storages };
        let output = (&mut self.journal, &mut *self.spare, &mut self.work);
        let done = run(self.shards, &tasks, &steps, &names, &values, self.lanes, output)?;
        let mut fold = Fold::new(self.before.top.clone());
        let mut is_changed = false;
        for (task, done) in tasks.iter().zip(done) {
            let piece = usize::from(task.shard);
            if done.reference.is_some() || done.node != fold.top.pieces[piece].node {
                fold.set(piece, done.node, done.reference, done.change);
                is_changed = true;
            }
        }
        if !is_changed {
            return Ok(self.before.clone());
        }
        let mut folds = [fold];
        let mut folding = Folding {
            shards: self.shards,
            lanes: self.lanes,
            work: &mut self.work,
            value: |_, shard: &_, leaf: &_, change, out: &mut _| values.write(shard, leaf, 0, change, out),
        };
        folding.roots(&mut folds)?;
        let [Fold { top, root, .. }] = folds;
        Ok(Accounts { top, root })
    }
}

/// Steps of all accounts, part by part, so that threads collect them side by side.
struct AccountSteps(Vec<PartSteps>);

/// Steps of a part of the accounts, by the first byte of their keys.
struct PartSteps {
    steps: Vec<Step>,
    /// Where the steps of each first byte end.
    ends: [u32; SHARDS],
}

impl AccountSteps {
    fn of(changes: &Changes, storages: &Storages) -> Self {
        let parts = changes.parts().par_iter().enumerate();
        Self(parts.map(|(part, accounts)| PartSteps::of(part, accounts, storages)).collect())
    }

    /// A task for each piece that changes.
    fn tasks(&self, top: &Top) -> Vec<Task> {
        let mut start = 0;
        let tasks = top.pieces.iter().enumerate().filter_map(|(piece, before)| {
            let len: usize = self.0.iter().map(|part| part.of_piece(piece).len()).sum();
            let steps = start..start + len;
            start = steps.end;
            let task = Task { shard: piece as u8, at: 2, node: before.node, steps, account: NONE };
            (len != 0).then_some(task)
        });
        tasks.collect()
    }
}

impl Steps for AccountSteps {
    fn collect(&self, task: &Task, steps: &mut Vec<Step>) {
        self.0.iter().for_each(|part| steps.extend_from_slice(part.of_piece(task.shard.into())));
    }
}

impl PartSteps {
    fn of(part: usize, accounts: &[AccountChange], storages: &Storages) -> Self {
        let mut ends = [0; SHARDS];
        accounts.iter().for_each(|account| ends[usize::from(account.key[0])] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end - *count;
        }
        let mut steps = vec![Step { key: B256::ZERO, change: NONE, verb: Verb::Put }; accounts.len()];
        for (at, account) in accounts.iter().enumerate() {
            let change = Changes::number(part, at);
            let verb = match account.fate {
                Fate::Removed => Verb::Delete,
                _ if storages.get(change).is_some() => Verb::Rename,
                _ => Verb::Put,
            };
            let end = &mut ends[usize::from(account.key[0])];
            steps[*end as usize] = Step { key: account.key, change, verb };
            *end += 1;
        }
        Self { steps, ends }
    }

    fn of_piece(&self, piece: usize) -> &[Step] {
        let start = piece.checked_sub(1).map_or(0, |below| self.ends[below]);
        &self.steps[start as usize..self.ends[piece] as usize]
    }
}
