//! Serial execution on stock revm: the oracle, and the fallback of a block.

use crate::{
    bal::{Footprint, Record},
    exec::{block_gas::BlockGas, context::ExecContext, fast_path::FastPath, overlay::Overlay},
    model::{Error, Outcome, payments, reward},
    state::StateError,
};
use alloy_primitives::{Address, Bytes};
use phalanx_paralyze::{ChainRules, Payments, Vm, VmConfig, run_paid, run_unpaid};
use revm::{
    ExecuteEvm,
    context::{BlockEnv, ContextSetters as _, TxEnv},
    context_interface::result::{EVMError, ExecutionResult, InvalidTransaction},
    handler::{Handler as _, MainnetHandler, SYSTEM_ADDRESS, SystemCallTx as _},
    primitives::hardfork::SpecId,
    state::{Account, EvmState},
};
use std::sync::Arc;

/// Gas of a system call (EIP-4788 and later), to which revm adds gas for state growth from Amsterdam on (EIP-8037).
const SYSTEM_CALL_GAS: u64 = 30_000_000;

/// Stock revm on an overlay.
pub(crate) struct Sequential<'o, 's> {
    evm: Vm<&'o mut Overlay<'s>>,
    /// Rules of the chain's own.
    rules: Option<Arc<ChainRules>>,
}

impl<'o, 's> Sequential<'o, 's> {
    pub(crate) fn new(overlay: &'o mut Overlay<'s>, cfg: &VmConfig, env: &BlockEnv) -> Self {
        let mut evm = cfg.build(overlay);
        evm.ctx.block = env.clone();
        Self { evm, rules: cfg.shared_rules() }
    }

    /// Present state.
    pub(crate) const fn overlay(&mut self) -> &mut Overlay<'s> {
        self.evm.ctx.journaled_state.database
    }

    /// Runs transaction `number` of the caller's list without an EVM, if `path` is given and it is a transfer that surely succeeds.
    /// Its footprint goes to `record`.
    pub(crate) fn transfer(
        &mut self,
        path: Option<&FastPath>,
        number: u32,
        tx: &TxEnv,
        record: Option<&Record>,
    ) -> Result<Option<Outcome>, StateError> {
        let Some(path) = path else { return Ok(None) };
        let ctx = &mut self.evm.ctx;
        let mut footprint = record.map(|_| Footprint::default());
        let outcome = path.run_alone(ctx.journaled_state.database, tx, &ctx.block, footprint.as_mut())?;
        if let Some((record, footprint)) = record.zip(footprint).filter(|_| outcome.is_some()) {
            record.put(number, footprint);
        }
        Ok(outcome)
    }

    /// Runs transaction `index` of the block; revm makes all payments. Its changes are returned and not committed
    /// yet; an invalid transaction changes nothing.
    pub(crate) fn run(&mut self, index: usize, tx: &TxEnv) -> Result<(Outcome, EvmState), Error> {
        self.evm.ctx.set_tx(tx.clone());
        let result = run_paid(self.rules.as_deref(), &mut self.evm);
        let state = self.evm.finalize();
        match outcome(index, result)? {
            skipped @ Outcome::Skipped(_) => Ok((skipped, EvmState::default())),
            executed => Ok((executed, state)),
        }
    }

    /// Runs like [`Self::run`], without payments.
    pub(crate) fn run_unpaid(&mut self, index: usize, tx: &TxEnv) -> Result<(Outcome, EvmState), Error> {
        self.evm.ctx.set_tx(tx.clone());
        let result = run_unpaid(self.rules.as_deref(), &mut self.evm);
        let state = self.evm.finalize();
        Ok((outcome(index, result)?, state))
    }

    /// Commits the changes of [`Self::run_unpaid`], and makes its payments.
    pub(crate) fn commit_unpaid(
        &mut self,
        tx: &TxEnv,
        env: &BlockEnv,
        outcome: &Outcome,
        state: &EvmState,
    ) -> Result<(), Error> {
        if outcome.result().is_some() {
            self.overlay().commit(state);
            let mut reward = reward(tx, env, outcome);
            let mut shares = Vec::new();
            if let Some(rules) = self.rules.as_deref() {
                Payments { reward, shares } = payments(rules, tx, env, outcome, reward);
            }
            for (to, amount) in core::iter::once((env.beneficiary, reward)).chain(shares) {
                // revm pays an account that the transaction has destroyed, and the payment goes with it.
                if !state.get(&to).is_some_and(Account::is_selfdestructed) {
                    self.overlay().pay(to, amount)?;
                }
            }
        }
        Ok(())
    }

    /// Makes a system call, which no account pays for, and commits it if it succeeds. Its effects are added to
    /// `footprint`.
    pub(crate) fn system_call(
        &mut self,
        to: Address,
        data: Bytes,
        footprint: &mut Footprint,
    ) -> Result<ExecutionResult, Error> {
        let mut tx = TxEnv::new_system_tx(to, data);
        if !self.evm.ctx.cfg.spec.is_enabled_in(SpecId::AMSTERDAM) {
            tx.gas_limit = SYSTEM_CALL_GAS;
        }
        self.evm.ctx.set_tx(tx);
        let result = MainnetHandler::default().run_system_call(&mut self.evm);
        let state = self.evm.finalize();
        let result: ExecutionResult =
            result.map_err(|error: EVMError<StateError, InvalidTransaction>| failed(0, error))?;
        // The system caller is no account of the state, unless a called contract pays it.
        let counts = |(address, account): &(&Address, &Account)| **address != SYSTEM_ADDRESS || account.is_changed();
        footprint.add(state.iter().filter(counts), self.overlay().rules());
        if result.is_success() {
            self.overlay().commit(&state);
        }
        Ok(result)
    }
}

/// Runs the transactions of `order` serially on `overlay`, as far as they are admitted; transfers by `path`.
pub(crate) fn run(
    overlay: &mut Overlay<'_>,
    ctx: &ExecContext<'_>,
    mut gas: BlockGas,
    path: Option<&FastPath>,
    order: &[u32],
) -> Result<Vec<Outcome>, Error> {
    let ExecContext { cfg, env, txs, record, .. } = *ctx;
    let mut sequential = Sequential::new(overlay, cfg, env);
    let mut outcomes = Vec::with_capacity(order.len());
    for (index, number) in order.iter().enumerate() {
        let tx = &txs[*number as usize];
        if !gas.admits(tx) {
            break;
        }
        let outcome = match sequential.transfer(path, *number, tx, record)? {
            Some(outcome) => outcome,
            None => {
                let (outcome, state) = sequential.run(index, tx)?;
                if let Some(record) = record {
                    record.put(*number, Footprint::paid(&state, sequential.overlay().rules()));
                }
                sequential.overlay().commit(&state);
                outcome
            }
        };
        gas.follow(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn outcome(
    index: usize,
    result: Result<ExecutionResult, EVMError<StateError, InvalidTransaction>>,
) -> Result<Outcome, Error> {
    match result {
        Ok(result) => Ok(Outcome::Executed(result)),
        Err(EVMError::Transaction(reason)) => Ok(Outcome::Skipped(reason)),
        Err(other) => Err(failed(index, other)),
    }
}

fn failed(index: usize, error: EVMError<StateError, InvalidTransaction>) -> Error {
    match error {
        EVMError::Database(StateError(what)) => Error::Corrupt { what },
        other => Error::Evm { index, reason: other.to_string() },
    }
}
