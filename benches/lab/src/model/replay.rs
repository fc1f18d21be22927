//! A discrete-event replay of tasks on virtual cores. Pure and deterministic: equal graphs give equal times, bit for bit.
//!
//! A task waits for its predecessors, then for a place: a core, or a server that takes one task at a time (the writer's
//! thread, the bandwidths of memory and disk). Ready tasks get cores in order of urgency, then rank; a running task is not
//! interrupted. This is list scheduling (Graham 1969): never worse than twice the optimum.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// Place of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Any core.
    Core,
    /// The writer's thread, on its own core or on a shared one, by [`Machine::writer_apart`].
    Writer,
    /// Main memory, as bandwidth.
    Memory,
    /// The disk, as bandwidth.
    Disk,
}

/// The machine that tasks run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Cores for [`Place::Core`], at least one.
    pub(crate) cores: usize,
    /// True if the writer has an additional core.
    pub(crate) writer_apart: bool,
}

/// Tasks and their dependencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    cost: Vec<f64>,
    place: Vec<Place>,
    /// Urgency and rank; smaller runs first.
    order: Vec<(u8, u32)>,
    edges: Vec<(u32, u32)>,
    /// Group of each task, or [`NONE`].
    groups: Vec<u32>,
    n_groups: u32,
}

/// Group of a task without a group.
const NONE: u32 = u32::MAX;

impl Tasks {
    /// Adds a task of `cost` nanoseconds, and returns its number.
    pub(crate) fn add(&mut self, place: Place, urgency: u8, cost: f64) -> u32 {
        let rank = self.len();
        self.add_ranked(place, urgency, rank, cost)
    }

    /// [`Self::add`] with a rank, which orders equally urgent tasks; the default rank is the task's number.
    pub(crate) fn add_ranked(&mut self, place: Place, urgency: u8, rank: u32, cost: f64) -> u32 {
        let index = self.len();
        self.cost.push(cost.max(0.0));
        self.place.push(place);
        self.order.push((urgency, rank));
        self.groups.push(NONE);
        index
    }

    /// Groups tasks of [`Place::Core`]: a core that has finished one of the group goes on with another ready one first, as a
    /// thread prefers its own tasks.
    pub(crate) fn group(&mut self, first: u32, rest: &[u32]) {
        for task in rest.iter().chain([&first]) {
            self.groups[*task as usize] = self.n_groups;
        }
        self.n_groups += 1;
    }

    /// Number of tasks, and the number of the next one.
    pub(crate) const fn len(&self) -> u32 {
        self.cost.len() as u32
    }

    /// Makes `task` wait for `before`, which must have been added earlier, so that there is no circle.
    pub(crate) fn wait(&mut self, task: u32, before: u32) {
        debug_assert!(before < task && (task as usize) < self.cost.len());
        self.edges.push((before, task));
    }

    /// Nanoseconds until all are done. O((tasks + edges) log tasks).
    pub(crate) fn replay(&self, machine: Machine) -> f64 {
        let n = self.cost.len();
        let (mut waits, mut first) = (vec![0u32; n], vec![0u32; n + 1]);
        for (before, task) in &self.edges {
            waits[*task as usize] += 1;
            first[*before as usize + 1] += 1;
        }
        for index in 0..n {
            first[index + 1] += first[index];
        }
        let (mut next, mut succ) = (first.clone(), vec![0u32; self.edges.len()]);
        for (before, task) in &self.edges {
            succ[next[*before as usize] as usize] = *task;
            next[*before as usize] += 1;
        }

        let mut queues: [Queue; 4] = Default::default();
        let mut free = [machine.cores.max(1), usize::from(machine.writer_apart), 1, 1];
        let queue = |place: Place| match place {
            Place::Writer if !machine.writer_apart => Place::Core as usize,
            other => other as usize,
        };
        let mut running: BinaryHeap<Reverse<(Time, u32)>> = BinaryHeap::new();
        // Ready tasks of each group, and started tasks: a grouped task waits in two queues.
        let mut groups: Vec<VecDeque<u32>> = vec![VecDeque::new(); self.n_groups as usize];
        let mut begun = vec![false; n];
        let ready = |queues: &mut [Queue; 4], groups: &mut [VecDeque<u32>], task: u32| {
            queues[queue(self.place[task as usize])].push(Reverse((self.order[task as usize], task)));
            if let Some(group) = groups.get_mut(self.groups[task as usize] as usize) {
                group.push_back(task);
            }
        };
        for task in 0..n as u32 {
            if waits[task as usize] == 0 {
                ready(&mut queues, &mut groups, task);
            }
        }
        let (mut now, mut done) = (0.0, 0);
        loop {
            for (queue, free) in queues.iter_mut().zip(&mut free) {
                while *free > 0
                    && let Some(Reverse((_, task))) = queue.pop()
                {
                    if !core::mem::replace(&mut begun[task as usize], true) {
                        *free -= 1;
                        running.push(Reverse((Time(now + self.cost[task as usize]), task)));
                    }
                }
            }
            let Some(Reverse((Time(end), task))) = running.pop() else { break };
            (now, done) = (end, done + 1);
            for next in &succ[first[task as usize] as usize..first[task as usize + 1] as usize] {
                waits[*next as usize] -= 1;
                if waits[*next as usize] == 0 {
                    ready(&mut queues, &mut groups, *next);
                }
            }
            let mut own = groups.get_mut(self.groups[task as usize] as usize);
            let next = own.as_mut().and_then(|group| {
                core::iter::from_fn(|| group.pop_front())
                    .find(|task| !core::mem::replace(&mut begun[*task as usize], true))
            });
            match next {
                Some(next) => running.push(Reverse((Time(now + self.cost[next as usize]), next))),
                None => free[queue(self.place[task as usize])] += 1,
            }
        }
        debug_assert_eq!(done, n, "edges lead forward, so every task has run");
        now
    }
}

type Queue = BinaryHeap<Reverse<((u8, u32), u32)>>;

/// Times, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(cores: usize) -> Machine {
        Machine { cores, writer_apart: true }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} and {b}");
    }

    #[test]
    fn a_chain_gains_nothing_from_cores() {
        let mut tasks = Tasks::default();
        for index in 0..50 {
            let task = tasks.add(Place::Core, 1, 3.0);
            if index > 0 {
                tasks.wait(task, task - 1);
            }
        }
        for count in [1, 2, 7, 256] {
            close(tasks.replay(cores(count)), 150.0);
        }
    }

    #[test]
    fn independent_tasks_divide_by_the_cores() {
        let mut tasks = Tasks::default();
        (0..96).for_each(|_| _ = tasks.add(Place::Core, 1, 5.0));
        for (count, end) in [(1, 480.0), (2, 240.0), (32, 15.0), (96, 5.0), (256, 5.0), (5, 100.0)] {
            close(tasks.replay(cores(count)), end);
        }
        close(Tasks::default().replay(cores(4)), 0.0);
    }

    #[test]
    fn a_serial_part_and_a_parallel_one_are_amdahls_law() {
        let (serial, parallel, pieces) = (400.0, 9600.0, 960);
        let mut tasks = Tasks::default();
        let head = tasks.add(Place::Core, 0, serial);
        for _ in 0..pieces {
            let piece = tasks.add(Place::Core, 1, parallel / f64::from(pieces));
            tasks.wait(piece, head);
        }
        for count in [1usize, 2, 4, 8, 96] {
            close(tasks.replay(cores(count)), serial + parallel / count as f64);
        }
    }

    #[test]
    fn urgent_tasks_go_first_and_a_diamond_waits_for_its_longer_side() {
        let mut tasks = Tasks::default();
        let top = tasks.add(Place::Core, 1, 1.0);
        let (short, long) = (tasks.add(Place::Core, 1, 2.0), tasks.add(Place::Core, 1, 5.0));
        tasks.wait(short, top);
        tasks.wait(long, top);
        let bottom = tasks.add(Place::Core, 1, 1.0);
        tasks.wait(bottom, short);
        tasks.wait(bottom, long);
        close(tasks.replay(cores(1)), 9.0);
        close(tasks.replay(cores(2)), 7.0);
        // Ten urgent units with successors and ten without: two cores finish in ten if they run together.
        let mut tasks = Tasks::default();
        (0..10).for_each(|_| _ = tasks.add(Place::Core, 1, 1.0));
        let urgent = tasks.add(Place::Core, 0, 10.0);
        close(tasks.replay(cores(2)), 10.0);
        assert_eq!(urgent, 10);
        // The same by rank.
        let mut tasks = Tasks::default();
        (0..10).for_each(|_| _ = tasks.add_ranked(Place::Core, 1, 7, 1.0));
        tasks.add_ranked(Place::Core, 1, 6, 10.0);
        close(tasks.replay(cores(2)), 10.0);
    }

    #[test]
    fn a_core_goes_on_with_its_own_group() {
        // Two cores. A chain of a call, four pieces and their join; and ten units that were ready before the pieces.
        let mut ends = Vec::new();
        for grouped in [false, true] {
            let mut tasks = Tasks::default();
            let call = tasks.add(Place::Core, 0, 1.0);
            (0..10).for_each(|_| _ = tasks.add(Place::Core, 1, 1.0));
            let pieces: Vec<u32> = (0..4).map(|_| tasks.add(Place::Core, 1, 1.0)).collect();
            pieces.iter().for_each(|piece| tasks.wait(*piece, call));
            let last = tasks.add(Place::Core, 0, 10.0);
            pieces.iter().for_each(|piece| tasks.wait(last, *piece));
            if grouped {
                tasks.group(call, &pieces);
            }
            ends.push(tasks.replay(cores(2)));
        }
        // Without a group the tasks begin at 5.5, behind all others; with one the calling core has done them at 5.
        assert_eq!(ends, [18.0, 15.0]);
    }

    #[test]
    fn servers_take_one_task_at_a_time_beside_the_cores() {
        for place in [Place::Writer, Place::Memory, Place::Disk] {
            let mut tasks = Tasks::default();
            (0..4).for_each(|_| _ = tasks.add(place, 1, 3.0));
            (0..4).for_each(|_| _ = tasks.add(Place::Core, 1, 2.0));
            close(tasks.replay(cores(4)), 12.0);
        }
        // A writer without a core of its own takes turns with the rest.
        let mut tasks = Tasks::default();
        tasks.add(Place::Writer, 1, 3.0);
        tasks.add(Place::Core, 1, 2.0);
        close(tasks.replay(Machine { cores: 1, writer_apart: false }), 5.0);
    }

    #[test]
    fn random_graphs_keep_grahams_bounds() {
        let seed: u64 = std::env::var("PHALANX_SEED").map_or(3, |seed| seed.parse().expect("a number"));
        println!("PHALANX_SEED={seed}");
        let mut state = seed;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..100 {
            let mut tasks = Tasks::default();
            let (mut longest, mut work) = (Vec::<f64>::new(), 0.0);
            for index in 0..1 + random(60) as u32 {
                let cost = (1 + random(9)) as f64;
                tasks.add(Place::Core, 1, cost);
                let mut before: f64 = 0.0;
                for _ in 0..random(3).min(u64::from(index)) {
                    let other = random(u64::from(index)) as u32;
                    tasks.wait(index, other);
                    before = before.max(longest[other as usize]);
                }
                longest.push(before + cost);
                work += cost;
            }
            // Greedy all the same.
            let some: Vec<u32> = (0..tasks.len()).filter(|_| random(3) == 0).collect();
            if let Some((first, rest)) = some.split_first() {
                tasks.group(*first, rest);
            }
            let path = longest.iter().copied().fold(0.0, f64::max);
            for count in [1usize, 2, 3, 8] {
                let end = tasks.replay(cores(count));
                let least = path.max(work / count as f64);
                let most = work / count as f64 + path * (1.0 - 1.0 / count as f64);
                assert!(end >= least - 1e-9 && end <= most + 1e-9, "{least} <= {end} <= {most} on {count}");
                assert_eq!(end.to_bits(), tasks.replay(cores(count)).to_bits(), "deterministic");
            }
        }
    }
}
