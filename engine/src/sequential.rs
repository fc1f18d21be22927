//! One transaction after the other on stock revm: the oracle, and what a block falls back to.

use crate::{Error, Outcome, overlay::Overlay, state::StateError};
use revm::{
    Context, ExecuteEvm, MainBuilder, MainContext,
    context::{BlockEnv, CfgEnv, TxEnv},
    context_interface::result::EVMError,
};

/// Runs `txs` in order on `overlay`, the beneficiary paid by revm itself.
pub(crate) fn run<'t>(
    overlay: &mut Overlay<'_>,
    cfg: &CfgEnv,
    env: &BlockEnv,
    txs: impl Iterator<Item = &'t TxEnv>,
) -> Result<Vec<Outcome>, Error> {
    let mut evm = Context::mainnet().with_db(overlay).with_cfg(cfg.clone()).with_block(env.clone()).build_mainnet();
    txs.enumerate()
        .map(|(index, tx)| {
            let result = evm.transact_one(tx.clone());
            let state = evm.finalize();
            match result {
                Ok(result) => {
                    evm.ctx.journaled_state.database.commit(&state);
                    Ok(Outcome::Executed(result))
                }
                Err(EVMError::Transaction(reason)) => Ok(Outcome::Skipped(reason)),
                Err(EVMError::Database(StateError(what))) => Err(Error::Corrupt { what }),
                Err(other) => Err(Error::Evm { index, reason: other.to_string() }),
            }
        })
        .collect()
}
