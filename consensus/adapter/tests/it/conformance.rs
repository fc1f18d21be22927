//! The conformance kit on the model engine, the solo driver and the example.

use crate::subjects::{SequencerSubject, show};
use alloy_primitives::Bytes;
use phalanx_adapter::{
    Journal as _, MemoryJournal, Solo,
    conformance::{self, Machine, Subject},
};
use phalanx_engine_api::Limits;
use phalanx_sim::model::{Costs, Disk, ModelEngine, model_tx};
use std::sync::Arc;

/// A model engine with a power switch. Staged blocks that are not synced are lost.
#[derive(Default)]
pub(crate) struct Model {
    disk: Disk,
}

impl Machine for Model {
    type Engine = ModelEngine;

    fn open(&mut self) -> Arc<ModelEngine> {
        Arc::new(ModelEngine::open(1, Limits::default(), Costs::default(), self.disk.clone()))
    }

    fn settle(&self, engine: &ModelEngine) {
        engine.run();
    }

    fn crash(&mut self, engine: Arc<ModelEngine>) {
        self.disk = engine.unplug();
        self.disk.power_cut(self.disk.unsynced(), true);
    }

    fn wipe(&mut self) {
        self.disk = Disk::default();
    }

    fn tx(&self, content: u8, height: u64) -> Bytes {
        model_tx(1, &[content, height as u8])
    }
}

#[derive(Default)]
struct SoloSubject {
    journal: MemoryJournal,
}

impl Subject for SoloSubject {
    type Consensus = Solo<MemoryJournal>;

    fn open(&mut self) -> Self::Consensus {
        let mut solo = Solo::new(core::mem::take(&mut self.journal), 3_000);
        solo.send(model_tx(1, b"hello"));
        solo
    }

    fn crash(&mut self, consensus: Self::Consensus) {
        self.journal = consensus.into_journal();
        assert!(self.journal.last().is_some());
    }

    fn lose_from(&mut self, height: u64) {
        self.journal.lose_from(height);
    }

    fn wipe(&mut self) {
        self.journal = MemoryJournal::default();
    }
}

#[test]
fn the_model_engine_conforms() {
    show(&conformance::engine("model engine", &mut Model::default()));
}

#[test]
fn the_solo_driver_conforms() {
    show(&conformance::consensus("solo", &mut SoloSubject::default(), &mut Model::default()));
}

#[test]
fn the_example_conforms() {
    let mut sequencer = SequencerSubject::new(|offset, life| model_tx(1, &[offset as u8, life as u8]));
    show(&conformance::consensus("sequencer", &mut sequencer, &mut Model::default()));
}
