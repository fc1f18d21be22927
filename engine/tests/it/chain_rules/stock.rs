//! The test's chain on a plain revm loop, with a handler of its own that shares nothing with the engine's.

use phalanx::{
    GenesisAccount, Outcome,
    revm::{
        Context, DatabaseCommit as _, DatabaseRef as _, ExecuteEvm as _, MainBuilder as _, MainContext as _,
        context::{BlockEnv, CfgEnv, ContextSetters as _, TxEnv},
        context_interface::{
            ContextTr as _, JournalTr as _, LocalContextTr as _, Transaction as _,
            journaled_state::account::JournaledAccountTr as _,
            result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction, OutOfGasError, ResultGas},
        },
        database::{CacheDB, EmptyDB},
        handler::{FrameResult, Handler, MainnetContext, MainnetEvm, pre_execution, validation},
        interpreter::InitialAndFloorGas,
        primitives::{Address, TxKind, U256},
        state::{AccountInfo, Bytecode, EvmState},
    },
};
use std::collections::BTreeMap;

/// Fees of the test's chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fees {
    /// Account that gets 4 of 10 of each tip.
    pub(super) treasury: Address,
    /// Account that gets 3 of 4 of the base fee.
    pub(super) vault: Address,
    /// Account that gets the extra fee, if there is one.
    pub(super) data: Option<Address>,
}

/// Extra fee of a transaction.
pub(super) fn data_fee(tx: &TxEnv) -> U256 {
    U256::from(1_000 + 16 * tx.data.len() as u64)
}

pub(super) type Db = CacheDB<EmptyDB>;

struct Own {
    fees: Fees,
}

const fn is_forced(tx: &TxEnv) -> bool {
    tx.tx_type == 0x7e
}

impl Own {
    fn extra(&self, tx: &TxEnv) -> U256 {
        if self.fees.data.is_some() && !is_forced(tx) { data_fee(tx) } else { U256::ZERO }
    }
}

impl Handler for Own {
    type Evm = MainnetEvm<MainnetContext<Db>>;
    type Error = EVMError<core::convert::Infallible, InvalidTransaction>;
    type HaltReason = HaltReason;

    fn validate_against_state_and_deduct_caller(
        &self,
        evm: &mut Self::Evm,
        _: &mut InitialAndFloorGas,
    ) -> Result<(), Self::Error> {
        let tx = evm.ctx.tx.clone();
        if is_forced(&tx) {
            let mut from = evm.ctx.journaled_state.load_account_mut(tx.caller)?;
            from.incr_balance(U256::from(tx.max_fee_per_blob_gas));
            if matches!(tx.kind, TxKind::Call(_)) {
                from.bump_nonce();
            }
            return Ok(());
        }
        let extra = self.extra(&tx);
        let info = evm.ctx.journaled_state.load_account_with_code_mut(tx.caller)?.data.account().info.clone();
        pre_execution::validate_account_nonce_and_code(&info, tx.nonce, false, false)?;
        let most = tx.max_balance_spending()?.saturating_add(extra);
        if info.balance < most {
            let (fee, balance) = (Box::new(most), Box::new(info.balance));
            return Err(InvalidTransaction::LackOfFundForMaxFee { fee, balance }.into());
        }
        pre_execution::validate_against_state_and_deduct_caller::<_, Self::Error>(&mut evm.ctx)?;
        evm.ctx.journaled_state.load_account_mut(tx.caller)?.decr_balance(extra);
        Ok(())
    }

    fn reward_beneficiary(&self, evm: &mut Self::Evm, result: &mut FrameResult) -> Result<(), Self::Error> {
        let (tx, env) = (evm.ctx.tx.clone(), evm.ctx.block.clone());
        let used = u128::from(result.gas().used());
        let base = u128::from(env.basefee);
        let price = tx.effective_gas_price(base);
        let tip = price.saturating_sub(base) * used;
        let burned = if is_forced(&tx) { 0 } else { base * used };
        let to_treasury = tip * 4 / 10;
        let Fees { treasury, vault, data } = self.fees;
        let journal = &mut evm.ctx.journaled_state;
        journal.load_account_mut(env.beneficiary)?.incr_balance(U256::from(tip - to_treasury));
        let extra = self.extra(&tx);
        let paid =
            [(Some(treasury), U256::from(to_treasury)), (Some(vault), U256::from(burned * 3 / 4)), (data, extra)];
        for (to, amount) in paid.into_iter().filter(|(_, amount)| !amount.is_zero()) {
            journal.load_account_mut(to.expect("a recipient"))?.incr_balance(amount);
        }
        Ok(())
    }

    fn catch_error(&self, evm: &mut Self::Evm, error: Self::Error) -> Result<ExecutionResult, Self::Error> {
        evm.ctx.local_mut().clear();
        evm.ctx.journaled_state.discard_tx();
        evm.frame_stack.clear();
        let tx = evm.ctx.tx.clone();
        if !is_forced(&tx) || !matches!(error, EVMError::Transaction(_)) {
            return Err(error);
        }
        let mut from = evm.ctx.journaled_state.load_account_mut(tx.caller)?;
        from.incr_balance(U256::from(tx.max_fee_per_blob_gas));
        from.bump_nonce();
        evm.ctx.journaled_state.commit_tx();
        let gas = ResultGas::default().with_total_gas_spent(tx.gas_limit);
        Ok(ExecutionResult::Halt { reason: HaltReason::OutOfGas(OutOfGasError::Basic), gas, logs: Vec::new() })
    }

    fn validate_env(&self, evm: &mut Self::Evm) -> Result<(), Self::Error> {
        validation::validate_env(&mut evm.ctx)
    }
}

/// State and outcomes after blocks.
pub(super) struct Truth {
    pub(super) outcomes: Vec<Outcome>,
    /// Accounts: balance, nonce, slots.
    pub(super) accounts: BTreeMap<Address, (U256, u64, BTreeMap<U256, U256>)>,
    /// Balance of the treasury after each transaction.
    pub(super) treasury: Vec<U256>,
}

/// A transaction of the loop, and what it does.
pub(super) struct Step<'a> {
    /// State before.
    pub(super) db: &'a Db,
    pub(super) env: &'a BlockEnv,
    pub(super) tx: &'a TxEnv,
    pub(super) result: &'a Result<ExecutionResult, InvalidTransaction>,
    /// Accounts that it loads, afterwards.
    pub(super) state: &'a EvmState,
}

/// Runs blocks on a genesis.
pub(super) fn run(genesis: &[GenesisAccount], cfg: &CfgEnv, fees: Fees, blocks: &[(BlockEnv, Vec<TxEnv>)]) -> Truth {
    run_watched(genesis, cfg, fees, blocks, |_| {})
}

/// Runs like [`run`], and shows each transaction before its changes are made.
pub(super) fn run_watched(
    genesis: &[GenesisAccount],
    cfg: &CfgEnv,
    fees: Fees,
    blocks: &[(BlockEnv, Vec<TxEnv>)],
    mut watch: impl FnMut(Step<'_>),
) -> Truth {
    let mut db = CacheDB::new(EmptyDB::default());
    for GenesisAccount { address, balance, nonce, code, .. } in genesis {
        let info = AccountInfo { balance: *balance, nonce: *nonce, ..AccountInfo::default() };
        db.insert_account_info(
            *address,
            match code {
                Some(code) => info.with_code(Bytecode::new_raw(code.clone())),
                None => info,
            },
        );
    }
    let mut evm = Context::mainnet().with_db(db).with_cfg(cfg.clone()).build_mainnet();
    let (mut outcomes, mut treasury) = (Vec::new(), Vec::new());
    for (env, txs) in blocks {
        evm.ctx.block = env.clone();
        for tx in txs {
            evm.ctx.set_tx(tx.clone());
            let result = Own { fees }.run(&mut evm);
            let state = evm.finalize();
            let result = result.map_err(|error| match error {
                EVMError::Transaction(reason) => reason,
                other => panic!("{other:?}"),
            });
            let db = &evm.ctx.journaled_state.database;
            watch(Step { db, env, tx, result: &result, state: &state });
            match result {
                Ok(result) => {
                    evm.ctx.journaled_state.database.commit(state);
                    outcomes.push(Outcome::Executed(result));
                }
                Err(reason) => outcomes.push(Outcome::Skipped(reason)),
            }
            let held = evm.ctx.journaled_state.database.basic_ref(fees.treasury).expect("readable");
            treasury.push(held.map_or(U256::ZERO, |info| info.balance));
        }
    }
    let accounts = evm.ctx.journaled_state.database.cache.accounts.iter().map(|(address, account)| {
        let info = account.info().unwrap_or_default();
        let slots = account.storage.iter().map(|(slot, value)| (*slot, *value)).collect();
        (*address, (info.balance, info.nonce, slots))
    });
    Truth { outcomes, accounts: accounts.collect(), treasury }
}
