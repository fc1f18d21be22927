//! What follows a parallel wave in which somebody escaped, in a given order: one pass over the block, in order, that
//! keeps every result that is still right and runs the others again, freely. Nobody runs a third time.
//!
//! Two states are followed: the *truth*, and what the *wave* held at the same place. They differ in few keys, those that
//! have **drifted**: because a transaction that is late in the wave, or was wrong there, has changed them. A result of
//! the wave is right if nothing that its transaction could see has drifted; then its changes, which were logged, are the
//! truth's too.

use crate::{
    bal::Footprint,
    exec::{
        block_gas::BlockGas,
        context::ExecContext,
        dag::view::{Change, Shared},
        overlay::Overlay,
        serial::Sequential,
    },
    model::{Error, Outcome, reward},
    state::{StateError, Value},
};
use alloy_primitives::{Address, U256, map::HashSet};
use phalanx_access::Access;
use phalanx_paralyze::StateKey;
use revm::{primitives::map::HashMap, state::EvmState};

/// A transaction that ran in the wave, and what it published.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) outcome: Outcome,
    pub(crate) changes: Vec<Change>,
}

/// Settles a block.
pub(crate) struct Settlement<'m, 's> {
    ctx: &'m ExecContext<'s>,
    order: &'m [u32],
    shared: &'m Shared,
    /// What the wave holds where the truth holds something else.
    drifted: HashMap<StateKey, Value>,
    /// Accounts that have lost their storage in truth.
    emptied: HashSet<Address>,
    /// Transactions that were executed a second time.
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
    /// If the store is corrupt or the EVM fails.
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

    /// Whether a transaction of the wave would do in truth what it did there.
    fn holds(&self, truth: &Overlay<'_>, index: usize, published: &[Change]) -> Result<bool, StateError> {
        Ok(self.saw_truth(truth, index)? && self.credits_fit(truth, published)?)
    }

    /// Whether nothing that a transaction of the wave could see has drifted.
    fn saw_truth(&self, truth: &Overlay<'_>, index: usize) -> Result<bool, StateError> {
        if self.drifted.is_empty() && self.emptied.is_empty() {
            return Ok(true);
        }
        for (id, access) in self.shared.sets.get(index) {
            let key = &self.shared.keys[id.index()];
            if self.emptied.contains(key.address()) {
                return Ok(false);
            }
            let seen = match key {
                // The part of an account that stands behind its `Basic`.
                StateKey::Code(address) => StateKey::Basic(*address),
                key => *key,
            };
            if self.drifted.contains_key(&seen) {
                // Whoever credits an account sees only that it has no code and is not empty.
                let value = truth.get(&seen)?;
                if *access != Access::Credit || !value.code.is_none() || value.is_empty_existing() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether no credit passes 2^256, with which a transfer fails. What the beneficiary has earned before counts, which
    /// the wave may have left for later.
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

    /// A result that holds: what it changed is true.
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
        let ExecContext { env, txs, .. } = *self.ctx;
        let earned = match &self.shared.rewards {
            Some(noted) => noted.of(index),
            None => settled.outcome.result().map(|_| reward(&txs[self.order[index] as usize], env, &settled.outcome)),
        };
        if let Some(earned) = earned {
            // Nobody in the wave looks at the beneficiary behind the first that is late, whom looking would wait for; and
            // before it only a credit that does not fit lets anything drift, which a later look would have met as well. So
            // it is no matter what the wave holds of its balance.
            truth.pay(env.beneficiary, earned)?;
        }
        Ok(())
    }

    /// A result that does not hold: `state` is what the transaction really did, `published` what the wave took it for.
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

    /// What the wave holds at this place.
    fn wave(&self, truth: &Overlay<'_>, key: &StateKey) -> Result<Value, StateError> {
        self.drifted.get(key).map_or_else(|| truth.get(key), |value| Ok(*value))
    }
}

/// Adds to a balance as a cell does.
const fn credit(value: &mut Value, amount: U256) {
    value.number = value.number.saturating_add(amount);
    value.exists = true;
}
