//! Builds conflict graphs: one pass over a block's access sets, then a counting sort of the edges.

use crate::dag::{Dag, NONE, Span, TxIndex};
use phalanx_access::{Access, AccessSets, KeyId};

/// Builds one [`Dag`] per block and keeps its tables for the next.
///
/// The builder passes once, in block order, over a table with one slot per key. A slot holds the last group of commuting
/// accesses (one writer, or readers, or credits) and the node which that group waits for. A later access needs no more. Then
/// one counting sort puts the edges in order of their origin.
#[derive(Debug, Default)]
pub struct DagBuilder {
    slots: Vec<Slot>,
    members: Vec<Member>,
    edges: Vec<Edge>,
    nodes: Vec<Node>,
}

/// Last accesses of one key.
#[derive(Clone, Copy, Debug)]
struct Slot {
    group: Group,
    /// The node that every member of the group waits for, or [`NONE`]. Meaningless for a writer: no access enters its group.
    before: u32,
}

/// A group of accesses that commute, packed. Bits 0-1 are the kind (zero: no access yet). Bit 2 is set if the rest is the newest
/// [`Member`] of a list, and clear if it is the only transaction. Eight bytes per slot keep 100,000 keys in a core's L2.
#[derive(Clone, Copy, Debug)]
struct Group(u32);

/// An access of a group with several members. `next` is the member before it, or [`NONE`].
#[derive(Clone, Copy, Debug)]
struct Member {
    tx: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: u32,
    to: u32,
}

/// State of a node while edges are collected.
#[derive(Clone, Copy, Debug)]
struct Node {
    outdegree: u32,
    /// The newest transaction with an edge from here. Transactions are entered one after the other, so a comparison with it
    /// drops every duplicate.
    last: u32,
}

const EMPTY: Slot = Slot { group: Group(0), before: NONE };
const ISOLATED: Node = Node { outdegree: 0, last: NONE };

/// Maximum number of accesses in a block: indices fit the packing of [`Group`], and node numbers stay below the poison bit.
const MAX_ACCESSES: usize = 1 << 28;

impl Group {
    const KIND: u32 = 0b011;
    const LIST: u32 = 0b100;
    const SHIFT: u32 = 3;

    const fn single(tx: u32, kind: Access) -> Self {
        Self((tx << Self::SHIFT) | kind as u32)
    }

    const fn list(head: u32, kind: Access) -> Self {
        Self((head << Self::SHIFT) | Self::LIST | kind as u32)
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn is_list(self) -> bool {
        self.0 & Self::LIST != 0
    }

    const fn is(self, kind: Access) -> bool {
        self.0 & Self::KIND == kind as u32
    }

    /// Number of the only transaction, or index of the newest member.
    const fn index(self) -> u32 {
        self.0 >> Self::SHIFT
    }
}

impl Dag {
    /// Builds the graph of one block. [`DagBuilder`] does the same for many blocks without allocating.
    ///
    /// # Panics
    /// As [`DagBuilder::build`].
    pub fn build(sets: &AccessSets<KeyId>, n_keys: usize) -> Self {
        let mut dag = Self::default();
        DagBuilder::new().build(sets, n_keys, &mut dag);
        dag
    }
}

impl DagBuilder {
    /// Creates a builder with empty tables.
    pub const fn new() -> Self {
        Self { slots: Vec::new(), members: Vec::new(), edges: Vec::new(), nodes: Vec::new() }
    }

    /// Replaces `dag` by the graph of a block whose transactions, in order, have the access sets `sets`. O(accesses + keys).
    ///
    /// A set that names a key twice, against the invariant of [`AccessSets`], counts as the join of both accesses.
    ///
    /// # Panics
    /// If a key id is not below `n_keys`, or if there are 2^28 transactions or accesses or more.
    pub fn build(&mut self, sets: &AccessSets<KeyId>, n_keys: usize, dag: &mut Dag) {
        let transactions = sets.len();
        assert!(transactions < MAX_ACCESSES && sets.entries().len() < MAX_ACCESSES, "fewer than 2^28 accesses");
        refill(&mut self.slots, n_keys, EMPTY);
        refill(&mut self.nodes, transactions, ISOLATED);
        refill(&mut dag.indegree, transactions, 0);
        self.members.clear();
        self.edges.clear();
        dag.sources.clear();
        dag.ranked = false;
        dag.transactions = transactions;

        for (tx, set) in (0..).zip(sets.iter()) {
            let mut waits = 0;
            for (key, access) in set {
                waits += self.access(tx, *key, *access, &mut dag.indegree);
            }
            dag.indegree[tx as usize] = waits;
            if waits == 0 {
                dag.sources.push(TxIndex(tx));
            }
        }
        sort_by_origin(&self.nodes, &self.edges, dag);
    }

    /// Enters one access and returns the number of edges to `tx` that it added.
    ///
    /// This is where two transactions of a block conflict: [`Access::conflicts`], as a comparison with the key's newest group.
    #[inline]
    fn access(&mut self, tx: u32, key: KeyId, kind: Access, indegree: &mut Vec<u32>) -> u32 {
        let slot = self.slots[key.index()];
        if slot.group.is_empty() {
            self.slots[key.index()].group = Group::single(tx, kind);
            return 0;
        }
        if self.newest(slot.group) == tx {
            return self.access_again(tx, key, kind);
        }
        if slot.group.is(kind) && !matches!(kind, Access::Write) {
            self.slots[key.index()].group = self.enter(slot.group, tx, kind);
            return if slot.before == NONE { 0 } else { self.edge(slot.before, tx) };
        }
        // The kind changes, or one write follows another: a new group begins, and `tx` waits for all of the old one.
        let (before, waits) = if !slot.group.is_list() {
            let only = slot.group.index();
            (only, self.edge(only, tx))
        } else if matches!(kind, Access::Write) {
            (NONE, self.edges_from(slot.group, tx))
        } else {
            // More of the same kind may follow and each would need an edge from each old member.
            let join = self.nodes.len() as u32;
            self.nodes.push(ISOLATED);
            indegree.push(self.edges_to_join(slot.group, join));
            (join, self.edge(join, tx))
        };
        self.slots[key.index()] = Slot { group: Group::single(tx, kind), before };
        waits
    }

    /// Enters a second access of `tx`, the newest member of the key's group.
    #[cold]
    fn access_again(&mut self, tx: u32, key: KeyId, kind: Access) -> u32 {
        let group = self.slots[key.index()].group;
        if group.is(kind) {
            return 0;
        }
        // Both accesses together are a write: `tx` leaves its group and waits for the members that stay behind.
        self.slots[key.index()].group = Group::single(tx, Access::Write);
        if group.is_list() { self.edges_from(group, tx) } else { 0 }
    }

    fn newest(&self, group: Group) -> u32 {
        if group.is_list() { self.members[group.index() as usize].tx } else { group.index() }
    }

    /// Adds a member to a group.
    fn enter(&mut self, group: Group, tx: u32, kind: Access) -> Group {
        let next = if group.is_list() {
            group.index()
        } else {
            self.members.push(Member { tx: group.index(), next: NONE });
            self.members.len() as u32 - 1
        };
        self.members.push(Member { tx, next });
        Group::list(self.members.len() as u32 - 1, kind)
    }

    /// Adds edges from all members of a list but `to` itself to a transaction, and returns the number of new ones.
    fn edges_from(&mut self, group: Group, to: u32) -> u32 {
        let mut added = 0;
        let mut at = group.index();
        while at != NONE {
            let Member { tx, next } = self.members[at as usize];
            if tx != to {
                added += self.edge(tx, to);
            }
            at = next;
        }
        added
    }

    /// Adds edges from all members of a list to a new join, and returns their number. None is a duplicate. [`Node::last`] does
    /// not change: through another key a member may have an edge to the transaction that is being entered.
    fn edges_to_join(&mut self, group: Group, join: u32) -> u32 {
        let mut added = 0;
        let mut at = group.index();
        while at != NONE {
            let Member { tx, next } = self.members[at as usize];
            self.nodes[tx as usize].outdegree += 1;
            self.edges.push(Edge { from: tx, to: join });
            added += 1;
            at = next;
        }
        added
    }

    /// Adds an edge to a transaction unless there is one, and returns the number of added edges.
    #[inline]
    fn edge(&mut self, from: u32, to: u32) -> u32 {
        let node = &mut self.nodes[from as usize];
        if node.last == to {
            return 0;
        }
        node.last = to;
        node.outdegree += 1;
        self.edges.push(Edge { from, to });
        1
    }
}

fn refill<T: Copy>(buffer: &mut Vec<T>, len: usize, value: T) {
    buffer.clear();
    buffer.resize(len, value);
}

/// Sorts the edges by origin, with a counting sort. Stable, so successors stay in the order in which they were found.
fn sort_by_origin(nodes: &[Node], edges: &[Edge], dag: &mut Dag) {
    // `spans[i + 1].begin` starts as the begin of node i's successors and has become their end when all are placed.
    let at = |begin| Span { begin, first: NONE };
    dag.spans.clear();
    dag.spans.push(at(0));
    let mut begin = 0;
    dag.spans.extend(nodes.iter().map(|node| {
        let span = at(begin);
        begin += node.outdegree;
        span
    }));
    refill(&mut dag.succ, edges.len(), 0);
    for Edge { from, to } in edges {
        let from = *from as usize;
        let [node, end] = &mut dag.spans[from..from + 2] else { unreachable!("two were asked for") };
        if node.first == NONE {
            node.first = *to;
        }
        dag.succ[end.begin as usize] = *to;
        end.begin += 1;
    }
}
