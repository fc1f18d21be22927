//! Footprints: records of the effects of every step of a block, taken by its executor.

use crate::bal::effects::{Sink, tell};
use crate::state::AccountRules;
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use revm::{
    primitives::map::HashMap,
    state::{Account, EvmState},
};
use std::sync::Arc;

/// An effect of a step. All but the first kind concern the account named last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Account(Address),
    Balance { before: U256, after: U256 },
    Credit(U256),
    Nonce { before: u64, after: u64 },
    Code { before: B256, after: B256, code: Bytes },
    Read(U256),
    Write { slot: U256, before: U256, after: U256 },
}

/// Effects of a step, in no particular order of accounts. An account may occur more than once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) events: Vec<Event>,
    /// Reward that the beneficiary is still to receive: it was accessed then, named or not.
    pub(crate) reward: Option<U256>,
    /// Shares that other accounts are still to receive by the chain's rules; none is zero.
    pub(crate) shares: Vec<(Address, U256)>,
}

impl Footprint {
    /// Footprint of a transaction of which revm has made the payments.
    pub(crate) fn paid(state: &EvmState, rules: AccountRules) -> Self {
        let mut footprint = Self::default();
        tell(state, rules, |_| false, &mut footprint);
        footprint
    }

    /// Footprint of a transaction whose beneficiary is still to be paid.
    pub(crate) fn unpaid(
        state: &EvmState,
        rules: AccountRules,
        is_blind: impl Fn(&Address) -> bool,
        beneficiary: &Address,
        reward: U256,
    ) -> Self {
        // revm pays an account that the transaction has destroyed, and the reward goes with it.
        let destroyed = state.get(beneficiary).is_some_and(Account::is_selfdestructed);
        let mut footprint = Self { reward: (!destroyed).then_some(reward), ..Self::default() };
        tell(state, rules, is_blind, &mut footprint);
        footprint
    }

    /// Sets what the beneficiary and other accounts are still to receive.
    pub(crate) fn owe(&mut self, reward: U256, shares: Vec<(Address, U256)>) {
        (self.reward, self.shares) = (Some(reward), shares);
    }

    /// Sets the shares that other accounts are still to receive.
    pub(crate) fn with_shares(self, shares: Vec<(Address, U256)>) -> Self {
        Self { shares, ..self }
    }

    /// Adds the effects of a system call.
    pub(crate) fn add<'a>(
        &mut self,
        accounts: impl IntoIterator<Item = (&'a Address, &'a Account)>,
        rules: AccountRules,
    ) {
        tell(accounts, rules, |_| false, self);
    }

    /// Adds a payment by the protocol.
    pub(crate) fn add_payment(&mut self, address: Address, before: U256, after: U256) {
        self.events.push(Event::Account(address));
        if before != after {
            self.events.push(Event::Balance { before, after });
        }
    }
}

impl Sink for Footprint {
    fn account(&mut self, address: &Address) {
        self.events.push(Event::Account(*address));
    }

    fn balance(&mut self, before: U256, after: U256) {
        self.events.push(Event::Balance { before, after });
    }

    fn credit(&mut self, amount: U256) {
        self.events.push(Event::Credit(amount));
    }

    fn nonce(&mut self, before: u64, after: u64) {
        self.events.push(Event::Nonce { before, after });
    }

    fn code(&mut self, before: B256, after: B256, code: Bytes) {
        self.events.push(Event::Code { before, after, code });
    }

    fn read(&mut self, slot: U256) {
        self.events.push(Event::Read(slot));
    }

    fn write(&mut self, slot: U256, before: U256, after: U256) {
        self.events.push(Event::Write { slot, before, after });
    }
}

/// Footprints of a block's transactions, by their number in the caller's list. Executors write to it from many threads;
/// of several runs of a transaction the last counts.
#[derive(Debug, Default)]
pub(crate) struct Record {
    places: HashMap<u32, usize>,
    footprints: Vec<Mutex<Arc<Footprint>>>,
}

impl Record {
    /// Creates a record for the transactions of `order`.
    pub(crate) fn new(order: &[u32]) -> Self {
        let mut record = Self::default();
        record.extend(order);
        record
    }

    /// Extends the record by the transactions of `order`.
    pub(crate) fn extend(&mut self, order: &[u32]) {
        let Self { places, footprints } = self;
        for tx in order {
            places.entry(*tx).or_insert_with(|| {
                footprints.push(Mutex::default());
                footprints.len() - 1
            });
        }
    }

    /// Stores the footprint of transaction `tx`.
    pub(crate) fn put(&self, tx: u32, footprint: Footprint) {
        if let Some(place) = self.places.get(&tx) {
            *self.footprints[*place].lock() = Arc::new(footprint);
        }
    }

    /// Last footprint of transaction `tx`.
    pub(crate) fn read(&self, tx: u32) -> Arc<Footprint> {
        let place = self.places.get(&tx);
        place.map(|place| Arc::clone(&self.footprints[*place].lock())).unwrap_or_default()
    }
}
