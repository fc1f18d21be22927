//! Parameters of a world.

use crate::links::Links;
use phalanx_bft::{Index, Micros};
use std::{collections::BTreeSet, sync::Arc};

/// Parameters of a world: constants of its protocol, links, disks, and faulty replicas.
#[derive(Clone, Debug)]
pub struct Conditions<C> {
    /// Constants of the protocol.
    pub config: Arc<C>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Links between replicas.
    pub links: Links,
    /// Time until a record is durable.
    pub persist: Micros,
    /// Time to execute a slot.
    pub execute: Micros,
    /// Replicas that send nothing.
    pub silent: BTreeSet<Index>,
    /// Replicas that lie.
    pub traitors: BTreeSet<Index>,
}

impl<C> Conditions<C> {
    /// A millisecond between correct replicas, and everything else at once.
    pub fn new(config: C) -> Self {
        Self {
            config: Arc::new(config),
            seed: 0,
            links: Links::default(),
            persist: 0,
            execute: 0,
            silent: BTreeSet::new(),
            traitors: BTreeSet::new(),
        }
    }
}
