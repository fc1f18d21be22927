//! What a validator derives by itself, and what it has to be told: the sets of [`Hints::Exceptions`](crate::Hints::Exceptions).

use crate::bal::exceptions::{decode, encode};
use crate::{
    engine::Engine,
    model::{BlockError, Payload},
    state::State,
};
use phalanx_access::{Access, AccessSets};
use phalanx_paralyze::{Batch, Layers, ParaLyze, StateKey};
use revm::context::{BlockEnv, TxEnv};

/// Sets of a block's transactions, derived or told.
pub(crate) struct Excepted {
    pub(crate) sets: AccessSets<StateKey>,
    /// How much of the block's gas no rule predicts and nobody has told of, as a share of the limits.
    pub(crate) unknown: f64,
}

impl Engine {
    /// The small artefact of a block: the true access sets of those transactions that ParaLyze's rules do not predict, for
    /// [`Hints::Exceptions`](crate::Hints::Exceptions). Nothing is simulated; the block is executed once, in order.
    ///
    /// # Errors
    /// As [`Self::execute_block`].
    pub fn exceptions(&mut self, payload: &Payload<'_>) -> Result<Vec<u8>, BlockError> {
        let truth = self.true_sets(payload)?;
        let env = self.chain.env(payload.header);
        let Self { state, workers, paralyze, .. } = self;
        let nothing = encode(&AccessSets::new(), |_| false);
        let derived = workers.install(|| excepted(paralyze, state, &env, payload.txs, &nothing));
        let Some(derived) = derived else { return Ok(encode(&truth, |_| true)) };
        Ok(encode(&truth, |tx| !covers(derived.sets.get(tx), truth.get(tx))))
    }
}

fn covers(predicted: &[(StateKey, Access)], truth: &[(StateKey, Access)]) -> bool {
    truth.iter().all(|(key, access)| {
        predicted.iter().any(|(predicted, permitted)| predicted == key && permitted.covers(*access))
    })
}

/// The sets that `bytes` tell of, and for all other transactions what the rules predict: nothing where none applies. `None`
/// if `bytes` are malformed. Runs in the current rayon pool.
///
/// Templates are no rules here: what the block's producer has learned nobody else needs to have.
pub(crate) fn excepted(
    paralyze: &mut ParaLyze,
    state: &State,
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
