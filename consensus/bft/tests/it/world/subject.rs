//! Protocols that live in a world, its parameters, and the lies of its traitors.

use alloy_primitives::B256;
use phalanx_bft::{Batch, Domain, Index, Micros, Protocol, Quorums, Slot, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Vote of a replica: kind, view, slot, digest.
pub(crate) type Vote = (u8, View, Slot, B256);

/// A protocol that lives in these worlds.
pub(crate) trait Subject: Protocol<Msg: PartialEq> {
    fn quorums(config: &Self::Config) -> Quorums;
    fn domain(config: &Self::Config) -> Domain;
    /// The digest decided in a slot of the window.
    fn decision(&self, slot: Slot) -> Option<B256>;
    fn stable(&self) -> Slot;
    fn decided(&self) -> Slot;
    fn is_active(&self) -> bool;
    fn is_in_flight(&self, digest: B256) -> bool;
    /// The vote in a message: a replica never has two of one kind, view and slot. Those of kind 2 lock a batch.
    fn vote(message: &Self::Msg) -> Option<Vote>;
    /// Returns true if the record makes the order vote of kind 2 durable; without a digest, any.
    fn locks(record: &Self::Record, view: View, slot: Slot, digest: Option<B256>) -> bool;
    /// Messages that a traitor sends instead: different proposals, contradictory votes, invented reports.
    fn betray(me: Index, message: &Self::Msg, lie: Lie, domain: Domain) -> Vec<Self::Msg>;
}

/// Random choices of a traitor.
#[derive(Clone, Debug)]
pub(crate) struct Lie {
    /// Batch that it would rather have, and a digest, of this batch or null.
    pub(crate) batch: Batch,
    pub(crate) digest: B256,
    /// Two numbers.
    pub(crate) random: [u64; 2],
}

/// Parameters of a world.
#[derive(Debug)]
pub(crate) struct Conditions<P: Subject> {
    pub(crate) config: Arc<P::Config>,
    pub(crate) seed: u64,
    /// Delay of every link in one direction.
    pub(crate) delay: Micros,
    /// Additional delay of all that a replica sends.
    pub(crate) far: BTreeMap<Index, Micros>,
    /// Random addition to it, at most.
    pub(crate) jitter: Micros,
    /// Messages lost and doubled, in per mille.
    pub(crate) lost: u32,
    pub(crate) doubled: u32,
    /// Time until a record is durable.
    pub(crate) persist: Micros,
    /// Time to execute a slot.
    pub(crate) execute: Micros,
    /// Replicas that never speak.
    pub(crate) silent: BTreeSet<Index>,
    /// Replicas that lie.
    pub(crate) traitors: BTreeSet<Index>,
}

impl<P: Subject> Conditions<P> {
    pub(crate) fn new(config: P::Config) -> Self {
        Self {
            config: Arc::new(config),
            seed: 0,
            delay: 1_000,
            far: BTreeMap::new(),
            jitter: 0,
            lost: 0,
            doubled: 0,
            persist: 0,
            execute: 0,
            silent: BTreeSet::new(),
            traitors: BTreeSet::new(),
        }
    }
}
