//! Observer of the engine's stages.

use super::families::{Seconds, with_unit};
use parking_lot::Mutex;
use phalanx::{Observer, Stage};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::family::Family,
    registry::{Registry, Unit},
};
use std::time::Instant;

/// Label of a stage of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    stage: &'static str,
}

/// Observer of the engine that counts the time of each stage.
#[derive(Debug)]
pub(crate) struct Stages {
    seconds: Family<OfStage, Seconds>,
    /// Begin of each stage that runs now.
    begun: Mutex<[Option<Instant>; Stage::ALL.len()]>,
}

impl Stages {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let what = "Time of the engine's stages, of all workers";
        Self { seconds: with_unit(registry, "engine_stage", what, Unit::Seconds), begun: Mutex::default() }
    }
}

impl Observer for Stages {
    fn enter(&self, stage: Stage) {
        self.begun.lock()[stage as usize] = Some(Instant::now());
    }

    fn leave(&self, stage: Stage) {
        if let Some(begun) = self.begun.lock()[stage as usize].take() {
            let (label, took) = (OfStage { stage: stage.name() }, begun.elapsed());
            self.seconds.get_or_create(&label).inc_by(took.as_secs_f64());
            tracing::trace!(target: "phalanx_node::stage", stage = stage.name(), us = took.as_micros() as u64);
        }
    }
}
