//! Escaped transactions, until another block or batch has taken them: shared by planner and builder.
//!
//! An escaped transaction opens the next block, with a new prediction. A transaction that escapes too often is deferred
//! to the serial tail, where it needs none.

use phalanx_paralyze::{Batch, ParaLyze, Snapshot, may_run_dry};
use rayon::prelude::*;
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::{
        Address,
        map::{AddressSet, HashMap},
    },
};
use std::collections::VecDeque;

/// Number of escapes, of its own or with a transaction that it depends on, after which a transaction is deferred to the
/// serial tail. It bounds how often one sender can delay others.
pub(crate) const MAX_ESCAPES: u8 = 2;

/// Divisor of a block's gas that runs may use which are followed because transactions escaped. Following costs four times the
/// execution.
pub(crate) const TAUGHT_SHARE: u64 = 16;

/// A transaction that has escaped.
#[derive(Debug, Default)]
pub(crate) struct Escaped {
    /// Number of escapes.
    pub(crate) escapes: u8,
    /// Number of the block that it is planned in.
    pub(crate) planned_in: Option<u64>,
    /// New prediction; empty until it is simulated, and where the first prediction was right.
    pub(crate) prediction: Batch,
}

/// Transactions ahead of all framed ones, in order, and the records of escaped ones.
#[derive(Debug, Default)]
pub(crate) struct Requeue {
    pub(crate) waiting: VecDeque<u32>,
    /// Records of escaped transactions, kept until it is known that the transaction stayed in a block.
    pub(crate) escaped: HashMap<u32, Escaped>,
}

impl Requeue {
    /// Counts an escape of `tx`.
    pub(crate) fn note_escape(&mut self, tx: u32) -> &mut Escaped {
        let escaped = self.escaped.entry(tx).or_default();
        escaped.escapes += 1;
        escaped.planned_in = None;
        escaped
    }

    /// Predicts escaped transactions of `order` by simulation on `snapshot`, in the current rayon pool. Later ones of a sender
    /// that may turn out to be invalid are predicted to touch their sender alone. A first escape may be a template's fault, so
    /// the simulation teaches the templates, from runs of at most `max_taught` gas.
    pub(crate) fn predict_again<'t, S: Snapshot>(
        &mut self,
        paralyze: &mut ParaLyze,
        snapshot: &S,
        env: &BlockEnv,
        order: &[u32],
        max_taught: u64,
        tx: impl Fn(u32) -> &'t TxEnv + Sync,
    ) {
        let taken = order.iter().enumerate();
        let taken = taken.filter_map(|(at, tx)| Some((at, (*tx, self.escaped.remove(tx)?))));
        let (places, mut escaped): (Vec<usize>, Vec<(u32, Escaped)>) = taken.unzip();
        if escaped.is_empty() {
            return;
        }
        let txs: Vec<&TxEnv> = order.iter().map(|index| tx(*index)).collect();
        let runs = may_run_dry(snapshot, &txs, &places);
        let simulating = &*paralyze;
        escaped.par_iter_mut().zip(&runs).for_each(|((index, escaped), runs)| {
            escaped.prediction.clear();
            match runs {
                true => simulating.simulate(snapshot, env, tx(*index), &mut escaped.prediction),
                false => simulating.doubt(tx(*index), &mut escaped.prediction),
            }
        });
        let once = escaped.iter().zip(&runs).filter(|((_, escaped), runs)| escaped.escapes == 1 && **runs);
        let truth: Vec<_> = once.map(|((index, escaped), _)| (tx(*index), escaped.prediction.sets().get(0))).collect();
        paralyze.learn_within(snapshot, env, &truth, max_taught);
        self.escaped.extend(escaped);
    }

    /// Moves transactions that have escaped too often to the end of `order`, and the later ones of their senders with
    /// them. Returns their number.
    pub(crate) fn defer_to_serial(&self, order: &mut Vec<u32>, sender: impl Fn(u32) -> Address) -> usize {
        if self.escaped.is_empty() {
            return 0;
        }
        let mut senders = AddressSet::default();
        let mut tail = Vec::new();
        order.retain(|tx| {
            let sender = sender(*tx);
            let is_deferred = self.escaped.get(tx).is_some_and(|escaped| escaped.escapes >= MAX_ESCAPES);
            let moves = is_deferred || senders.contains(&sender);
            if moves {
                senders.insert(sender);
                tail.push(*tx);
            }
            !moves
        });
        order.extend_from_slice(&tail);
        tail.len()
    }
}
