//! Runs all transactions of a block at once, each on the list's values of the steps before it.

mod transfer;
mod view;

use self::view::{ListView, Refused};
use crate::{
    bal::{Check, Values, effects::tell},
    model::AccessListFault,
};
use crate::{
    exec::{context::ExecContext, fast_path::FastPath, journal::clear},
    model::{Error, GasRules, Outcome, Txs, reward},
    state::AccountRules,
};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use phalanx_paralyze::{DeferredReward, Vm, VmConfig};
use revm::{
    context::TxEnv,
    context_interface::result::EVMError,
    state::{Account, EvmState, TransactionId},
};
use std::sync::Arc;

/// The executor: an EVM per worker.
#[derive(Debug)]
pub(crate) struct ListExecutor {
    lanes: Vec<Lane>,
    /// `None` if it is switched off, or the rules do not permit it.
    fast_path: Option<FastPath>,
}

/// A worker's EVM.
#[derive(Debug)]
struct Lane {
    evm: Vm<ListView>,
    done: Vec<(usize, Did)>,
}

#[expect(unsafe_code, reason = "revm counts references to its memory buffer without atomics")]
// SAFETY: as for the DAG's workers: every reference is inside, and moves with the whole.
unsafe impl Send for Lane {}

/// Result of one transaction.
#[derive(Debug)]
enum Did {
    /// The transaction follows the list.
    Right(Outcome),
    /// The block stops here.
    Stop(Stop),
}

/// Reason why a block stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The transaction departs from the list.
    Fault(AccessListFault),
    /// The transaction emptied the storage of an account, which a list cannot express.
    Emptied,
    /// The EVM failed for a reason that is not the block's.
    Failed(String),
}

/// Result of a run on a list.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Outcomes of the transactions before the first that stopped the block, or of all.
    pub(crate) outcomes: Vec<Outcome>,
    /// Reason why the next one stopped it; `None` also if it was invalid, or if there is no next one.
    pub(crate) stop: Option<Stop>,
}

/// State that the lanes share.
struct Course<'a> {
    next: AtomicUsize,
    /// Index of the lowest transaction that stopped the block.
    end: AtomicUsize,
    /// Gas used so far. Transactions start in order: if the sum exceeds the block's limit, the block ends at a started
    /// transaction, and no other need start.
    spent: AtomicU64,
    gas: u64,
    txs: Txs<'a>,
    values: &'a Arc<Values>,
    rules: AccountRules,
    gas_rules: GasRules,
    fast_path: Option<&'a FastPath>,
}

impl ListExecutor {
    pub(crate) fn new(cfg: &VmConfig, threads: usize, fast_path: bool) -> Self {
        let lane = || Lane { evm: cfg.build(ListView::default()), done: Vec::new() };
        let fast_path = FastPath::new(cfg, fast_path);
        Self { lanes: (0..threads).map(|_| lane()).collect(), fast_path }
    }

    /// Runs the transactions of a block, in the current rayon pool. `values` holds the state before them at index 1, in
    /// which no existing account is empty.
    ///
    /// The result does not depend on threads: the effects of a transaction follow from the values alone, all
    /// transactions below the first stop have run, and the others' effects are dropped.
    ///
    /// # Errors
    /// The EVM failed.
    pub(crate) fn execute(&mut self, ctx: &ExecContext<'_>, values: &Arc<Values>) -> Result<Ended, Error> {
        let txs = ctx.txs;
        let course = Course {
            next: AtomicUsize::new(0),
            end: AtomicUsize::new(txs.len()),
            spent: AtomicU64::new(0),
            gas: ctx.gas.unwrap_or(u64::MAX),
            txs,
            values,
            rules: ctx.rules(),
            gas_rules: ctx.gas_rules,
            fast_path: self.fast_path.as_ref(),
        };
        rayon::scope(|scope| {
            for lane in &mut self.lanes {
                lane.evm.ctx.block = ctx.env.clone();
                let course = &course;
                scope.spawn(move |_| lane.run(course));
            }
        });
        let mut all: Vec<Option<Did>> = Vec::new();
        all.resize_with(txs.len(), || None);
        for lane in &mut self.lanes {
            for (index, did) in lane.done.drain(..) {
                all[index] = Some(did);
            }
        }
        let mut outcomes = Vec::with_capacity(txs.len());
        for (index, did) in all.into_iter().enumerate() {
            match did {
                Some(Did::Right(outcome)) => {
                    let invalid = outcome.result().is_none();
                    outcomes.push(outcome);
                    if invalid {
                        break;
                    }
                }
                Some(Did::Stop(Stop::Failed(reason))) => return Err(Error::Evm { index, reason }),
                Some(Did::Stop(stop)) => return Ok(Ended { outcomes, stop: Some(stop) }),
                None => break,
            }
        }
        Ok(Ended { outcomes, stop: None })
    }
}

impl Lane {
    fn run(&mut self, course: &Course<'_>) {
        self.done.clear();
        let journal = &mut self.evm.ctx.journaled_state;
        journal.inner.transaction_id = TransactionId::ZERO;
        // A panic may have left changes here.
        journal.inner.state.clear();
        journal.database.enter(Arc::clone(course.values));
        while course.spent.load(Ordering::Relaxed) <= course.gas {
            let index = course.next.fetch_add(1, Ordering::Relaxed);
            if index >= course.txs.len() || index > course.end.load(Ordering::Relaxed) {
                break;
            }
            if course.txs[index].gas_limit > course.gas {
                // The block ends here at the latest.
                course.end.fetch_min(index, Ordering::Relaxed);
                break;
            }
            let did = self.transact(index, course);
            match &did {
                Did::Right(outcome) if outcome.result().is_some() => {
                    course.spent.fetch_add(course.gas_rules.used(outcome).execution, Ordering::Relaxed);
                }
                _ => _ = course.end.fetch_min(index, Ordering::Relaxed),
            }
            self.done.push((index, did));
        }
        self.evm.ctx.journaled_state.database.leave();
    }

    fn transact(&mut self, index: usize, course: &Course<'_>) -> Did {
        let tx = &course.txs[index];
        let place = index as u64 + 1;
        let quick = |path| transfer::run(path, course.values, place, tx, &self.evm.ctx.block);
        if let Some((outcome, judged)) = course.fast_path.and_then(quick) {
            return match judged {
                Ok(()) => Did::Right(outcome),
                Err(fault) => Did::Stop(Stop::Fault(fault)),
            };
        }
        self.evm.ctx.journaled_state.database.show(place);
        self.evm.ctx.tx.clone_from(tx);
        let result = DeferredReward::run(&mut self.evm);
        let state = &self.evm.ctx.journaled_state.inner.state;
        let did = match result {
            Ok(result) => {
                let outcome = Outcome::Executed(result);
                match self.judge(state, tx, place, &outcome, course) {
                    Ok(()) => Did::Right(outcome),
                    Err(stop) => Did::Stop(stop),
                }
            }
            Err(EVMError::Transaction(reason)) => Did::Right(Outcome::Skipped(reason)),
            Err(EVMError::Database(Refused::Unlisted(fault))) => Did::Stop(Stop::Fault(fault)),
            Err(other) => Did::Stop(Stop::Failed(other.to_string())),
        };
        clear(&mut self.evm.ctx.journaled_state.inner.state);
        did
    }

    /// Compares the effects of a transaction with the list.
    fn judge(
        &self,
        state: &EvmState,
        tx: &TxEnv,
        place: u64,
        outcome: &Outcome,
        course: &Course<'_>,
    ) -> Result<(), Stop> {
        let env = &self.evm.ctx.block;
        let mut check = Check::new(course.values, place, Some(env.beneficiary));
        tell(state, course.rules, |_| false, &mut check);
        // revm pays an account that the transaction has destroyed, and the reward goes with it.
        if !state.get(&env.beneficiary).is_some_and(Account::is_selfdestructed) {
            check.pay(reward(tx, env, outcome));
        }
        check.finish().map_err(Stop::Fault)?;
        if state.values().any(|account| account.is_touched() && course.rules.resets_storage(account)) {
            return Err(Stop::Emptied);
        }
        Ok(())
    }
}
