//! The machine of a model engine.

use super::{Costs, Disk, ModelEngine, Work, model_tx, weight};
use crate::{
    machine::{Batch, Machine, Sent, Workshop},
    rng::Rng,
    setup::{Behaviour, Setup},
};
use alloy_primitives::Bytes;
use phalanx_engine_api::{FatalCause, Limits};

/// Number of the simulated chain.
const CHAIN: u64 = 7;

/// A simulated disk under a [`ModelEngine`]. A batch is one transaction, named after it.
#[derive(Debug)]
pub struct ModelMachine {
    limits: Limits,
    costs: Costs,
    diverge_at: Option<u64>,
    disk: Disk,
}

impl ModelMachine {
    /// The machine of a node in a world, with an empty disk.
    #[must_use]
    pub fn new(index: u32, setup: &Setup) -> Self {
        let diverge_at = if let Behaviour::Diverge(height) = setup.behaviour(index) { Some(height) } else { None };
        Self { limits: setup.limits, costs: setup.costs, diverge_at, disk: Disk::default() }
    }

    /// Opens the engine.
    pub(crate) fn start(&mut self) -> ModelEngine {
        let engine = ModelEngine::open(CHAIN, self.limits, self.costs, core::mem::take(&mut self.disk));
        if let Some(height) = self.diverge_at {
            engine.diverge_at(height);
        }
        engine
    }
}

impl Workshop for ModelEngine {
    type Engine = Self;

    fn engine(&self) -> &Self {
        self
    }

    fn start(&self) -> Vec<Work> {
        self.start()
    }

    fn finish(&self, work: &Work) {
        self.finish(work);
    }
}

impl Machine for ModelMachine {
    type Workshop = ModelEngine;

    fn open(&mut self) -> Result<ModelEngine, FatalCause> {
        Ok(self.start())
    }

    /// A suffix of the unsynced data may be lost, and the last record may be torn.
    fn cut(&mut self, engine: ModelEngine, rng: &mut Rng) {
        self.disk = engine.unplug();
        let lost = rng.below(self.disk.unsynced() as u64 + 1) as usize;
        self.disk.power_cut(lost, rng.chance(500));
    }

    fn transactions(&mut self, _engine: &ModelEngine, sent: &Sent) -> Vec<Bytes> {
        match *sent {
            Sent::Batch(Batch { author, number, txs }) => {
                let mut name = author.to_be_bytes().to_vec();
                name.extend_from_slice(&number.to_be_bytes());
                vec![model_tx(txs, &name)]
            }
            Sent::Invented { author, view, parent, life, count } => {
                let name = |number: u32| {
                    let mut name = author.to_be_bytes().to_vec();
                    name.extend_from_slice(&view.to_be_bytes());
                    name.extend_from_slice(parent.0.as_slice());
                    name.extend_from_slice(&number.to_be_bytes());
                    name.extend_from_slice(&life.to_be_bytes());
                    name
                };
                (0..count).map(|number| model_tx(1, &name(number))).collect()
            }
            Sent::Instant { view, weight } => vec![model_tx(weight, &view.to_be_bytes())],
        }
    }

    fn batch_of(&self, tx: &Bytes) -> Option<Batch> {
        let number = |range: core::ops::Range<usize>| tx.get(range);
        let u32_at = |at: usize| number(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
        let tail = number(9..17).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes)?;
        Some(Batch { txs: u32_at(1)?, author: u32_at(5)?, number: tail })
    }

    fn weight(&self, tx: &Bytes) -> u64 {
        weight(tx)
    }
}
