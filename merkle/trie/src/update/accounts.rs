//! Changes of accounts: the last step of an update.

use super::{
    Accounts, Update,
    fold::{Fold, Folding},
    tasks::{Task, Tasks, run},
    values::{AccountNames, AccountValues},
};
use crate::{
    grow::{NONE, Step, Verb},
    hash::LeafValues,
    nodes::SHARDS,
    types::{Error, Fate, Values},
};

impl<V: Values> Update<'_, V> {
    /// Applies the accounts' changes. `storages` are the new storages by change, [`NONE`] where nothing changed.
    pub(super) fn accounts(&mut self, storages: &[u32]) -> Result<Accounts, Error<V::Error>> {
        let mut tasks = self.account_tasks(storages);
        let values = AccountValues { changes: self.changes, values: self.values };
        let names = AccountNames { changes: self.changes, storages };
        let output = (&mut self.journal, &mut self.work);
        let done = run(self.shards, &mut tasks, &names, &values, self.lanes, output)?;
        let mut fold = Fold::new(self.before.top.clone());
        let mut is_changed = false;
        for (task, done) in tasks.tasks.iter().zip(done) {
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

    /// Steps of all accounts, by the first byte of their keys.
    fn account_tasks(&self, storages: &[u32]) -> Tasks {
        let accounts = self.changes.accounts();
        let mut ends = [0; SHARDS];
        accounts.iter().for_each(|account| ends[usize::from(account.key[0])] += 1);
        let mut tasks = Vec::with_capacity(SHARDS);
        let mut start = 0;
        for (piece, end) in ends.iter_mut().enumerate() {
            let steps = start..start + *end;
            (*end, start) = (start, steps.end);
            if !steps.is_empty() {
                let node = self.before.top.pieces[piece].node;
                tasks.push(Task { shard: piece as u8, at: 2, node, steps, account: NONE });
            }
        }
        let nothing = Step { key: Default::default(), change: NONE, verb: Verb::Put };
        let mut steps = vec![nothing; accounts.len()];
        for (change, account) in (0..).zip(accounts) {
            let verb = match account.fate {
                Fate::Removed => Verb::Delete,
                _ if storages.get(change as usize).is_some_and(|storage| *storage != NONE) => Verb::Rename,
                _ => Verb::Put,
            };
            let end = &mut ends[usize::from(account.key[0])];
            steps[*end] = Step { key: account.key, change, verb };
            *end += 1;
        }
        Tasks { tasks, steps }
    }
}
