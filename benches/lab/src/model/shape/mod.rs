//! How the engine's stages hang together, as tasks: what waits for what in `Engine::execute_and_plan` and around it.
//!
//! ```text
//!            ┌─ plan k+1: analyse ═ frame ─ .. ─ intern ─ graph ─┐
//!  start k ──┤                                    ┌─ merkle ═ ─┐ ├── apply k ═ ── keep k ═ ── start k+1
//!            └─ load ═ wave (DAG) ═ or ─ gather ═ ┤            ├─┘      └─ write k (writer), bytes k (disk)
//!                                                 └─ seal ═ ───┘
//!  ═ on all cores, ─ on one
//! ```
//!
//! Where k+1 was framed before, its plan frames k+2 beside `intern` and `graph`, and analyses a chunk beside the framing of
//! the one before.
//!
//! Blocks of fewer than [`MIN_OVERLAP`] transactions take the two sides of a fork one after the other; so does every block
//! without overlap, which then plans the next one once it has moved the state.

use super::replay::{Place, Tasks};
use phalanx::{MIN_OVERLAP, Width, interns_in_shards, parascheduler::Dag};

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

    /// What keeps cores waiting by the same name: interning, whichever way it goes.
    pub(super) const fn cause(self) -> Self {
        if matches!(self, Self::Intern) { Self::InternAlone } else { self }
    }

    const fn is_receipts(self) -> bool {
        matches!(self, Self::Seal | Self::SealAlone)
    }

    const fn is_root(self) -> bool {
        matches!(self, Self::Merkle | Self::MerkleAlone)
    }

    /// Whether it is no core's work.
    pub(super) const fn is_bandwidth(self) -> bool {
        matches!(self, Self::Memory | Self::Disk)
    }
}

/// A stretch of work that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) part: Part,
    /// Of one core.
    pub(crate) ns: f64,
    /// Into how many tasks it falls; one thread does one.
    pub(crate) pieces: usize,
}

/// A block as it was measured on one thread.
#[derive(Debug)]
pub(crate) struct BlockCosts {
    /// What planned it.
    pub(crate) plan: Vec<Span>,
    /// What plans it where there are so many workers that they share interning.
    pub(crate) plan_of_many: Vec<Span>,
    /// From its keys to its root.
    pub(crate) run: Vec<Span>,
    /// The state's move.
    pub(crate) apply: Vec<Span>,
    /// The benchmark's notes.
    pub(crate) keep: Vec<Span>,
    /// Its sources are in the order in which several workers begin with them, if that matters.
    pub(crate) dag: Dag,
    /// How many workers its wave has, where there are several.
    pub(crate) width: Width,
    /// Shares of the wave by transaction, which add up to one.
    pub(crate) weights: Vec<f64>,
    /// Transactions that were to run, and that did not leave it.
    pub(crate) planned: usize,
    pub(crate) txs: usize,
}

impl BlockCosts {
    /// What plans it with so many workers.
    pub(crate) fn plan(&self, workers: usize) -> &[Span] {
        if interns_in_shards(workers, self.planned) { &self.plan_of_many } else { &self.plan }
    }

    /// All that was measured of it on one thread that goes its own way.
    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        [&self.plan, &self.run, &self.apply, &self.keep].into_iter().flatten()
    }
}

/// What is the same for all blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Constants {
    /// How much longer all work takes beside another core's: of caches, memory, clock rates, perhaps the core itself.
    pub(crate) crowding: f64,
    /// Of the writer and the kernel, per transaction.
    pub(crate) write_ns: f64,
    /// What several workers add to a transaction: counting down, stealing, gathering.
    pub(crate) dispatch_ns: f64,
    /// What it takes to call all workers together once.
    pub(crate) call_ns: f64,
    /// Per transaction, from or to main memory, over the machine's bytes per nanosecond.
    pub(crate) memory_ns: f64,
    /// The same of the disk.
    pub(crate) disk_ns: f64,
    /// Planning runs beside execution, and receipts are sealed beside the root, in blocks that are large enough.
    pub(crate) overlap: bool,
}

/// Of a machine on which nothing but the work itself takes time, for tests.
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

/// Blocks that the writer may be behind, the one in its hands included.
const BEHIND: usize = 3;
/// Tasks that the writer's work on a block is cut into where it takes turns with workers: a kernel would switch that often.
const WRITES: usize = 8;

/// Urgency of work that one thread does and others wait for, and of work that many share.
const ALONE: u8 = 0;
const SHARED: u8 = 1;

/// The tasks of all blocks for so many workers. `factor` scales a part's cost.
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

    /// A task of a server, behind the same server's last one and `after`.
    fn bandwidth(&mut self, place: Place, block: &BlockCosts, part: Part, ns: f64, last: u32, after: u32) -> u32 {
        let task = self.task(place, ns * block.txs as f64 * (self.factor)(part));
        self.tasks.wait(task, last);
        self.tasks.wait(task, after);
        task
    }

    /// A block from its transactions to its graph, and what is framed of the one after it: meanwhile, if there are many
    /// workers, and behind it if there are few.
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
            // One thread framed, and analysed the next chunk thereafter.
            let frames = span.part == Part::Frame;
            let beside = rest.iter().take_while(|next| frames && next.part == Part::Analyse).count();
            let (analysis, rest) = rest.split_at(beside);
            let analysed = self.chain(stocked, analysis, None);
            (stocked, ahead) = (self.both(done, analysed), rest);
        }
        self.both(stocked, assembled)
    }

    /// When both are done.
    fn both(&mut self, one: u32, other: u32) -> u32 {
        let joined = self.task(Place::Core, 0.0);
        self.tasks.wait(joined, one);
        self.tasks.wait(joined, other);
        joined
    }

    /// A block from its keys to its root.
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

    /// Spans one after the other; `block` has the DAG of its wave. Gives the last task.
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

    /// What all workers are called to, which takes a moment where there are several.
    fn call(&mut self, from: u32, factor: f64) -> u32 {
        let task = self.task(Place::Core, if self.several { self.constants.call_ns * factor } else { 0.0 });
        self.tasks.wait(task, from);
        task
    }

    /// Whoever calls the others begins with the pieces, and who has one goes on with the next.
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
        if block.width == Width::One {
            // The thread that drives the block does all of it, and calls nobody.
            let task = self.task(Place::Core, ns);
            self.tasks.wait(task, from);
            return task;
        }
        let factor = (self.factor)(Part::Wave);
        let called = self.call(from, factor);
        let dispatch = if self.several { self.constants.dispatch_ns * factor } else { 0.0 };
        let dag = &block.dag;
        // A worker goes on with what it has made ready, and only then begins with a transaction that waits for none.
        let base = self.tasks.len();
        let mut ranks: Vec<u32> = (base..).take(dag.nodes()).collect();
        for (rank, source) in (base + dag.nodes() as u32..).zip(dag.sources()) {
            ranks[source.index()] = rank;
        }
        // A DAG's joins have higher numbers than the transactions behind them, and tasks come in order of waiting: a join is
        // added before the first transaction that it leads to.
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
