//! revm's mainnet handler without the payment of the beneficiary.

use crate::Vm;
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
/// Whoever uses it pays the sum of the rewards later, and exactly before something observes that balance.
#[derive(Debug)]
pub struct DeferredReward<D, I = ()>(core::marker::PhantomData<fn() -> (D, I)>);

impl<D, I> Default for DeferredReward<D, I> {
    fn default() -> Self {
        Self(core::marker::PhantomData)
    }
}

impl<D: Database, I> DeferredReward<D, I> {
    /// Runs the transaction that is set in `evm`. The state it left is in the journal, also that of an invalid one
    /// (loaded accounts, no changes).
    ///
    /// # Errors
    /// [`EVMError::Transaction`] when the transaction is invalid, [`EVMError::Database`] when the database refused.
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
    /// As [`DeferredReward::run`], step by step under the eyes of the EVM's inspector.
    ///
    /// # Errors
    /// As [`DeferredReward::run`].
    pub fn inspect(evm: &mut Vm<D, I>) -> Result<ExecutionResult, EVMError<D::Error, InvalidTransaction>> {
        InspectorHandler::inspect_run(&mut Self::default(), evm)
    }
}
