//! Subjects and limits that the model engine and the real engine share.

use super::sequencer::{Log, Sequencer};
use alloy_primitives::Bytes;
use phalanx_adapter::conformance::{ConformanceReport, Subject};

/// Number of batches that arrive while a node is up.
const BATCHES: u64 = 20;

/// The sequencer example, on a log whose entries hold one transaction each.
pub(crate) struct SequencerSubject<T> {
    log: Log,
    /// Makes the transaction of an entry from the life it was appended in, so that entries after a loss may differ.
    tx: T,
    lives: u64,
}

impl<T: Fn(u64, u64) -> Bytes> SequencerSubject<T> {
    pub(crate) fn new(tx: T) -> Self {
        Self { log: Log::default(), tx, lives: 0 }
    }
}

impl<T: Fn(u64, u64) -> Bytes> Subject for SequencerSubject<T> {
    type Consensus = Sequencer;

    fn open(&mut self) -> Sequencer {
        let sequencer = Sequencer::new(self.log.clone());
        let ordered = (0..).take_while(|offset| self.log.read(*offset).is_some()).count() as u64;
        (ordered..ordered + BATCHES).for_each(|offset| self.log.append(vec![(self.tx)(offset, self.lives)]));
        self.lives += 1;
        sequencer
    }

    fn crash(&mut self, _consensus: Sequencer) {}

    fn lose_from(&mut self, height: u64) {
        let kept = Log::default();
        (0..height - 1).filter_map(|offset| self.log.read(offset)).for_each(|batch| kept.append(batch));
        self.log = kept;
    }

    fn wipe(&mut self) {
        self.log = Log::default();
    }
}

/// Prints a report that must have passed.
pub(crate) fn show(report: &ConformanceReport) {
    println!("{report}");
    assert!(report.passed(), "{report}");
}
