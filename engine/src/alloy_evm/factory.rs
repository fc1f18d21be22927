//! EVMs of a factory as the engine's EVM.

use alloy_evm::{Evm as _, EvmEnv, EvmError as _, EvmFactory, InvalidTxError as _};
use core::fmt;
use phalanx_paralyze::{ForeignDb, ForeignEvm, ForeignFailure};
use revm::{
    context::{BlockEnv, CfgEnv, TxEnv},
    context_interface::result::{ExecutionResult, HaltReason, InvalidTransaction, ResultAndState},
    primitives::hardfork::SpecId,
    state::EvmState,
};

/// Runs transactions on EVMs of a factory, for [`ChainRules::with_evm`](crate::ChainRules::with_evm).
///
/// Such an EVM pays the beneficiary itself, so each transaction waits for the one before. A handler that leaves payments to the
/// engine implements [`ForeignEvm`] itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct FactoryEvm<F>(pub F);

impl<F> ForeignEvm for FactoryEvm<F>
where
    F: EvmFactory<Tx = TxEnv, Spec = SpecId, BlockEnv = BlockEnv, HaltReason = HaltReason> + fmt::Debug + Send + Sync,
{
    fn run(
        &self,
        db: ForeignDb<'_>,
        cfg: &CfgEnv,
        env: &BlockEnv,
        tx: &TxEnv,
    ) -> Result<(ExecutionResult, EvmState), ForeignFailure> {
        let mut evm = self.0.create_evm(db, EvmEnv { cfg_env: cfg.clone(), block_env: env.clone() });
        match evm.transact_raw(tx.clone()) {
            Ok(ResultAndState { result, state }) => Ok((result, state)),
            Err(error) => Err(match error.as_invalid_tx_err() {
                Some(invalid) => {
                    let known = invalid.as_invalid_tx_err().cloned();
                    let reason = known.unwrap_or_else(|| InvalidTransaction::Str(invalid.to_string().into()));
                    ForeignFailure::Invalid(reason)
                }
                None => ForeignFailure::Failed(error.to_string()),
            }),
        }
    }
}
