//! Dependencies between the engine's stages, as tasks of `Engine::execute_and_plan` and around it.
//!
//! ```text
//!            ┌─ plan k+1: analyse ═ frame ─ .. ─ intern ─ graph ─┐
//!  start k ──┤                                    ┌─ merkle ═ ─┐ ├── apply k ═ ── keep k ═ ── start k+1
//!            └─ load ═ wave (DAG) ═ or ─ gather ═ ┤            ├─┘      └─ write k (writer), bytes k (disk)
//!                                                 └─ seal ═ ───┘
//!  ═ on all cores, ─ on one
//! ```
//!
//! If k+1 is framed already, its plan frames k+2 beside `intern` and `graph`, and analyses a chunk beside the framing of the
//! chunk before.
//!
//! Blocks of fewer than [`MIN_OVERLAP`] transactions run the two sides of a fork-join in sequence. So does every block without
//! overlap, which plans the next one after it has applied its changes.

use super::replay::{Place, Tasks};
use phalanx::{
    lab::{MIN_OVERLAP, interns_in_shards},
    parascheduler::Dag,
};

/// A part of the work, as the knee names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Analyse,
    Intern,
    InternAlone,
    Frame,
    Load,
    Graph,
    Wave,
    Gather,
    GatherAlone,
    Seal,
    SealAlone,
    Merkle,
    MerkleAlone,
    Apply,
    ApplyAlone,
    Keep,
    Write,
    Memory,
    Disk,
}

impl Part {
    pub(crate) const ALL: [Self; 19] = [
        Self::Analyse,
        Self::Intern,
        Self::InternAlone,
        Self::Frame,
        Self::Load,
        Self::Graph,
        Self::Wave,
        Self::Gather,
        Self::GatherAlone,
        Self::Seal,
        Self::SealAlone,
        Self::Merkle,
        Self::MerkleAlone,
        Self::Apply,
        Self::ApplyAlone,
        Self::Keep,
        Self::Write,
        Self::Memory,
        Self::Disk,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Analyse => "analysis",
            Self::Intern => "interning (in shards)",
            Self::InternAlone => "interning",
            Self::Frame => "framing (one thread)",
            Self::Load => "loading of values",
            Self::Graph => "DAG build (one thread)",
            Self::Wave => "execution",
            Self::Gather => "gathering of the delta",
            Self::GatherAlone => "gathering (one thread)",
            Self::Seal => "receipts",
            Self::SealAlone => "receipts (one thread)",
            Self::Merkle => "root",
            Self::MerkleAlone => "root (one thread)",
            Self::Apply => "commit in memory",
            Self::ApplyAlone => "commit in memory (one thread)",
            Self::Keep => "the benchmark's own notes",
            Self::Write => "writer",
            Self::Memory => "memory bandwidth",
            Self::Disk => "disk bandwidth",
        }
    }

    /// Part under which a cause is listed: both kinds of interning are one.
    pub(super) const fn cause(self) -> Self {
        if matches!(self, Self::Intern) { Self::InternAlone } else { self }
    }

    const fn is_receipts(self) -> bool {
        matches!(self, Self::Seal | Self::SealAlone)
    }

    const fn is_root(self) -> bool {
        matches!(self, Self::Merkle | Self::MerkleAlone)
    }

    /// True if the part is a bandwidth and not work of a core.
    pub(super) const fn is_bandwidth(self) -> bool {
        matches!(self, Self::Memory | Self::Disk)
    }
}

/// A measured span of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) part: Part,
    /// Nanoseconds of one core.
    pub(crate) ns: f64,
    /// Number of parallel tasks; 1 for serial work.
    pub(crate) pieces: usize,
}

/// Costs of a block, measured on one thread.
#[derive(Debug)]
pub(crate) struct BlockCosts {
    /// Planning of the block.
    pub(crate) plan: Vec<Span>,
    /// Planning with so many workers that interning is sharded.
    pub(crate) plan_of_many: Vec<Span>,
    /// From keys to root.
    pub(crate) run: Vec<Span>,
    /// Commit in memory.
    pub(crate) apply: Vec<Span>,
    /// Notes of the benchmark.
    pub(crate) keep: Vec<Span>,
    /// The DAG, its sources in the order in which several workers begin with them.
    pub(crate) dag: Dag,
    /// True if all workers share the wave; else it has one.
    pub(crate) wide: bool,
    /// Share of the wave by transaction; the sum is one.
    pub(crate) weights: Vec<f64>,
    /// Planned transactions, and transactions that did not escape.
    pub(crate) planned: usize,
    pub(crate) txs: usize,
}

impl BlockCosts {
    /// Planning with `workers` workers.
    pub(crate) fn plan(&self, workers: usize) -> &[Span] {
        if interns_in_shards(workers, self.planned) { &self.plan_of_many } else { &self.plan }
    }

    /// All spans on the code path of one thread.
    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        [&self.plan, &self.run, &self.apply, &self.keep].into_iter().flatten()
    }
}

/// Constants of all blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Constants {
    /// Factor of all work beside another busy core, for shared caches, memory, clock rate, perhaps the core itself.
    pub(crate) crowding: f64,
    /// Time of the writer and the kernel per transaction.
    pub(crate) write_ns: f64,
    /// Time that several workers add to a transaction: counting down, stealing, gathering.
    pub(crate) dispatch_ns: f64,
    /// Time to call all workers once.
    pub(crate) call_ns: f64,
    /// Memory traffic per transaction ÷ bandwidth.
    pub(crate) memory_ns: f64,
    /// Disk traffic per transaction ÷ bandwidth.
    pub(crate) disk_ns: f64,
    /// True if large blocks plan beside execution and seal beside the root.
    pub(crate) overlap: bool,
}

/// Constants without any overhead, for tests.
#[cfg(test)]
pub(super) const FREE: Constants = Constants {
    crowding: 1.0,
    write_ns: 0.0,
    dispatch_ns: 0.0,
    call_ns: 0.0,
    memory_ns: 0.0,
    disk_ns: 0.0,
    overlap: true,
};

/// Maximum number of blocks in the writer's queue, the one being written included.
const BEHIND: usize = 3;
/// Tasks of the writer's work on a block, where it shares a core with workers: a kernel would switch that often.
const WRITES: usize = 8;

/// Urgency of serial work that other work waits for, and of parallel work.
const ALONE: u8 = 0;
const SHARED: u8 = 1;

/// Tasks of all blocks for `workers` workers. `factor` scales the cost of a part.
pub(crate) fn tasks(
    blocks: &[BlockCosts],
    constants: &Constants,
    workers: usize,
    factor: &dyn Fn(Part) -> f64,
) -> Tasks {
    let several = workers > 1;
    let mut tasks = Tasks::default();
    let mut shape = Shaping { tasks: &mut tasks, constants, several, factor };
    let mut start = shape.task(Place::Core, 0.0);
    let (mut writes, mut memory): (Vec<u32>, u32) = (Vec::new(), start);
    let mut disk = start;
    if let Some(first) = blocks.first() {
        start = shape.plan(start, Some(first), workers);
    }
    for (index, block) in blocks.iter().enumerate() {
        let next = blocks.get(index + 1);
        let beside = constants.overlap && block.planned >= MIN_OVERLAP;
        let before = if constants.overlap && !beside { shape.plan(start, next, workers) } else { start };
        let ran = shape.run(before, block);
        let planned = if beside { shape.plan(start, next, workers) } else { ran };
        memory = shape.bandwidth(Place::Memory, block, Part::Memory, constants.memory_ns, memory, start);
        let joined = shape.task(Place::Core, 0.0);
        for before in [ran, planned, memory] {
            shape.tasks.wait(joined, before);
        }
        if let Some(behind) = index.checked_sub(BEHIND) {
            shape.tasks.wait(joined, writes[behind]);
        }
        let applied = shape.chain(joined, &block.apply, None);
        let mut written = writes.last().copied().unwrap_or(joined);
        for _ in 0..WRITES {
            let ns = constants.write_ns * block.txs as f64 / WRITES as f64 * factor(Part::Write);
            let task = shape.tasks.add(Place::Writer, SHARED, ns);
            shape.tasks.wait(task, applied);
            shape.tasks.wait(task, written);
            written = task;
        }
        disk = shape.bandwidth(Place::Disk, block, Part::Disk, constants.disk_ns, disk, written);
        writes.push(disk);
        start = shape.chain(applied, &block.keep, None);
        if !constants.overlap {
            start = shape.plan(start, next, workers);
        }
    }
    tasks
}

struct Shaping<'a> {
    tasks: &'a mut Tasks,
    constants: &'a Constants,
    several: bool,
    factor: &'a dyn Fn(Part) -> f64,
}

impl Shaping<'_> {
    fn task(&mut self, place: Place, ns: f64) -> u32 {
        self.tasks.add(place, ALONE, ns)
    }

    /// Adds a task of a server, behind the server's last one and `after`.
    fn bandwidth(&mut self, place: Place, block: &BlockCosts, part: Part, ns: f64, last: u32, after: u32) -> u32 {
        let task = self.task(place, ns * block.txs as f64 * (self.factor)(part));
        self.tasks.wait(task, last);
        self.tasks.wait(task, after);
        task
    }

    /// Plans a block, from transactions to graph, and frames the next: beside it with many workers, behind it with few.
    fn plan(&mut self, from: u32, block: Option<&BlockCosts>, workers: usize) -> u32 {
        let Some(block) = block else { return from };
        let spans = block.plan(workers);
        if !interns_in_shards(workers, block.planned) {
            return self.chain(from, spans, None);
        }
        let assembles = |span: &Span| matches!(span.part, Part::Intern | Part::InternAlone | Part::Graph);
        let first = spans.iter().position(assembles).unwrap_or(spans.len());
        let behind = spans.iter().rposition(assembles).map_or(spans.len(), |last| last + 1);
        let filled = self.chain(from, &spans[..first], None);
        let assembled = self.chain(filled, &spans[first..behind], None);
        let mut stocked = filled;
        let mut ahead = &spans[behind..];
        while let Some((span, rest)) = ahead.split_first() {
            let done = self.chain(stocked, core::slice::from_ref(span), None);
            // The measured thread framed a chunk and then analysed the next.
            let frames = span.part == Part::Frame;
            let beside = rest.iter().take_while(|next| frames && next.part == Part::Analyse).count();
            let (analysis, rest) = rest.split_at(beside);
            let analysed = self.chain(stocked, analysis, None);
            (stocked, ahead) = (self.both(done, analysed), rest);
        }
        self.both(stocked, assembled)
    }

    /// Joins two tasks.
    fn both(&mut self, one: u32, other: u32) -> u32 {
        let joined = self.task(Place::Core, 0.0);
        self.tasks.wait(joined, one);
        self.tasks.wait(joined, other);
        joined
    }

    /// Runs a block, from keys to root.
    fn run(&mut self, from: u32, block: &BlockCosts) -> u32 {
        let of = |wanted: fn(Part) -> bool| block.run.iter().filter(move |span| wanted(span.part)).copied();
        let before: Vec<Span> = of(|part| !part.is_receipts() && !part.is_root()).collect();
        let (receipts, root): (Vec<Span>, Vec<Span>) = (of(Part::is_receipts).collect(), of(Part::is_root).collect());
        let gathered = self.chain(from, &before, Some(block));
        let rooted = self.chain(gathered, &root, None);
        let beside = self.constants.overlap && block.txs >= MIN_OVERLAP;
        let sealed = self.chain(if beside { gathered } else { rooted }, &receipts, None);
        self.both(rooted, sealed)
    }

    /// Adds spans in sequence; `block` has the DAG of its wave. Returns the last task.
    fn chain(&mut self, mut from: u32, spans: &[Span], block: Option<&BlockCosts>) -> u32 {
        for span in spans {
            let ns = span.ns * (self.factor)(span.part);
            from = match block.filter(|_| span.part == Part::Wave) {
                Some(block) => self.wave(from, ns, block),
                None if span.pieces > 1 => self.fork(from, ns, span),
                None => {
                    let task = self.task(Place::Core, ns);
                    self.tasks.wait(task, from);
                    task
                }
            };
        }
        from
    }

    /// Calls all workers, which takes time if there are several.
    fn call(&mut self, from: u32, factor: f64) -> u32 {
        let task = self.task(Place::Core, if self.several { self.constants.call_ns * factor } else { 0.0 });
        self.tasks.wait(task, from);
        task
    }

    /// Forks a span into tasks; the calling core begins with one, and a core goes on with the next.
    fn fork(&mut self, from: u32, ns: f64, span: &Span) -> u32 {
        let called = self.call(from, (self.factor)(span.part));
        let pieces: Vec<u32> =
            (0..span.pieces).map(|_| self.tasks.add(Place::Core, SHARED, ns / span.pieces as f64)).collect();
        self.tasks.group(called, &pieces);
        let joined = self.task(Place::Core, 0.0);
        for piece in pieces {
            self.tasks.wait(piece, called);
            self.tasks.wait(joined, piece);
        }
        joined
    }

    fn wave(&mut self, from: u32, ns: f64, block: &BlockCosts) -> u32 {
        if !block.wide {
            // The driving thread does all of it without a call.
            let task = self.task(Place::Core, ns);
            self.tasks.wait(task, from);
            return task;
        }
        let factor = (self.factor)(Part::Wave);
        let called = self.call(from, factor);
        let dispatch = if self.several { self.constants.dispatch_ns * factor } else { 0.0 };
        let dag = &block.dag;
        // A worker prefers the transactions that it has released to other sources.
        let base = self.tasks.len();
        let mut ranks: Vec<u32> = (base..).take(dag.nodes()).collect();
        for (rank, source) in (base + dag.nodes() as u32..).zip(dag.sources()) {
            ranks[source.index()] = rank;
        }
        // Joins of a DAG have higher numbers than their successors, but tasks are added in dependency order: a join is added
        // before its first successor.
        let mut of_node = vec![u32::MAX; dag.nodes()];
        let mut waits: Vec<Vec<u32>> = vec![Vec::new(); dag.nodes()];
        let mut node = |node: usize, ns: f64| {
            let task = self.tasks.add_ranked(Place::Core, SHARED, ranks[node], ns);
            of_node[node] = task;
            let before = core::mem::take(&mut waits[node]);
            if before.is_empty() {
                self.tasks.wait(task, called);
            }
            before.into_iter().for_each(|before| self.tasks.wait(task, before));
            for next in dag.successors(node) {
                waits[*next as usize].push(task);
            }
        };
        let mut join = dag.len();
        for tx in 0..dag.len() {
            while join < dag.nodes() && dag.successors(join).first() == Some(&(tx as u32)) {
                node(join, 0.0);
                join += 1;
            }
            node(tx, ns * block.weights[tx] + dispatch);
        }
        let joined = self.task(Place::Core, 0.0);
        self.tasks.wait(joined, called);
        for node in of_node.into_iter().filter(|node| *node != u32::MAX) {
            self.tasks.wait(joined, node);
        }
        joined
    }
}

#[cfg(test)]
mod tests;
