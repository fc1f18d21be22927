//! A transfer of decided blocks from other replicas: what has come, from whom, and who was left.

use alloy_primitives::Bytes;
use phalanx_bft::{Base, Batch, Index, Micros, Quorums, ReplicaSet, Slot};

/// Patience with a peer that sends nothing, in repetitions. It doubles with each peer that is left, up to a bound, so that slow links
/// are given the time that an answer takes on them.
const PATIENCE: Micros = 4;
const MOST_PATIENCE: Micros = 256;

/// The transfer in progress, and what comes next.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    pub(crate) transfer: Option<Transfer>,
    /// Checkpoint that was wanted while a transfer was in progress.
    pub(crate) wanted: Option<(Base, Bytes)>,
    /// Peer that requests for decided blocks go to.
    pub(crate) peer: Index,
}

impl CatchUp {
    /// Goes on to the next peer.
    pub(crate) fn turn(&mut self, me: Index, n: usize) {
        let next = |Index(peer)| Index((peer + 1) % n as u16);
        self.peer = next(self.peer);
        if self.peer == me {
            self.peer = next(self.peer);
        }
    }
}

/// A transfer of decided blocks in progress.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Checkpoint that the blocks lead to, and what proves it.
    pub(crate) base: Base,
    pub(crate) proof: Bytes,
    /// Blocks from this slot on that are not checked yet, and their length in bytes.
    first: Slot,
    pub(crate) blocks: Vec<Option<Batch>>,
    pub(crate) bytes: usize,
    pub(crate) patience: Micros,
    /// True if the same question was repeated: an answer may be lost, or be more than a peer sends within a period.
    pub(crate) repeated: bool,
    /// Peers that were left, and those among them that have pruned what is wanted.
    left: ReplicaSet,
    pub(crate) pruned: ReplicaSet,
}

impl Transfer {
    pub(crate) fn new(base: Base, proof: Bytes, first: Slot) -> Self {
        let (left, pruned) = (ReplicaSet::default(), ReplicaSet::default());
        Self { base, proof, first, blocks: Vec::new(), bytes: 0, patience: PATIENCE, repeated: false, left, pruned }
    }

    /// The slot that comes next.
    pub(crate) const fn next(&self) -> Slot {
        self.first + self.blocks.len() as u64
    }

    /// Begins anew, at another peer.
    pub(crate) fn restart(&mut self, first: Slot) {
        (self.first, self.blocks, self.bytes, self.repeated) = (first, Vec::new(), 0, false);
    }

    /// Has more patience with the next peer.
    pub(crate) fn grow_patience(&mut self) {
        self.patience = (2 * self.patience).min(MOST_PATIENCE);
    }

    /// Notes that a peer was left. Returns true once all were left, and f+1 of them have pruned what is wanted, one of which is correct: no
    /// peer is known to have it.
    pub(crate) fn leave(&mut self, peer: Index, quorums: Quorums) -> bool {
        self.left.insert(peer);
        if self.left.len() < quorums.n() - 1 {
            return false;
        }
        self.left = ReplicaSet::default();
        core::mem::take(&mut self.pruned).len() >= quorums.one_correct()
    }

    /// Takes the next blocks, of this length together.
    pub(crate) fn extend(&mut self, contents: Vec<Option<Batch>>, bytes: usize) {
        self.repeated = false;
        self.bytes += bytes;
        self.blocks.extend(contents);
    }

    /// Drops blocks up to this slot: the protocol has decided them meanwhile.
    pub(crate) fn drop_decided(&mut self, decided: Slot) {
        let known = (decided + 1).saturating_sub(self.first) as usize;
        let known = self.blocks.drain(..known.min(self.blocks.len()));
        self.bytes -= known.flatten().map(|batch| batch.bytes()).sum::<usize>();
        self.first = self.first.max(decided + 1);
    }
}
