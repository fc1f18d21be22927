//! revm's mainnet handler without the payment of the beneficiary, for transactions and for calls without a signature.

use crate::vm::Vm;
use alloy_primitives::Address;
use revm::{
    JournalEntry,
    context::journal::JournalInner,
    context_interface::{
        ContextTr as _, Database, JournalTr as _, Transaction as _,
        journaled_state::account::JournaledAccountTr as _,
        result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction},
    },
    handler::{FrameResult, Handler, MainnetContext, pre_execution::calculate_caller_fee},
    inspector::{Inspector, InspectorHandler},
    interpreter::{InitialAndFloorGas, interpreter::EthInterpreter},
    primitives::{KECCAK_EMPTY, StorageValue, hardfork::SpecId},
    state::Bytecode,
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

    fn reward_beneficiary(&self, evm: &mut Self::Evm, _: &mut FrameResult) -> Result<(), Self::Error> {
        let payee = evm.ctx.block.beneficiary;
        await_payment(&mut evm.ctx.journaled_state.inner, &payee);
        Ok(())
    }
}

/// Leaves an account that the transaction is still to pay as a payment in revm would.
///
/// The account is touched if its balance changed and the touch was reverted: revm takes a transfer from the payer before it finds that the
/// payee's balance overflows, and does not return it (a sum that no real chain has). From Amsterdam on it is cleared and not destroyed,
/// because the payment is a balance that it keeps (EIP-8246); without one it is empty and goes all the same.
pub(crate) fn await_payment(journal: &mut JournalInner<JournalEntry>, payee: &Address) {
    let spares = journal.cfg.spec.is_enabled_in(SpecId::AMSTERDAM);
    let Some(account) = journal.state.get_mut(payee) else { return };
    if !account.is_touched() && account.is_changed() {
        account.mark_touch();
    }
    if spares && account.is_selfdestructed() {
        account.info.nonce = 0;
        account.info.code_hash = KECCAK_EMPTY;
        account.info.code = Some(Bytecode::default());
        for slot in account.storage.values_mut() {
            slot.present_value = StorageValue::ZERO;
        }
        account.unmark_selfdestruct();
        account.unmark_selfdestructed_locally();
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

/// Runs calls that no account signed: any nonce goes, and contracts may be the sender. Fees are charged as ever, so
/// a call without a price is free. The beneficiary is not paid.
#[derive(Debug)]
pub struct Unsigned<D, I = ()>(core::marker::PhantomData<fn() -> (D, I)>);

impl<D, I> Default for Unsigned<D, I> {
    fn default() -> Self {
        Self(core::marker::PhantomData)
    }
}

impl<D: Database, I> Handler for Unsigned<D, I> {
    type Evm = Vm<D, I>;
    type Error = EVMError<D::Error, InvalidTransaction>;
    type HaltReason = HaltReason;

    fn validate_against_state_and_deduct_caller(
        &self,
        evm: &mut Self::Evm,
        _: &mut InitialAndFloorGas,
    ) -> Result<(), Self::Error> {
        let (block, tx, cfg, journal, _, _) = evm.ctx.all_mut();
        let mut caller = journal.load_account_with_code_mut(tx.caller())?.data;
        let balance = calculate_caller_fee(*caller.balance(), tx, block, cfg)?;
        caller.set_balance(balance);
        if tx.kind().is_call() {
            caller.bump_nonce();
        }
        Ok(())
    }

    fn reward_beneficiary(&self, _: &mut Self::Evm, _: &mut FrameResult) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<D: Database, I: Inspector<MainnetContext<D>>> InspectorHandler for Unsigned<D, I> {
    type IT = EthInterpreter;
}

impl<D: Database, I: Inspector<MainnetContext<D>>> Unsigned<D, I> {
    /// Runs the call that is set in `evm`, with the EVM's inspector. The journal then holds its state.
    ///
    /// # Errors
    /// [`EVMError::Transaction`] if the call is invalid all the same, [`EVMError::Database`] if the database failed.
    pub fn inspect(evm: &mut Vm<D, I>) -> Result<ExecutionResult, EVMError<D::Error, InvalidTransaction>> {
        InspectorHandler::inspect_run(&mut Self::default(), evm)
    }
}
