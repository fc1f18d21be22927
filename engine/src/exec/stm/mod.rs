//! Block-STM on revm: for blocks without useful predictions.
//!
//! An account is two keys. `Basic` is the whole account, `Code` the part that hardly ever changes: code and
//! incarnation. So calling a contract does not depend on payments to it. A change of `Code` changes `Basic`, too: a
//! reader of `Basic` knows both. A slot belongs to an incarnation: once its account has another one it reads as zero,
//! without being touched.
//!
//! A value on disk is read apart: its transaction waits, and others run.
//!
//! Rewards are credits, and so are plain transfers and payments to a contract that does not read its balance: they
//! commute, until the balance is read.

mod pace;
mod transfer;
mod window;

use crate::{
    bal::Footprint,
    exec::{
        block_gas::BlockGas,
        context::ExecContext,
        fast_path::FastPath,
        journal::clear,
        overlay::Overlay,
        run::{After, Run, RunStats, Took},
        serial,
    },
    model::{self, Error, Outcome, payments, reward},
    state::{AccountRules, AccountTransition, CodeId, StateError, Value, named},
};
use alloy_primitives::{Address, KECCAK256_EMPTY, U256};
use pace::Pace;
use parking_lot::Mutex;
use phalanx_access::Salt;
use phalanx_paralyze::{AccountMask as _, ChainRules, Payments, StateKey, Vm, VmConfig, run_unpaid};
use phalanx_parascheduler::{
    Commit, Execution, Interrupt, Program, StmConfig, StmError, StmMemory, StmReport, StmStats, TxIndex, View, Write,
};
use revm::{
    context::TxEnv,
    context_interface::result::{EVMError, InvalidTransaction},
    primitives::TxKind,
    state::{Account, EvmState, TransactionId},
};
use std::sync::Arc;
use window::{Closed, Seen, Unseen, Window};

/// Number of transactions that run ahead of each other; then the next part of the block begins.
const PART: usize = 512;

/// Number of attempts at a transaction before all lower ones are final.
const ATTEMPTS: u32 = 3;

/// The Block-STM executor: one EVM per worker.
#[derive(Debug)]
pub(crate) struct StmExecutor {
    locals: Vec<Local>,
    /// `None` if it is switched off, or the rules do not permit it.
    fast_path: Option<FastPath>,
    memory: StmMemory<StateKey, Value, U256>,
    salt: Salt,
}

/// A worker's EVM.
#[derive(Debug)]
pub(crate) struct Local {
    evm: Vm<Window>,
    /// Rules of the chain's own.
    rules: Option<Arc<ChainRules>>,
}

#[expect(unsafe_code, reason = "revm counts references to its memory buffer without atomics")]
// SAFETY: as for the DAG's workers: every reference is inside, and moves with the whole. The window is closed between
// executions, so it holds no pointer then.
unsafe impl Send for Local {}

impl StmExecutor {
    pub(crate) fn new(cfg: &VmConfig, threads: usize, fast_path: bool, salt: Salt) -> Self {
        let local = || Local { evm: cfg.build_with_account_mask(Window::default()), rules: cfg.shared_rules() };
        let fast_path = FastPath::new(cfg, fast_path);
        let locals = (0..threads).map(|_| local()).collect();
        Self { locals, fast_path, memory: StmMemory::default(), salt }
    }

    /// Executor of plain transfers.
    pub(crate) const fn fast_path(&self) -> Option<&FastPath> {
        self.fast_path.as_ref()
    }

    /// Runs the transactions of `order` on `base`, the state before them, which holds the state after them in the end.
    pub(crate) fn execute<'s>(
        &mut self,
        ctx: &ExecContext<'s>,
        order: Vec<u32>,
        stats: RunStats,
    ) -> Result<Run<'s>, Error> {
        let mut overlay = ctx.overlay();
        let mut gas = ctx.block_gas();
        let (mut outcomes, mut took) = (Vec::with_capacity(order.len()), Took::default());
        let mut pace = Pace::default();
        for part in order.chunks(PART) {
            let in_order = self.locals.len() > 1 && pace.goes_in_order();
            let (ran, part_took) = if !in_order {
                let (ran, took) = self.extend(ctx, part, gas, &mut overlay, ATTEMPTS)?;
                pace.learn(ran.len(), took);
                (ran, took)
            } else if ctx.state.is_on_disk() {
                // One worker counts the values that it waits for.
                let (ran, took) = self.extend_on(1, ctx, part, gas, &mut overlay, ATTEMPTS)?;
                pace.meet_disk(ran.len(), took.waits);
                (ran, took)
            } else {
                let ran = serial::run(&mut overlay, ctx, gas, self.fast_path(), part)?;
                let executions = ran.len();
                (ran, Took { executions, ..Took::default() })
            };
            took.add(part_took);
            for (tx, outcome) in part.iter().zip(&ran) {
                gas.admits(&ctx.txs[*tx as usize]);
                gas.follow(outcome);
            }
            let ended = ran.len() < part.len();
            outcomes.extend(ran);
            if ended {
                break;
            }
        }
        let Took { executions, parked, waits } = took;
        let reexecutions = stats.reexecutions + executions.saturating_sub(order.len());
        let stats = RunStats { critical_path: order.len(), reexecutions, parked, waits, ..stats };
        Ok(Run { order, outcomes: outcomes.into(), after: After::Overlay(overlay), left: Vec::new(), stats })
    }

    /// Runs transactions on an overlay, as far as they are admitted, and leaves their changes in it. Each is attempted
    /// a bounded number of times before all lower ones are final, and once then. Returns their outcomes and what that took.
    pub(crate) fn extend(
        &mut self,
        ctx: &ExecContext<'_>,
        order: &[u32],
        gas: BlockGas,
        overlay: &mut Overlay<'_>,
        attempts: u32,
    ) -> Result<(Vec<Outcome>, Took), Error> {
        self.extend_on(self.locals.len(), ctx, order, gas, overlay, attempts)
    }

    /// As [`Self::extend`], on at most so many workers.
    fn extend_on(
        &mut self,
        workers: usize,
        ctx: &ExecContext<'_>,
        order: &[u32],
        gas: BlockGas,
        overlay: &mut Overlay<'_>,
        attempts: u32,
    ) -> Result<(Vec<Outcome>, Took), Error> {
        let locals = &mut self.locals[..workers];
        let rules = ctx.rules();
        let beneficiary = overlay.get(&StateKey::Basic(ctx.env.beneficiary))?;
        // A zero reward has no effect on an account that exists and is not empty.
        let touch_matters = if rules.clears_empty { beneficiary.is_empty_existing() } else { true };
        for local in &mut *locals {
            local.evm.ctx.block = ctx.env.clone();
            local.evm.ctx.journaled_state.inner.transaction_id = TransactionId::ZERO;
            local.evm.ctx.journaled_state.database.enter(ctx.state.codes(), ctx.state.hashes());
        }
        let gas = Mutex::new(gas);
        let fast_path = self.fast_path.as_ref();
        let program = Block { ctx, order, gas, fast_path, base: overlay, beneficiary, rules, touch_matters };
        let config = StmConfig { schedule_seed: ctx.options.schedule_seed, attempts, ..StmConfig::new(self.salt) };
        let report = ctx.workers.run_stm_in(&mut self.memory, &program, order.len(), locals, &config);
        let StmReport { outputs, writes, stats, .. } = report.map_err(|error| match error {
            StmError::Base { source, .. } => Error::from(source),
            other => Error::Evm { index: 0, reason: other.to_string() },
        })?;
        let mut outcomes = Vec::with_capacity(outputs.len());
        for (index, output) in outputs.into_iter().enumerate() {
            let Executed { outcome, footprint } = output.map_err(|reason| Error::Evm { index, reason })?;
            if let Some((record, footprint)) = ctx.record.zip(footprint) {
                record.put(order[index], *footprint);
            }
            outcomes.push(outcome);
        }
        fold(overlay, &writes);
        let StmStats { executions, parked, waits, .. } = stats;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let took = Took { executions: count(executions - parked), parked: count(parked), waits: count(waits) };
        Ok((outcomes, took))
    }
}

/// Writes the final values into the overlay.
fn fold(overlay: &mut Overlay<'_>, writes: &[(StateKey, Value)]) {
    for (key, value) in writes {
        match key {
            StateKey::Basic(_) | StateKey::Slot(..) => overlay.set(key, value),
            // Part of the account's `Basic`, which was written with it.
            StateKey::Code(_) => {}
        }
    }
}

/// Key of the state whose value contains that of `key`.
const fn whole(key: &StateKey) -> StateKey {
    match key {
        StateKey::Code(address) => StateKey::Basic(*address),
        key => *key,
    }
}

/// Value of `key` in the value of [`whole`].
fn part(key: &StateKey, value: Value) -> Value {
    match key {
        StateKey::Code(_) => Value { code: value.code, incarnation: value.incarnation, ..Value::default() },
        StateKey::Basic(_) | StateKey::Slot(..) => value,
    }
}

/// A transaction that ran, or was found invalid.
struct Executed {
    outcome: Outcome,
    /// Footprint, if it is wanted.
    footprint: Option<Box<Footprint>>,
}

/// A block for Block-STM.
struct Block<'r, 'm, 's, 'o> {
    ctx: &'r ExecContext<'m>,
    order: &'r [u32],
    /// Used by one worker at a time.
    gas: Mutex<BlockGas>,
    fast_path: Option<&'r FastPath>,
    base: &'o Overlay<'s>,
    /// The beneficiary before the transactions, which all of them pay.
    beneficiary: Value,
    rules: AccountRules,
    touch_matters: bool,
}

impl Program for Block<'_, '_, '_, '_> {
    type Key = StateKey;
    type Value = Value;
    type Credit = U256;
    /// Outcome of the transaction, or the reason why the EVM failed.
    type Output = Result<Executed, String>;
    type Error = StateError;
    type Local = Local;

    fn base(&self, key: &StateKey) -> Result<Value, StateError> {
        self.base.get(&whole(key)).map(|value| part(key, value))
    }

    fn reads_apart(&self) -> bool {
        self.ctx.state.is_on_disk()
    }

    fn at_hand(&self, key: &StateKey) -> Result<Option<Value>, StateError> {
        let whole = whole(key);
        let value = match whole {
            StateKey::Basic(address) if address == self.ctx.env.beneficiary => Some(self.beneficiary),
            _ => self.base.at_hand(&whole)?,
        };
        Ok(value.map(|value| part(key, value)))
    }

    fn named(&self, index: TxIndex, name: &mut dyn FnMut(&StateKey)) {
        named(&self.ctx.txs[self.order[index.index()] as usize], |key| name(&key));
    }

    fn read_apart(&self, keys: &[StateKey], found: &mut dyn FnMut(&StateKey, Value)) {
        let mut names: Vec<StateKey> = keys.iter().map(whole).collect();
        names.sort_unstable();
        names.dedup();
        // What cannot be read is missing when a transaction needs it, which reports the error.
        let Ok(values) = self.base.get_many(&names) else { return };
        for (name, value) in names.iter().zip(values) {
            found(name, value);
            // An account is two keys, and most transactions that need one of them need the other.
            if let StateKey::Basic(address) = name {
                let code = StateKey::Code(*address);
                found(&code, part(&code, value));
            }
        }
    }

    fn reader_begins(&self) {
        self.ctx.state.thread_begins();
    }

    fn credited(&self, value: &Value, credit: &U256) -> Option<Value> {
        Some(Value { number: value.number.checked_add(*credit)?, exists: true, ..*value })
    }

    /// Key to which all rewards are credited.
    fn tally(&self) -> Option<StateKey> {
        Some(StateKey::Basic(self.ctx.env.beneficiary))
    }

    fn execute(
        &self,
        local: &mut Local,
        index: TxIndex,
        view: &mut View<'_, Self>,
    ) -> Result<Execution<Self>, Interrupt> {
        let tx = &self.ctx.txs[self.order[index.index()] as usize];
        if let Some(path) = self.fast_path.filter(|_| !view.exact())
            && let Some(execution) = self.transfer(path, tx, view)?
        {
            return Ok(execution);
        }
        let unseen = if view.exact() { Unseen::default() } else { self.unseen(tx) };
        let mut seen = |key: &StateKey| view.read(key).ok();
        let (mut executed, mut blind) = local.run(tx, unseen, &mut seen);
        if local.evm.ctx.journaled_state.database.has_overflowed() {
            // The effect depends on the balance from the first payment on.
            clear(&mut local.evm.ctx.journaled_state.inner.state);
            (executed, blind) = local.run(tx, Unseen::default(), &mut seen);
        }
        let execution = match executed {
            Err(EVMError::Database(_)) => None,
            Err(EVMError::Transaction(reason)) => {
                Some((Ok(Executed { outcome: Outcome::Skipped(reason), footprint: None }), Vec::new()))
            }
            Err(other) => Some((Err(other.to_string()), Vec::new())),
            Ok(outcome) => {
                let mut paid = self.payments(tx, &outcome);
                let journal = &local.evm.ctx.journaled_state;
                let state = &journal.inner.state;
                let mut writes = Vec::new();
                let mut code = |address: &Address| match journal.database.met(address) {
                    Some(met) => Some(met),
                    None => view.read(&StateKey::Code(*address)).ok(),
                };
                // revm pays an account that the transaction has destroyed, and the payment goes with it.
                let destroys = |address: &Address| state.get(address).is_some_and(Account::is_selfdestructed);
                paid.shares.retain(|(to, _)| !destroys(to));
                let is_lost = destroys(&self.ctx.env.beneficiary);
                let is_masked = |address: &Address| journal.database.is_masked(address);
                self.collect(state, blind, is_masked, &paid, &mut code, &mut writes)
                    .and_then(|()| self.pay_all(&paid, is_lost, view, &mut writes).ok())
                    .map(|()| (Ok(Executed { footprint: self.footprint(state, blind, paid), outcome }), writes))
            }
        };
        clear(&mut local.evm.ctx.journaled_state.inner.state);
        match execution {
            Some((output, writes)) => Ok(Execution { output, writes }),
            // Only the view can have refused, and it remembers the reason.
            None => match view.check() {
                Err(interrupt) => Err(interrupt),
                Ok(()) => Ok(Execution { output: Err("code is missing".into()), writes: Vec::new() }),
            },
        }
    }

    fn commit(&self, index: TxIndex, output: &Self::Output) -> Commit {
        let mut gas = self.gas.lock();
        if !gas.admits(&self.ctx.txs[self.order[index.index()] as usize]) {
            return Commit::StopBefore;
        }
        match output {
            Ok(executed) => gas.follow(&executed.outcome),
            Err(_) => return Commit::StopAfter,
        }
        if gas.has_ended() { Commit::StopAfter } else { Commit::Continue }
    }
}

type Writes = Vec<(StateKey, Write<Value, U256>)>;

impl Block<'_, '_, '_, '_> {
    /// Parts of the state that a transaction need not see.
    fn unseen(&self, tx: &TxEnv) -> Unseen {
        let ExecContext { cfg, record, .. } = *self.ctx;
        // Footprints contain earlier balances of contracts; the chain's own precompiles and foreign EVMs read without notice.
        let has_own_evm = cfg.rules().is_some_and(|rules| rules.evm().is_some());
        let masks = record.is_none() && !cfg.has_precompiles() && !has_own_evm;
        // A transfer that sees whether its receiver is empty sees the whole account.
        let blind = cfg.plain_receiver(tx).filter(|_| !self.rules.prices_new);
        Unseen { blind, but: masks.then_some(tx.caller) }
    }

    /// Footprint of a finished transaction, if it is wanted.
    fn footprint(&self, state: &EvmState, blind: Option<Address>, paid: Payments) -> Option<Box<Footprint>> {
        self.ctx.record.map(|_| {
            let beneficiary = &self.ctx.env.beneficiary;
            let is_blind = |address: &Address| Some(*address) == blind;
            let Payments { reward, shares } = paid;
            Box::new(Footprint::unpaid(state, self.rules, is_blind, beneficiary, reward).with_shares(shares))
        })
    }

    /// Changes of a finished transaction; `code` returns code and incarnation of an account before it. `None` if that
    /// refuses. `is_masked` tells of which contracts it read neither balance nor nonce.
    fn collect(
        &self,
        state: &EvmState,
        blind: Option<Address>,
        is_masked: impl Fn(&Address) -> bool,
        paid: &Payments,
        code: &mut dyn FnMut(&Address) -> Option<Value>,
        writes: &mut Writes,
    ) -> Option<()> {
        for (address, account) in state.iter().filter(|(_, account)| account.is_touched()) {
            let basic = StateKey::Basic(*address);
            if Some(*address) == blind {
                // The account was shown as empty, so its present balance was added.
                if !account.info.balance.is_zero() {
                    writes.push((basic, Write::Credit(account.info.balance)));
                }
                continue;
            }
            if !self.rules.counts(account) {
                continue;
            }
            let before = code(address)?;
            // A payment, which is still to come, saves an empty account and its storage.
            let is_paid = *address == self.ctx.env.beneficiary && !paid.reward.is_zero()
                || paid.shares.iter().any(|(to, _)| to == address);
            let is_saved = is_paid && !account.is_selfdestructed() && !account.is_created();
            let incarnation = before.incarnation + u32::from(!is_saved && self.rules.resets_storage(account));
            let existed = !account.is_loaded_as_not_existing();
            let gone = self.rules.transition(account) == AccountTransition::Gone;
            let after = self.code(account, gone, before);
            if after != before.code || incarnation != before.incarnation {
                let value = Value { code: after, incarnation, ..Value::default() };
                writes.push((StateKey::Code(*address), Write::Value(value)));
            }
            if gone {
                if existed {
                    writes.push((basic, Write::Value(Value { incarnation, ..Value::default() })));
                }
                continue;
            }
            if is_masked(address) {
                // Likewise for a contract that has not changed otherwise.
                if !account.info.balance.is_zero() {
                    writes.push((basic, Write::Credit(account.info.balance)));
                }
            } else if !existed || account.is_changed() || account.is_created() {
                let (number, nonce) = (account.info.balance, account.info.nonce);
                let value = Value { number, nonce, code: after, exists: true, incarnation };
                writes.push((basic, Write::Value(value)));
            }
            for (slot, value) in account.storage.iter().filter(|(_, value)| value.is_changed()) {
                let number = value.present_value;
                let value = Value { number, exists: true, incarnation, ..Value::default() };
                writes.push((StateKey::Slot(*address, *slot), Write::Value(value)));
            }
        }
        Some(())
    }

    fn code(&self, account: &Account, gone: bool, before: Value) -> CodeId {
        let info = &account.info;
        if gone || info.code_hash == KECCAK256_EMPTY {
            return CodeId::NONE;
        }
        if !account.is_created() && info.code_hash == account.original_info().code_hash {
            return before.code;
        }
        match &info.code {
            Some(code) => self.ctx.state.codes().insert(info.code_hash, code.clone()),
            None => before.code,
        }
    }

    /// Payments of an executed transaction.
    fn payments(&self, tx: &TxEnv, outcome: &Outcome) -> Payments {
        let env = self.ctx.env;
        let reward = reward(tx, env, outcome);
        match self.ctx.cfg.rules() {
            None => Payments { reward, shares: Vec::new() },
            Some(rules) => payments(rules, tx, env, outcome, reward),
        }
    }

    /// Makes all payments; that of the beneficiary unless it `is_lost`.
    fn pay_all(
        &self,
        paid: &Payments,
        is_lost: bool,
        view: &mut View<'_, Self>,
        writes: &mut Writes,
    ) -> Result<(), Interrupt> {
        if !is_lost {
            self.pay(self.ctx.env.beneficiary, paid.reward, view, writes)?;
        }
        paid.shares.iter().try_for_each(|(to, amount)| self.pay(*to, *amount, view, writes))
    }

    /// Pays an account. A payment of zero is the beneficiary's.
    fn pay(&self, to: Address, paid: U256, view: &mut View<'_, Self>, writes: &mut Writes) -> Result<(), Interrupt> {
        let key = StateKey::Basic(to);
        if let Some((_, write)) = writes.iter_mut().find(|(written, _)| *written == key) {
            match write {
                Write::Value(value) => {
                    value.number = model::paid(value.number, paid);
                    value.exists |= !paid.is_zero();
                }
                // Both together pass 2^256 only if the second alone will, wherever they are added.
                Write::Credit(credit) => *credit = model::paid(*credit, paid),
            }
            return Ok(());
        }
        if !view.exact() && !paid.is_zero() {
            writes.push((key, Write::Credit(paid)));
        } else if !paid.is_zero() || self.touch_matters {
            let value = view.read(&key)?;
            let number = model::paid(value.number, paid);
            let mut value =
                Value { number, exists: value.exists || !paid.is_zero() || !self.rules.clears_empty, ..value };
            if value.is_empty_existing() && self.rules.clears_empty {
                let incarnation = value.incarnation + u32::from(self.rules.bare_storage);
                value = Value { incarnation, ..Value::default() };
                if self.rules.bare_storage {
                    writes.push((StateKey::Code(to), Write::Value(value)));
                }
            }
            writes.push((key, Write::Value(value)));
        }
        Ok(())
    }
}

impl Local {
    /// Runs a transaction; its changes stay in the journal, to be cleared by the caller. Returns also the account that
    /// was shown as empty, if any was.
    fn run(&mut self, tx: &TxEnv, unseen: Unseen, seen: Seen<'_>) -> (Result<Outcome, Failure>, Option<Address>) {
        let rules = self.rules.as_deref();
        self.evm.ctx.tx.clone_from(tx);
        Window::with_open(
            &mut self.evm,
            |evm| &mut evm.ctx.journaled_state.database,
            unseen,
            seen,
            |evm| {
                if let TxKind::Call(to) = tx.kind
                    && !tx.value.is_zero()
                {
                    evm.ctx.journaled_state.database.pays(to, tx.value);
                }
                let result = run_unpaid(rules, evm).map(Outcome::Executed).and_then(|outcome| {
                    let journal = &mut evm.ctx.journaled_state;
                    let state = &journal.inner.state;
                    let gained =
                        |address: &Address| state.get(address).map_or(U256::ZERO, |account| account.info.balance);
                    journal.database.end(gained).map(|()| outcome).map_err(EVMError::Database)
                });
                (result, evm.ctx.journaled_state.database.blind())
            },
        )
    }
}

/// Reason why an execution has no outcome.
type Failure = EVMError<Closed, InvalidTransaction>;
