//! Subtries that change, side by side on all threads: the shape of each, then the references of many together.

use core::ops::Range;

use phalanx_hash_lanes::Lanes;
use rayon::prelude::*;

use crate::{
    grow::{Grower, Item, NONE, Names, Step},
    hash::{LeafValues, levels},
    nodes::{Journal, Node, Reference, SHARDS, Shard, Spare},
    types::{Error, Work, prefix},
};

/// Steps that a thread should have at least: below, handing them over costs more than it saves.
const STEPS_PER_GROUP: usize = 256;
/// Steps of a group at most, so that the nodes that it makes are in the cache of its core until they are hashed.
const STEPS_AT_ONCE: usize = 2048;
/// Groups per thread, so that threads end at about the same time.
const GROUPS_PER_THREAD: usize = 4;

/// Steps on one subtrie of a shard.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) shard: u8,
    /// Nibbles above the subtrie.
    pub(super) at: u8,
    pub(super) node: Node,
    /// Indices of its steps among those of all tasks.
    pub(super) steps: Range<usize>,
    /// Change of the account that it belongs to.
    pub(super) account: u32,
}

/// A subtrie after its steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) node: Node,
    /// Present if it differs from before.
    pub(super) reference: Option<Reference>,
    /// Change that the value of a lone leaf is from, or [`NONE`].
    pub(super) change: u32,
    /// Leaves added, less those removed.
    pub(super) added: i64,
}

/// Makes tasks out of a list of steps each, and orders them by shard.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) tasks: Vec<Task>,
    pub(super) steps: Vec<Step>,
}

impl Tasks {
    /// Orders tasks by shard, and steps by task.
    pub(super) fn ordered(mut self) -> Self {
        if self.tasks.is_sorted_by_key(|task| (task.shard, task.steps.start)) {
            return self;
        }
        self.tasks.sort_unstable_by_key(|task| (task.shard, task.steps.start));
        let mut steps = Vec::with_capacity(self.steps.len());
        for task in &mut self.tasks {
            let start = steps.len();
            steps.extend_from_slice(&self.steps[task.steps.clone()]);
            task.steps = start..steps.len();
        }
        Self { steps, ..self }
    }
}

/// Source of the tasks' steps.
pub(super) trait Steps: Sync {
    /// Appends the steps of a task, in any order.
    fn collect(&self, task: &Task, steps: &mut Vec<Step>);
}

impl Steps for [Step] {
    fn collect(&self, task: &Task, steps: &mut Vec<Step>) {
        steps.extend_from_slice(&self[task.steps.clone()]);
    }
}

/// Tasks of neighbouring shards, which one thread does.
struct Group<'a> {
    first: u8,
    shards: &'a mut [Shard],
    first_task: usize,
    tasks: &'a [Task],
}

/// Does tasks, which are ordered; the results are in their order.
pub(super) fn run<N: Names + Sync, V, E: Send>(
    shards: &mut [Shard; SHARDS],
    tasks: &[Task],
    steps: &(impl Steps + ?Sized),
    names: &N,
    values: &V,
    lanes: Lanes,
    (journal, spare, work): (&mut Journal, &mut Spare, &mut Work),
) -> Result<Vec<Done>, Error<E>>
where
    V: LeafValues<Error = Error<E>>,
{
    let groups = groups(shards, tasks).into_iter().map(|group| (group, Journal::new(spare)));
    let groups: Vec<_> = groups.collect();
    let run = |(group, mut journal): (Group<'_>, Journal)| {
        let result = group.run(steps, names, values, lanes, &mut journal);
        (journal, result)
    };
    let all: Vec<_> = match groups.len() {
        0 | 1 => groups.into_iter().map(run).collect(),
        _ => groups.into_par_iter().with_max_len(1).map(run).collect(),
    };
    let mut done = Ok(Vec::with_capacity(tasks.len()));
    for (made, result) in all {
        journal.append(made);
        match (&mut done, result) {
            (Ok(done), Ok((more, hashed))) => {
                done.extend(more);
                *work += hashed;
            }
            (Ok(_), Err(error)) => done = Err(error),
            (Err(_), _) => {}
        }
    }
    done
}

fn groups<'a>(shards: &'a mut [Shard; SHARDS], tasks: &'a [Task]) -> Vec<Group<'a>> {
    let steps = tasks.last().map_or(0, |task| task.steps.end);
    let most = (GROUPS_PER_THREAD * rayon::current_num_threads()).min(steps / STEPS_PER_GROUP).max(1);
    let enough = steps.div_ceil(most).min(STEPS_AT_ONCE);
    let mut groups = Vec::with_capacity(most);
    let mut shards = &mut shards[..];
    let (mut first, mut first_task) = (0, 0);
    while let Some(task) = tasks.get(first_task) {
        let start = task.steps.start;
        let rest = &tasks[first_task..];
        // Ends with a shard, after enough steps.
        let full = rest.iter().position(|task| task.steps.end - start >= enough).unwrap_or(rest.len() - 1);
        let last = rest[full].shard;
        let len = rest.partition_point(|task| task.shard <= last);
        let (own, others) = shards.split_at_mut(usize::from(last) + 1 - first);
        groups.push(Group { first: first as u8, shards: own, first_task, tasks: &rest[..len] });
        shards = others;
        (first, first_task) = (usize::from(last) + 1, first_task + len);
    }
    groups
}

impl Group<'_> {
    /// Number of steps.
    fn len(&self) -> usize {
        self.tasks.iter().map(|task| task.steps.len()).sum()
    }

    fn run<N: Names, V, E>(
        self,
        all: &(impl Steps + ?Sized),
        names: &N,
        values: &V,
        lanes: Lanes,
        journal: &mut Journal,
    ) -> Result<(Vec<Done>, Work), Error<E>>
    where
        V: LeafValues<Error = Error<E>>,
    {
        let mut items: Vec<Item> = Vec::with_capacity(2 * self.len());
        let Self { first, shards, first_task, tasks } = self;
        let mut done = Vec::with_capacity(tasks.len());
        let mut steps = Vec::new();
        for (number, task) in (first_task as u32..).zip(tasks) {
            steps.clear();
            all.collect(task, &mut steps);
            if !steps.is_sorted_by(|a, b| a.key < b.key) {
                steps.sort_unstable_by(|a, b| prefix(&a.key).cmp(&prefix(&b.key)).then_with(|| a.key.cmp(&b.key)));
            }
            if let Some([twice, _]) = steps.array_windows().find(|[a, b]| a.key == b.key) {
                return Err(Error::Twice { key: twice.key });
            }
            let shard = &mut shards[usize::from(task.shard - first)];
            let mut grower =
                Grower { shard, number: task.shard, task: number, names, items: &mut items, journal, added: 0 };
            let grown = grower.grow(task.node, task.at.into(), &steps);
            let added = grower.added;
            let top = items.get_mut(grown.item as usize);
            let change = top.as_ref().map_or(NONE, |item| item.change);
            top.into_iter().for_each(|item| item.at = task.at);
            done.push(Done { node: grown.node, reference: None, change, added });
        }
        let work = levels(shards, first, &items, values, lanes, |item, reference| {
            done[item.task as usize - first_task].reference = Some(reference);
        })?;
        Ok((done, work))
    }
}
