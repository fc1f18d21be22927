//! Sets that a validator derives by rule, and those that it receives: [`Hints::Exceptions`](crate::Hints::Exceptions).

use crate::bal::exceptions::{decode, encode};
use crate::{
    engine::Engine,
    model::{BlockError, RecoveredBlock},
    state::StateRef,
};
use phalanx_access::{Access, AccessSets};
use phalanx_paralyze::{Batch, Layers, ParaLyze, StateKey};
use revm::context::{BlockEnv, TxEnv};

/// Sets of a block's transactions, derived or received.
pub(crate) struct Excepted {
    pub(crate) sets: AccessSets<StateKey>,
    /// Share of the block's gas limits that neither a rule nor an exception predicts.
    pub(crate) unknown: f64,
}

impl Engine {
    /// Returns the exceptions of a block: the true access sets of the transactions that ParaLyze's rules do not
    /// predict, for [`Hints::Exceptions`](crate::Hints::Exceptions). Nothing is simulated; the block is executed once,
    /// serially.
    ///
    /// # Errors
    /// The errors of [`Self::execute_block`].
    pub fn exceptions(&mut self, payload: &RecoveredBlock<'_>) -> Result<Vec<u8>, BlockError> {
        let truth = self.true_sets(payload)?;
        let env = self.rules.chain.env(payload.header);
        let Self { state, workers, paralyze, .. } = self;
        let nothing = encode(&AccessSets::new(), |_| false);
        let derived = workers.install(|| excepted(paralyze, &StateRef::Own(state), &env, payload.txs, &nothing));
        let Some(derived) = derived else { return Ok(encode(&truth, |_| true)) };
        Ok(encode(&truth, |tx| !covers(derived.sets.get(tx), truth.get(tx))))
    }
}

fn covers(predicted: &[(StateKey, Access)], truth: &[(StateKey, Access)]) -> bool {
    truth.iter().all(|(key, access)| {
        predicted.iter().any(|(predicted, permitted)| predicted == key && permitted.covers(*access))
    })
}

/// Decodes the sets in `bytes`; for all other transactions returns the sets of the rules, empty where none applies.
/// `None` if `bytes` are malformed. Runs in the current rayon pool.
///
/// Templates are not rules here: other nodes need not have learned what the block's producer has.
pub(crate) fn excepted(
    paralyze: &mut ParaLyze,
    state: &StateRef<'_>,
    env: &BlockEnv,
    txs: &[TxEnv],
    bytes: &[u8],
) -> Option<Excepted> {
    let told = decode(bytes, txs.len())?;
    let layers = paralyze.use_layers(Layers::WithoutTemplates);
    let (mut ruled, mut unknown, mut total) = (Vec::new(), 0u128, 0u128);
    let mut is_ruled = vec![false; txs.len()];
    for (index, tx) in txs.iter().enumerate() {
        total += u128::from(tx.gas_limit);
        if told[index].is_some() {
            continue;
        }
        if paralyze.is_ruled(state, tx) {
            is_ruled[index] = true;
            ruled.push(tx);
        } else {
            unknown += u128::from(tx.gas_limit);
        }
    }
    let mut batch = Batch::new();
    paralyze.analyse(state, env, &ruled, &mut batch);
    paralyze.use_layers(layers);
    let (mut sets, mut next) = (AccessSets::new(), 0);
    for (told, is_ruled) in told.into_iter().zip(is_ruled) {
        match told {
            Some(set) => sets.push(set),
            None if is_ruled => {
                sets.push(batch.sets().get(next).iter().copied());
                next += 1;
            }
            None => sets.push([]),
        }
    }
    Some(Excepted { sets, unknown: if total == 0 { 0.0 } else { unknown as f64 / total as f64 } })
}
