//! Learns from a batch whose predictions were missing or wrong, within a budget of gas.

use crate::{analyse::ParaLyze, key::StateKey, simulate::Simulator, snapshot::Snapshot, template::Function};
use phalanx_access::Access;
use rayon::prelude::*;
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::{TxKind, map::HashMap},
};

/// A function's transactions in a batch.
#[derive(Default)]
struct Group {
    gas: u64,
    members: Vec<u32>,
}

impl ParaLyze {
    /// Studies one transaction of each function that `txs` call, as long as the sum of their gas limits is within `max_gas`.
    ///
    /// Functions without a template come first, most gas first, then the others in turns. Each transaction is simulated on
    /// `snapshot`. Where the template predicts otherwise, or there is none, the dry run is traced and the template learned or
    /// corrected, as [`Self::learn`] does.
    ///
    /// Costs at most five executions of `max_gas`. The transaction that represents a function changes from batch to batch, so
    /// that in time all paths are met. Runs in the current rayon pool; the result does not depend on threads.
    pub fn study<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, txs: &[TxEnv], max_gas: u64) {
        let mut groups: HashMap<Function, Group> = HashMap::default();
        for (index, tx) in (0u32..).zip(txs) {
            let TxKind::Call(to) = tx.kind else { continue };
            let Some(code) = snapshot.code_hash(&to).filter(|_| tx.authorization_list.is_empty()) else { continue };
            let (_, function) = self.function(snapshot, tx, code);
            let group = groups.entry(function).or_default();
            group.gas = group.gas.saturating_add(tx.gas_limit);
            group.members.push(index);
        }
        // Functions that cannot be learned would take the budget of others.
        let mut groups: Vec<(Function, Group)> =
            groups.into_iter().filter(|(function, _)| self.templates.is_worth_a_trace(function, 2)).collect();
        let is_known = |function: &Function| self.templates.get(function).is_some();
        groups.sort_unstable_by_key(|(function, group)| (is_known(function), core::cmp::Reverse(group.gas), *function));
        let turn = self.templates.turn() as usize;
        let known = groups.partition_point(|(function, _)| !is_known(function));
        let known = &mut groups[known..];
        if !known.is_empty() {
            known.rotate_left(turn % known.len());
        }
        let (mut left, mut chosen) = (max_gas, Vec::new());
        for (_, Group { members, .. }) in &groups {
            let tx = &txs[members[turn % members.len()] as usize];
            if let Some(rest) = left.checked_sub(tx.gas_limit) {
                left = rest;
                chosen.push(tx);
            }
        }
        let cfg = &self.cfg;
        let sets: Vec<_> =
            chosen.par_iter().map_init(|| Simulator::new(snapshot, cfg, env), |it, tx| it.simulate(tx)).collect();
        // A transaction that is invalid on this state shows nothing.
        let truth: Vec<(&TxEnv, &[(StateKey, Access)])> =
            chosen.iter().zip(&sets).filter_map(|(tx, set)| Some((*tx, set.as_ref()?.as_slice()))).collect();
        self.learn(snapshot, env, &truth);
    }
}
