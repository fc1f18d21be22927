//! The kit detects broken engines.

use crate::conformance::Model;
use alloy_primitives::Bytes;
use phalanx_adapter::conformance::{self, Machine};
use phalanx_sim::model::ModelEngine;
use std::sync::Arc;

/// An engine that computes wrong roots after a restart.
#[derive(Default)]
struct Changed {
    model: Model,
    restarted: bool,
}

impl Machine for Changed {
    type Engine = ModelEngine;

    fn open(&mut self) -> Arc<ModelEngine> {
        let engine = self.model.open();
        if core::mem::take(&mut self.restarted) {
            engine.diverge_at(11);
        }
        engine
    }

    fn settle(&self, engine: &ModelEngine) {
        self.model.settle(engine);
    }

    fn crash(&mut self, engine: Arc<ModelEngine>) {
        self.model.crash(engine);
        self.restarted = true;
    }

    fn wipe(&mut self) {
        self.model.wipe();
    }

    fn tx(&self, content: u8, height: u64) -> Bytes {
        self.model.tx(content, height)
    }
}

#[test]
fn an_engine_with_wrong_roots_after_a_restart_is_detected() {
    let report = conformance::engine("changed", &mut Changed::default());
    let failed: Vec<_> =
        report.cases.iter().filter(|case| case.failure.is_some()).map(|case| case.name.as_str()).collect();
    assert_eq!(failed, ["consensus goes on after the engine lost power"], "{report}");
}
