//! revm's mainnet handler without the payment of the beneficiary.

use crate::vm::Vm;
use revm::{
    context_interface::{
        Database,
        result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction},
    },
    handler::{FrameResult, Handler, MainnetContext},
    inspector::{Inspector, InspectorHandler},
    interpreter::interpreter::EthInterpreter,
};

/// Runs transactions without paying the beneficiary, so that its balance is not a key that every transaction writes.
///
/// The caller pays the sum of the rewards later, and before any transaction reads that balance.
#[derive(Debug)]
pub struct DeferredReward<D, I = ()>(core::marker::PhantomData<fn() -> (D, I)>);

impl<D, I> Default for DeferredReward<D, I> {
    fn default() -> Self {
        Self(core::marker::PhantomData)
    }
}

impl<D: Database, I> DeferredReward<D, I> {
    /// Runs the transaction that is set in `evm`. The journal then holds its state; for an invalid transaction, loaded accounts
    /// without changes.
    ///
    /// # Errors
    /// [`EVMError::Transaction`] if the transaction is invalid, [`EVMError::Database`] if the database failed.
    pub fn run(evm: &mut Vm<D, I>) -> Result<ExecutionResult, EVMError<D::Error, InvalidTransaction>> {
        Handler::run(&mut Self::default(), evm)
    }
}

impl<D: Database, I> Handler for DeferredReward<D, I> {
    type Evm = Vm<D, I>;
    type Error = EVMError<D::Error, InvalidTransaction>;
    type HaltReason = HaltReason;

    fn reward_beneficiary(&self, _: &mut Self::Evm, _: &mut FrameResult) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<D: Database, I: Inspector<MainnetContext<D>>> InspectorHandler for DeferredReward<D, I> {
    type IT = EthInterpreter;
}

impl<D: Database, I: Inspector<MainnetContext<D>>> DeferredReward<D, I> {
    /// Runs like [`DeferredReward::run`], with the EVM's inspector.
    ///
    /// # Errors
    /// As [`DeferredReward::run`].
    pub fn inspect(evm: &mut Vm<D, I>) -> Result<ExecutionResult, EVMError<D::Error, InvalidTransaction>> {
        InspectorHandler::inspect_run(&mut Self::default(), evm)
    }
}
