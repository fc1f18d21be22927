//! Facts about a world that no fault may contradict, and figures that its tests read.

use alloy_primitives::B256;
use phalanx_bft::{Index, Micros, Slot};
use std::collections::BTreeMap;

/// Checks that hold over all replicas and times.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) decided: BTreeMap<Slot, B256>,
    pub(super) outcomes: BTreeMap<Slot, B256>,
    pub(super) votes: BTreeMap<(Index, u8, u64, Slot), B256>,
    pub(crate) order_votes: usize,
    /// Time of the first and the last decision of each slot by a correct replica.
    pub(crate) times: BTreeMap<Slot, (Micros, Micros, usize)>,
    /// Time of the first certificate that clients of a slot get, and the number of them.
    pub(crate) answers: BTreeMap<Slot, (Micros, usize)>,
    pub(crate) evidence: usize,
    pub(crate) violation: Option<String>,
}

impl Ledger {
    pub(super) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(what());
        }
    }
}
