//! revm's mainnet handler with the rules of a chain: the extra fee, forced transactions, and all payments.

use crate::{
    chain_rules::{ChainRules, Payments},
    forced::ForcedTx,
    foreign_evm::{ForeignEvm, ForeignFailure, Kept},
    handler::{DeferredReward, Unsigned, await_payment},
    vm::Vm,
};
use alloy_primitives::U256;
use revm::{
    Journal,
    context::{BlockEnv, TxEnv},
    context_interface::{
        Cfg as _, ContextTr as _, Database, JournalTr as _, LocalContextTr as _, Transaction as _,
        journaled_state::account::JournaledAccountTr as _,
        result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction, OutOfGasError, ResultGas},
    },
    handler::{
        FrameResult, Handler, MainnetContext, MainnetHandler,
        pre_execution::{calculate_caller_fee, validate_account_nonce_and_code},
    },
    inspector::{Inspector, InspectorHandler},
    interpreter::{InitialAndFloorGas, interpreter::EthInterpreter},
    primitives::{hardfork::SpecId, map::Entry},
    state::{Account, TransactionId},
};

type Ran<D> = Result<ExecutionResult, EVMError<<D as Database>::Error, InvalidTransaction>>;

/// Runs the transaction that is set in `evm` by the rules of its chain; `None` is mainnet's. Neither the beneficiary nor the
/// recipients of shares are paid: the caller pays them, by [`ChainRules::split`]. The journal then holds the state.
///
/// # Errors
/// As [`DeferredReward::run`].
#[inline]
pub fn run_unpaid<D: Database, I>(rules: Option<&ChainRules>, evm: &mut Vm<D, I>) -> Ran<D> {
    match rules {
        None => DeferredReward::run(evm),
        Some(rules) => match rules.evm() {
            Some(foreign) => run_foreign(foreign, evm),
            None => Ruled::new(rules, Kind::Unpaid).run(evm),
        },
    }
}

/// Runs like [`run_unpaid`], and pays the beneficiary and all recipients.
///
/// # Errors
/// As [`DeferredReward::run`].
pub fn run_paid<D: Database, I>(rules: Option<&ChainRules>, evm: &mut Vm<D, I>) -> Ran<D> {
    match rules {
        None => MainnetHandler::default().run(evm),
        Some(rules) => match rules.evm() {
            Some(foreign) => {
                let result = run_foreign(foreign, evm)?;
                if foreign.defers_payments() {
                    pay(rules, evm, result.tx_gas_used())?;
                }
                Ok(result)
            }
            None => Ruled::new(rules, Kind::Paid).run(evm),
        },
    }
}

/// Runs the call that is set in `evm`, which no account signed, by the rules of its chain, with the EVM's inspector: any nonce
/// goes, contracts may be the sender, and a call without a price pays no extra fee. No payment is made. With a
/// foreign EVM it runs by mainnet's rules, which have no forced transactions.
///
/// # Errors
/// As [`Unsigned::inspect`].
pub fn inspect_unsigned<D: Database, I: Inspector<MainnetContext<D>>>(
    rules: Option<&ChainRules>,
    evm: &mut Vm<D, I>,
) -> Ran<D> {
    match rules.filter(|rules| rules.evm().is_none()) {
        // Mainnet's handler knows nothing of a mint.
        None if ForcedTx::is(&evm.ctx.tx) => Err(no_forced()),
        None => Unsigned::inspect(evm),
        Some(rules) => Ruled::new(rules, Kind::Unsigned).inspect_run(evm),
    }
}

/// Refusal of a forced transaction by rules without them.
fn no_forced<E>() -> EVMError<E, InvalidTransaction> {
    EVMError::Transaction(InvalidTransaction::Str("this chain has no forced transactions".into()))
}

/// Runs the transaction that is set in `evm` on another EVM, and leaves its changes in the journal.
fn run_foreign<D: Database, I>(foreign: &dyn ForeignEvm, evm: &mut Vm<D, I>) -> Ran<D> {
    let ctx = &mut evm.ctx;
    let mut db = Kept::new(&mut ctx.journaled_state.database);
    let ran = foreign.run(db.lend(), &ctx.cfg, &ctx.block, &ctx.tx);
    if let Some(error) = db.take_error() {
        // Whatever the EVM made of it.
        return Err(EVMError::Database(error));
    }
    match ran {
        Ok((result, state)) => {
            ctx.journaled_state.inner.state = state;
            Ok(result)
        }
        Err(ForeignFailure::Invalid(reason)) => Err(EVMError::Transaction(reason)),
        Err(ForeignFailure::Failed(reason)) => Err(EVMError::Custom(reason)),
    }
}

/// Makes the payments of a transaction whose changes are in the journal.
fn pay<D: Database, I>(
    rules: &ChainRules,
    evm: &mut Vm<D, I>,
    gas_used: u64,
) -> Result<(), EVMError<D::Error, InvalidTransaction>> {
    let ctx = &mut evm.ctx;
    let tip = tip(&ctx.tx, &ctx.block, ctx.cfg.spec, gas_used);
    let Payments { reward, shares } = rules.split(&ctx.tx, &ctx.block, gas_used, tip);
    let Journal { database, inner } = &mut ctx.journaled_state;
    for (to, amount) in core::iter::once((ctx.block.beneficiary, reward)).chain(shares) {
        let account = match inner.state.entry(to) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let info = database.basic(to).map_err(EVMError::Database)?;
                entry.insert(info.map_or_else(|| Account::new_not_existing(TransactionId::ZERO), Account::from))
            }
        };
        account.mark_touch();
        account.info.balance = account.info.balance.checked_add(amount).unwrap_or(account.info.balance);
    }
    Ok(())
}

/// Tip of a transaction by mainnet's rules.
fn tip(tx: &TxEnv, env: &BlockEnv, spec: SpecId, gas_used: u64) -> U256 {
    let base_fee = u128::from(env.basefee);
    let price = tx.effective_gas_price(base_fee);
    let tip = if spec.is_enabled_in(SpecId::LONDON) { price.saturating_sub(base_fee) } else { price };
    // revm multiplies in 128 bits.
    U256::from(tip.wrapping_mul(u128::from(gas_used)))
}

/// Ways in which a handler runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A transaction, whose payments the caller makes.
    Unpaid,
    /// A transaction with its payments.
    Paid,
    /// A call without a signature.
    Unsigned,
}

/// Handler of a chain with rules of its own.
struct Ruled<'r, D, I> {
    rules: &'r ChainRules,
    kind: Kind,
    of: core::marker::PhantomData<fn() -> (D, I)>,
}

impl<'r, D: Database, I> Ruled<'r, D, I> {
    const fn new(rules: &'r ChainRules, kind: Kind) -> Self {
        Self { rules, kind, of: core::marker::PhantomData }
    }

    /// Mints for the sender of a forced transaction. With `bumps` its nonce grows too.
    fn mint(evm: &mut Vm<D, I>, bumps: bool) -> Result<(), EVMError<D::Error, InvalidTransaction>> {
        let (_, tx, _, journal, _, _) = evm.ctx.all_mut();
        let mint = U256::from(ForcedTx::minted(tx));
        let mut sender = journal.load_account_with_code_mut(tx.caller())?.data;
        sender.incr_balance(mint);
        if bumps {
            sender.bump_nonce();
        }
        Ok(())
    }
}

impl<D: Database, I> Handler for Ruled<'_, D, I> {
    type Evm = Vm<D, I>;
    type Error = EVMError<D::Error, InvalidTransaction>;
    type HaltReason = HaltReason;

    fn validate_env(&self, evm: &mut Self::Evm) -> Result<(), Self::Error> {
        if ForcedTx::is(&evm.ctx.tx) && !self.rules.permits_forced() {
            return Err(no_forced());
        }
        revm::handler::validation::validate_env(&mut evm.ctx)
    }

    fn validate_against_state_and_deduct_caller(
        &self,
        evm: &mut Self::Evm,
        _: &mut InitialAndFloorGas,
    ) -> Result<(), Self::Error> {
        if ForcedTx::is(&evm.ctx.tx) {
            let calls = evm.ctx.tx.kind.is_call();
            return Self::mint(evm, calls);
        }
        let (block, tx, cfg, journal, _, _) = evm.ctx.all_mut();
        let is_signed = self.kind != Kind::Unsigned;
        let is_free = !is_signed && tx.gas_price == 0;
        let extra = if is_free { U256::ZERO } else { self.rules.extra_fee(tx, block) };
        let mut caller = journal.load_account_with_code_mut(tx.caller())?.data;
        if is_signed {
            let is_any = self.rules.contracts_send() || cfg.is_eip3607_disabled();
            let info = &caller.account().info;
            validate_account_nonce_and_code(info, tx.nonce(), is_any, cfg.is_nonce_check_disabled())?;
        }
        let balance = *caller.balance();
        let lacks = || {
            let fee = tx.max_balance_spending().unwrap_or(U256::MAX).saturating_add(extra);
            InvalidTransaction::LackOfFundForMaxFee { fee: Box::new(fee), balance: Box::new(balance) }
        };
        let rest = balance.checked_sub(extra).ok_or_else(lacks)?;
        let rest = calculate_caller_fee(rest, tx, block, cfg).map_err(|error| match error {
            InvalidTransaction::LackOfFundForMaxFee { .. } => lacks(),
            other => other,
        })?;
        caller.set_balance(rest);
        if tx.kind().is_call() {
            caller.bump_nonce();
        }
        Ok(())
    }

    fn reward_beneficiary(&self, evm: &mut Self::Evm, result: &mut FrameResult) -> Result<(), Self::Error> {
        if self.kind == Kind::Unsigned {
            return Ok(());
        }
        let gas = result.gas();
        let used = gas.used().saturating_sub(gas.reservoir());
        let (block, tx, cfg, journal, _, _) = evm.ctx.all_mut();
        let tip = tip(tx, block, cfg.spec, used);
        let Payments { reward, shares } = self.rules.split(tx, block, used, tip);
        for (to, amount) in core::iter::once((block.beneficiary, reward)).chain(shares) {
            match self.kind {
                Kind::Paid => _ = journal.load_account_mut(to)?.incr_balance(amount),
                _ => await_payment(&mut journal.inner, &to),
            }
        }
        Ok(())
    }

    fn catch_error(&self, evm: &mut Self::Evm, error: Self::Error) -> Ran<D> {
        evm.ctx.local.clear();
        evm.ctx.journaled_state.discard_tx();
        evm.frame_stack.clear();
        let is_forced = ForcedTx::is(&evm.ctx.tx) && self.rules.permits_forced();
        match error {
            EVMError::Transaction(_) if is_forced => {
                Self::mint(evm, true)?;
                evm.ctx.journaled_state.commit_tx();
                let gas = ResultGas::default().with_total_gas_spent(evm.ctx.tx.gas_limit);
                let reason = HaltReason::OutOfGas(OutOfGasError::Basic);
                Ok(ExecutionResult::Halt { reason, gas, logs: Vec::new() })
            }
            error => Err(error),
        }
    }
}

impl<D: Database, I: Inspector<MainnetContext<D>>> InspectorHandler for Ruled<'_, D, I> {
    type IT = EthInterpreter;
}
