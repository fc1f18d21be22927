//! Learns the storage layouts of tokens, from simulations of pending calls.

use super::{
    chunk::{BATCH_LEN, Chunk, Pending},
    paralyze::{Learned, ParaLyze},
};
use crate::{erc20, key::StateKey, simulate::Simulator, snapshot::Snapshot};
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::TxKind,
};

/// Maximum number of codes whose layout is kept; further codes are simulated. A bound on memory.
pub(super) const MAX_LAYOUTS: usize = 1 << 16;

/// Maximum number of simulations that show no layout, before the code counts as non-standard. A call that reverts early shows
/// none, so one is not enough: the first sender would decide for all.
pub(super) const MAX_FAILURES: u8 = 4;

impl ParaLyze {
    /// Simulates pending calls in order until each kind of call of each code has shown its layout, or has failed too often.
    pub(super) fn learn_layouts<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        chunks: &[Chunk],
    ) {
        let mut simulator = Simulator::new(snapshot, &self.cfg, env);
        for (p, chunk) in chunks.iter().enumerate() {
            for (index, why) in &chunk.pending {
                let Pending::Layout(code) = why else { continue };
                if chunk.is_doubtful(*index) {
                    continue;
                }
                let tx = txs[p * BATCH_LEN + index];
                let (TxKind::Call(token), Some(call)) = (tx.kind, erc20::decode(&tx.data)) else { continue };
                let known = self.layouts.get(code).copied().unwrap_or_default();
                let explained = known.layout.is_some_and(|layout| layout.explains(&call));
                if explained || known.failures >= MAX_FAILURES {
                    continue;
                }
                let set = simulator.simulate(tx).unwrap_or_default();
                let slot = |key: &StateKey| match key {
                    StateKey::Slot(owner, slot) if *owner == token => Some(*slot),
                    _ => None,
                };
                let touched: Vec<_> = set.as_slice().iter().filter_map(|(key, _)| slot(key)).collect();
                // Besides the slots, sender and token. A contract that touches more is no standard token.
                let standard = touched.len() <= call.slots() && set.as_slice().len() <= touched.len() + 2;
                let learned = match erc20::infer(call, tx.caller, &touched, known.layout) {
                    _ if !standard => Learned { failures: MAX_FAILURES, ..known },
                    Some(layout) => Learned { layout: Some(layout), ..known },
                    None => Learned { failures: known.failures + 1, ..known },
                };
                self.layouts.insert(*code, learned);
            }
        }
    }
}
