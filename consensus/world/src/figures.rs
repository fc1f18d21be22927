//! Figures of a world: progress of its replicas.

use crate::{facts::Facts, world::World};
use alloy_primitives::Bytes;
use phalanx_bft::Slot;
use std::{collections::BTreeSet, fmt};

impl<P: Facts> World<P> {
    /// A replica, `None` while its power is cut.
    #[must_use]
    pub fn replica(&self, node: usize) -> Option<&P> {
        self.nodes[node].protocol.as_ref()
    }

    /// A replica that is up.
    ///
    /// # Panics
    /// If its power is cut.
    #[must_use]
    pub fn up(&self, node: usize) -> &P {
        self.replica(node).expect("the power of this replica is on")
    }

    /// Records that a restart of a replica reads.
    #[must_use]
    pub fn log(&self, node: usize) -> &[P::Record] {
        &self.nodes[node].durable
    }

    /// Replaces a replica's log by the journal of its state.
    pub fn compact(&mut self, node: usize) {
        self.nodes[node].compact();
    }

    /// Last slot that a replica has executed.
    #[must_use]
    pub fn executed_slot(&self, node: usize) -> Slot {
        self.nodes[node].base().slot
    }

    /// Transactions that a replica has executed.
    #[must_use]
    pub fn transactions(&self, node: usize) -> BTreeSet<Bytes> {
        let batches = self.nodes[node].contents.values().flatten();
        batches.flat_map(|batch| batch.transactions().iter().cloned()).collect()
    }

    /// Batches that wait at a replica.
    #[must_use]
    pub fn waiting(&self, node: usize) -> usize {
        self.nodes[node].pool.len()
    }

    /// Replicas that neither lie nor are silent.
    pub fn correct(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|node| self.is_correct(*node))
    }

    /// Batches that some correct replica has not executed.
    #[must_use]
    pub fn unexecuted(&self) -> usize {
        let of = |node| if self.replica(node).is_some() { self.waiting(node) } else { usize::MAX };
        self.correct().map(of).max().unwrap_or(0)
    }

    /// Lowest executed slot of all correct replicas.
    #[must_use]
    pub fn height(&self) -> Slot {
        self.correct().map(|node| self.executed_slot(node)).min().unwrap_or(0)
    }

    /// Progress of each replica, for failures.
    #[must_use]
    pub fn describe(&self) -> String {
        let (traitors, silent) = (&self.setup.traitors, &self.setup.silent);
        let mut text = format!("at {} µs, traitors {traitors:?}, silent {silent:?}\n", self.now());
        for (node, state) in self.nodes.iter().enumerate() {
            let Some(protocol) = &state.protocol else { continue };
            text += &format!(
                "{node}: view {} active {} stable {} decided {} executed {} pool {} room {}\n",
                protocol.view(),
                protocol.is_active(),
                protocol.stable(),
                protocol.decided(),
                state.base().slot,
                state.pool.len(),
                protocol.room(),
            );
        }
        text
    }
}

impl<P: Facts> fmt::Debug for World<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}
