//! Members of a cluster's epochs: proofs of where an epoch ends, kept durably, found at others, and the log that passes.

use super::{Event, Net, Setup};
use phalanx_bft::{Index, Micros};
use phalanx_host::{Boundary, HostRecord};
use phalanx_keys::Simulated;
use phalanx_world::Facts;

/// Time between two looks for the next epoch.
pub(super) const LOOK: Micros = 20_000;

impl Setup {
    /// Members of an epoch, by index.
    pub(crate) fn members(&self, epoch: u64) -> Vec<usize> {
        match epoch.checked_sub(1) {
            None => (0..self.n).collect(),
            Some(later) => self.epochs.get(later as usize).cloned().unwrap_or_default(),
        }
    }

    /// Index of a node in an epoch that it is a member of.
    pub(super) fn index(&self, epoch: u64, node: usize) -> Option<Index> {
        self.members(epoch).iter().position(|member| *member == node).map(|index| Index(index as u16))
    }
}

impl<P: Facts> Net<P> {
    /// Block that an epoch begins above, as far as any node knows.
    pub(crate) fn boundary(&self, epoch: u64) -> Option<Boundary> {
        self.machines.iter().find_map(|machine| machine.kept.get(&epoch)).cloned()
    }

    /// Height that an epoch begins above, as far as any node knows.
    pub(crate) fn begins(&self, epoch: u64) -> Option<u64> {
        self.boundary(epoch).map(|boundary| boundary.slot())
    }

    /// Epoch that a node is in.
    pub(crate) fn epoch(&self, node: usize) -> u64 {
        self.machines[node].at
    }

    /// Gives a node that is down the log of the newest epoch that it knows. Returns its index there, `None` if it is no member.
    pub(super) fn pass(&mut self, node: usize) -> Option<Index> {
        let machine = &mut self.machines[node];
        if let Some((epoch, boundary)) = machine.kept.last_key_value().filter(|(epoch, _)| **epoch > machine.at) {
            (machine.at, machine.log) = (*epoch, HostRecord::pass(boundary, core::mem::take(&mut machine.log)));
        }
        self.setup.index(machine.at, node)
    }

    /// Lets a node find the proof that its epoch is over at another, and start anew with it.
    pub(super) fn look(&mut self, node: usize) {
        let (at, other) = (self.machines[node].at, self.random(self.machines.len() as u64) as usize);
        let found = self.machines[other].kept.get(&(at + 1)).cloned();
        if let Some(boundary) = found.filter(|_| self.links.connected(node, other)) {
            let scheme = Simulated::new(Index(0), 64);
            boundary.check(&self.config(node), &scheme).expect("a quorum has signed it");
            self.keep(node, boundary);
        }
        self.queue.after(LOOK, Event::Look(node));
    }

    /// Keeps the proof that a node's epoch is over, durably, and ends the node; the power may go before or behind it.
    pub(super) fn keep(&mut self, node: usize, boundary: Boundary) {
        if self.random(8) == 0 && self.machines[node].node.is_some() {
            return self.crash(node, 3_000);
        }
        self.machines[node].kept.insert(boundary.change.epoch, boundary);
        let pause = self.random(3) * 1_000;
        // One that is no member yet is not up.
        match self.setup.index(self.machines[node].at, node) {
            Some(_) => self.crash(node, pause),
            None => self.queue.after(pause, Event::Restart(node)),
        }
    }
}
