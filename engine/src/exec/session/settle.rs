//! Settles a parallel wave with escapes, in a given order: one pass over the block, in order, keeps every result that
//! is still right and runs the others again, without restriction. No transaction runs a third time.
//!
//! Two states are followed: the *truth*, and the *wave* at the same place. They differ in few keys, which have
//! **drifted**: a transaction that escaped the wave, or was wrong there, has changed them. A result of the wave is
//! right if no key that its transaction could see has drifted; then its logged changes are the truth's too.

use crate::{
    bal::Footprint,
    exec::{
        block_gas::BlockGas,
        context::ExecContext,
        dag::view::{Change, Shared},
        overlay::Overlay,
        serial::Sequential,
    },
    model::{Error, Fault, Outcome, payments, reward},
    state::{StateError, Value},
};
use alloy_primitives::{Address, U256, map::HashSet};
use phalanx_access::Access;
use phalanx_paralyze::StateKey;
use revm::{primitives::map::HashMap, state::EvmState};

/// A transaction that ran in the wave, and its published changes.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) outcome: Outcome,
    pub(crate) changes: Vec<Change>,
}

/// State of the pass over a block.
pub(crate) struct Settlement<'m, 's> {
    ctx: &'m ExecContext<'s>,
    order: &'m [u32],
    shared: &'m Shared,
    /// Values of the wave where they differ from the truth.
    drifted: HashMap<StateKey, Value>,
    /// Accounts that have lost their storage in truth.
    emptied: HashSet<Address>,
    /// Number of transactions that were executed a second time.
    pub(crate) reexecutions: usize,
}

impl<'m, 's> Settlement<'m, 's> {
    pub(crate) fn new(ctx: &'m ExecContext<'s>, order: &'m [u32], shared: &'m Shared) -> Self {
        let (drifted, emptied) = (HashMap::default(), HashSet::default());
        Self { ctx, order, shared, drifted, emptied, reexecutions: 0 }
    }

    /// Settles the transactions of `wave`, the first of the block, on `truth`, the state before it, as far as they are
    /// admitted.
    ///
    /// # Errors
    /// The store is corrupt or the EVM fails.
    pub(crate) fn settle(
        &mut self,
        truth: &mut Overlay<'_>,
        gas: &mut BlockGas,
        wave: impl IntoIterator<Item = Option<Settled>>,
    ) -> Result<Vec<Outcome>, Error> {
        let ExecContext { cfg, env, txs, record, .. } = *self.ctx;
        let mut truth = Sequential::new(truth, cfg, env);
        let mut outcomes = Vec::with_capacity(self.order.len());
        for (index, settled) in wave.into_iter().enumerate() {
            let tx = &txs[self.order[index] as usize];
            if !gas.admits(tx) {
                break;
            }
            let outcome = match settled {
                Some(settled) if self.holds(truth.overlay(), index, &settled.changes)? => {
                    self.keep(truth.overlay(), index, &settled)?;
                    settled.outcome
                }
                settled => {
                    let (outcome, state) = truth.run(index, tx)?;
                    if let Some(record) = record {
                        record.put(self.order[index], Footprint::paid(&state, truth.overlay().rules()));
                    }
                    self.reexecutions += usize::from(settled.is_some());
                    let published = settled.map(|settled| settled.changes).unwrap_or_default();
                    self.replace(truth.overlay(), &state, &published)?;
                    outcome
                }
            };
            gas.follow(&outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// True if a transaction of the wave would do the same in truth.
    fn holds(&self, truth: &Overlay<'_>, index: usize, published: &[Change]) -> Result<bool, StateError> {
        Ok(self.saw_truth(truth, index)? && self.credits_fit(truth, published)?)
    }

    /// True if no key that a transaction of the wave could see has drifted.
    fn saw_truth(&self, truth: &Overlay<'_>, index: usize) -> Result<bool, StateError> {
        if (self.drifted.is_empty() && self.emptied.is_empty()) || Fault::SettledDrift.is_seeded() {
            return Ok(true);
        }
        for (id, access) in self.shared.sets.get(index) {
            let key = &self.shared.keys[id.index()];
            if self.emptied.contains(key.address()) {
                return Ok(false);
            }
            let seen = match key {
                // Part of an account that is stored in its `Basic`.
                StateKey::Code(address) => StateKey::Basic(*address),
                key => *key,
            };
            if self.drifted.contains_key(&seen) {
                // A creditor sees only that the account has no code and is not empty; where a new account costs no more, it may be absent.
                let value = truth.get(&seen)?;
                let is_empty = if self.shared.rules.prices_new { value.is_empty() } else { value.is_empty_existing() };
                if *access != Access::Credit || !value.code.is_none() || is_empty {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// True if no credit passes 2^256, which makes a transfer fail. Earlier rewards count, which the wave may have
    /// deferred.
    fn credits_fit(&self, truth: &Overlay<'_>, published: &[Change]) -> Result<bool, StateError> {
        for change in published {
            if let Change::Credit(id, amount) = change {
                let value = truth.get(&self.shared.keys[id.index()])?;
                if value.number.checked_add(*amount).is_none() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Keeps a result that holds: its changes are true.
    fn keep(&mut self, truth: &mut Overlay<'_>, index: usize, settled: &Settled) -> Result<(), StateError> {
        for change in &settled.changes {
            match *change {
                Change::Store(id, value) => {
                    let key = &self.shared.keys[id.index()];
                    truth.set(key, &Value { incarnation: truth.incarnation(key.address()), ..value });
                    self.drifted.remove(key);
                }
                Change::Credit(id, amount) => {
                    let key = &self.shared.keys[id.index()];
                    truth.pay(*key.address(), amount)?;
                    if let Some(value) = self.drifted.get_mut(key) {
                        credit(value, amount);
                    }
                }
            }
        }
        let ExecContext { cfg, env, txs, .. } = *self.ctx;
        let earned = match &self.shared.rewards {
            Some(noted) => noted.of(index),
            None => settled.outcome.result().map(|_| {
                let (tx, outcome) = (&txs[self.order[index] as usize], &settled.outcome);
                let reward = reward(tx, env, outcome);
                // Shares are among the changes.
                cfg.rules().map_or(reward, |rules| payments(rules, tx, env, outcome, reward).reward)
            }),
        };
        if let Some(earned) = earned {
            // No transaction in the wave reads the beneficiary behind the first escaped one, for which the read would
            // wait. Before it only an overflowing credit lets anything drift, which a later read would have seen as
            // well. So the wave's value of its balance does not matter.
            truth.pay(env.beneficiary, earned)?;
        }
        Ok(())
    }

    /// Replaces a result that does not hold: `state` holds the transaction's true changes, `published` those of the
    /// wave.
    fn replace(&mut self, truth: &mut Overlay<'_>, state: &EvmState, published: &[Change]) -> Result<(), StateError> {
        let mut wave: HashMap<StateKey, Value> = HashMap::default();
        for (address, account) in state.iter().filter(|(_, account)| account.is_touched()) {
            let slots = account.storage.iter().filter(|(_, slot)| slot.is_changed());
            let keys = slots.map(|(slot, _)| StateKey::Slot(*address, *slot));
            for key in core::iter::once(StateKey::Basic(*address)).chain(keys) {
                wave.insert(key, self.wave(truth, &key)?);
            }
        }
        for change in published {
            let (Change::Store(id, _) | Change::Credit(id, _)) = change;
            let key = self.shared.keys[id.index()];
            let mut value = self.wave(truth, &key)?;
            match *change {
                Change::Store(_, stored) => value = Value { incarnation: value.incarnation, ..stored },
                Change::Credit(_, amount) => credit(&mut value, amount),
            }
            wave.insert(key, value);
        }
        let before: Vec<(Address, u32)> = state.keys().map(|address| (*address, truth.incarnation(address))).collect();
        truth.commit(state);
        let emptied = before.into_iter().filter(|(address, before)| truth.incarnation(address) != *before);
        self.emptied.extend(emptied.map(|(address, _)| address));
        for (key, value) in wave {
            if truth.get(&key)? == value {
                self.drifted.remove(&key);
            } else {
                self.drifted.insert(key, value);
            }
        }
        Ok(())
    }

    /// Value of the wave at this place.
    fn wave(&self, truth: &Overlay<'_>, key: &StateKey) -> Result<Value, StateError> {
        self.drifted.get(key).map_or_else(|| truth.get(key), |value| Ok(*value))
    }
}

/// Adds to a balance like a cell.
const fn credit(value: &mut Value, amount: U256) {
    value.number = value.number.saturating_add(amount);
    value.exists = true;
}
