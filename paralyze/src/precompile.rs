//! Precompiled contracts of a chain, with access to the state and a prediction of their accesses.

use crate::key::StateKey;
use alloy_primitives::{Address, Bytes, Log, U256};
use phalanx_access::Access;
use revm::{
    context::{ContextTr, TxEnv},
    context_interface::{Cfg, ContextError, JournalTr, journaled_state::account::JournaledAccountTr as _},
    handler::{EthPrecompiles, PrecompileProvider, precompile_output_to_interpreter_result},
    interpreter::{CallInputs, Gas, InstructionResult, InterpreterResult},
    precompile::PrecompileOutput,
    primitives::{AddressSet, hardfork::SpecId},
};
use std::sync::Arc;

/// A precompiled contract.
///
/// A precompile reaches the state only through [`PrecompileState`], so its accesses are checked and ordered like any
/// contract's. Its result must be a function of the call and the values it reads: the same on every node, without memory. It
/// must not wait for a task of the engine's workers, as rayon's iterators and joins do: another transaction may be that task. It
/// must not panic, and must end on any values: a speculative execution may see values that never existed together.
pub trait Precompile: Send + Sync + core::fmt::Debug {
    /// Address of the precompile. The account there needs no code, and may be absent.
    fn address(&self) -> Address;

    /// Executes a call.
    ///
    /// # Errors
    /// Only a [`Refused`] that `state` gave.
    fn call(&self, call: &PrecompileCall<'_>, state: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused>;

    /// Predicts the accesses of a transaction that calls the precompile directly, without its sender and the precompile's own
    /// account. [`None`] if a simulation should find them. A hint, like every prediction; a credit counts as a write.
    fn accesses(&self, tx: &TxEnv) -> Option<Vec<(StateKey, Access)>> {
        let _ = tx;
        None
    }
}

/// A call of a precompile.
#[derive(Clone, Copy, Debug)]
pub struct PrecompileCall<'a> {
    /// Caller of the precompile. In a delegated call it is the caller of the contract that delegates, which need not have called the
    /// precompile.
    pub caller: Address,
    /// Account in whose name it runs: the precompile's address, except in a delegated call.
    pub target: Address,
    /// Value of the call, in wei. It is paid to the precompile if [`Self::target`] is its address; in a delegated call it is not.
    pub value: U256,
    /// Calldata.
    pub input: &'a [u8],
    /// Maximum gas. A call that uses more fails.
    pub gas_limit: u64,
    /// Reservoir of EIP-8037, to be passed on to [`PrecompileOutput`].
    pub reservoir: u64,
    /// True if the state must not change.
    pub is_static: bool,
}

/// State that a precompile sees: the running transaction's.
pub trait PrecompileState {
    /// Reads the balance of an account.
    ///
    /// # Errors
    /// If the execution is to end here.
    fn balance(&mut self, address: Address) -> Result<U256, Refused>;

    /// Reads a storage slot.
    ///
    /// # Errors
    /// If the execution is to end here.
    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Refused>;

    /// Writes a storage slot. In a static call that breaks the chain's rules; the state does not prevent it.
    ///
    /// The precompile's own account gets nonce 1, as a new contract does, and so does another account that is empty: else the
    /// storage would be lost at the end of the transaction that leaves the account empty (EIP-161).
    ///
    /// Another account that has a balance, and neither nonce nor code, stays as it is: its storage is lost when its balance
    /// leaves. Keep what must stay in the precompile's own account.
    ///
    /// # Errors
    /// If the execution is to end here.
    fn set_storage(&mut self, address: Address, slot: U256, value: U256) -> Result<(), Refused>;

    /// Moves wei. Returns false if the sender has too few, or the receiver's balance would overflow.
    ///
    /// # Errors
    /// If the execution is to end here.
    fn transfer(&mut self, from: Address, to: Address, amount: U256) -> Result<bool, Refused>;

    /// Writes a log.
    fn log(&mut self, log: Log);
}

/// Ends the execution: it reached outside its prediction, or the state cannot be read. A precompile passes it on.
#[derive(Debug)]
pub struct Refused(());

/// Precompiles of Ethereum and of the chain, in revm's form.
#[derive(Clone, Debug)]
pub struct PrecompileSet {
    ethereum: EthPrecompiles,
    own: Arc<[Arc<dyn Precompile>]>,
    /// Addresses at which the precompile of another one runs, or code. They are as warm as before.
    moved: Arc<[(Address, Option<Address>)]>,
    /// Addresses of all precompiles; empty if there are only Ethereum's.
    warm: AddressSet,
}

impl PrecompileSet {
    pub(crate) fn new(
        spec: SpecId,
        own: &Arc<[Arc<dyn Precompile>]>,
        moved: &Arc<[(Address, Option<Address>)]>,
    ) -> Self {
        let (own, moved) = (Arc::clone(own), Arc::clone(moved));
        let mut set = Self { ethereum: EthPrecompiles::new(spec), own, moved, warm: AddressSet::default() };
        set.warm_up();
        set
    }

    fn warm_up(&mut self) {
        if !self.own.is_empty() {
            self.warm.clone_from(self.ethereum.warm_addresses());
            self.warm.extend(self.own.iter().map(|precompile| precompile.address()));
        }
    }
}

impl<C: ContextTr<Cfg: Cfg<Spec = SpecId>>> PrecompileProvider<C> for PrecompileSet {
    type Output = InterpreterResult;

    fn set_spec(&mut self, spec: SpecId) -> bool {
        let changed = PrecompileProvider::<C>::set_spec(&mut self.ethereum, spec);
        if changed {
            self.warm_up();
        }
        changed
    }

    fn run(&mut self, context: &mut C, inputs: &CallInputs) -> Result<Option<InterpreterResult>, String> {
        let moved = match self.moved.iter().find(|(at, _)| *at == inputs.bytecode_address) {
            Some((_, None)) => return Ok(None),
            Some((_, Some(from))) => Some(CallInputs { bytecode_address: *from, ..inputs.clone() }),
            None => None,
        };
        let inputs = moved.as_ref().unwrap_or(inputs);
        if self.own.is_empty() {
            return self.ethereum.run(context, inputs);
        }
        let Some(precompile) = self.own.iter().find(|own| own.address() == inputs.bytecode_address) else {
            return self.ethereum.run(context, inputs);
        };
        let input = inputs.input.bytes(context);
        let call = PrecompileCall {
            caller: inputs.caller,
            target: inputs.target_address,
            value: inputs.value.get(),
            input: &input,
            gas_limit: inputs.gas_limit,
            reservoir: inputs.reservoir,
            is_static: inputs.is_static,
        };
        Ok(Some(match precompile.call(&call, &mut Journaled { context, own: precompile.address() }) {
            Ok(output) => precompile_output_to_interpreter_result(output, inputs.gas_limit),
            Err(Refused(())) => {
                InterpreterResult::new(InstructionResult::FatalExternalError, Bytes::new(), Gas::new(inputs.gas_limit))
            }
        }))
    }

    fn warm_addresses(&self) -> &AddressSet {
        if self.own.is_empty() { self.ethereum.warm_addresses() } else { &self.warm }
    }
}

/// Journal of the running transaction. Errors of the database go where revm looks for them.
struct Journaled<'a, C> {
    context: &'a mut C,
    /// Address of the precompile.
    own: Address,
}

impl<C: ContextTr> Journaled<'_, C> {
    fn note<T>(&mut self, result: Result<T, <C::Db as revm::Database>::Error>) -> Result<T, Refused> {
        result.map_err(|error| {
            *self.context.error() = Err(ContextError::Db(error));
            Refused(())
        })
    }
}

impl<C: ContextTr> PrecompileState for Journaled<'_, C> {
    fn balance(&mut self, address: Address) -> Result<U256, Refused> {
        let loaded = self.context.journal_mut().load_account(address).map(|account| account.data.info.balance);
        self.note(loaded)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Refused> {
        self.balance(address)?;
        let loaded = self.context.journal_mut().sload(address, slot).map(|value| value.data);
        self.note(loaded)
    }

    fn set_storage(&mut self, address: Address, slot: U256, value: U256) -> Result<(), Refused> {
        let own = self.own;
        let bumped = self.context.journal_mut().load_account_mut(address).map(|mut account| {
            let info = &account.data.account().info;
            // A balance may leave by the end of this transaction, or of a later one.
            let is_bare = info.nonce == 0 && info.is_empty_code_hash();
            if is_bare && (address == own || info.is_empty()) {
                account.data.bump_nonce();
            }
        });
        self.note(bumped)?;
        self.context.journal_mut().touch_account(address);
        let stored = self.context.journal_mut().sstore(address, slot, value).map(|_| ());
        self.note(stored)
    }

    fn transfer(&mut self, from: Address, to: Address, amount: U256) -> Result<bool, Refused> {
        let moved = self.context.journal_mut().transfer(from, to, amount).map(|error| error.is_none());
        self.note(moved)
    }

    fn log(&mut self, log: Log) {
        self.context.journal_mut().log(log);
    }
}
