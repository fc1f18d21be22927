//! Notes of what every step of a block did, taken by whichever executor runs it.

use crate::bal::effects::{Sink, tell};
use crate::state::AccountRules;
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use revm::{
    primitives::map::HashMap,
    state::{Account, EvmState},
};
use std::sync::Arc;

/// One thing that a step did. All but the first kind are about the account named last.
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

/// What a step did, in no particular order of accounts. An account may come more than once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) events: Vec<Event>,
    /// What the beneficiary is still to be paid: then it was accessed, be it named or not.
    pub(crate) reward: Option<U256>,
}

impl Footprint {
    /// Of a transaction whose beneficiary revm has paid.
    pub(crate) fn paid(state: &EvmState, rules: AccountRules) -> Self {
        let mut footprint = Self::default();
        tell(state, rules, |_| false, &mut footprint);
        footprint
    }

    /// Of a transaction whose beneficiary is still to be paid.
    pub(crate) fn unpaid(
        state: &EvmState,
        rules: AccountRules,
        is_blind: impl Fn(&Address) -> bool,
        beneficiary: &Address,
        reward: U256,
    ) -> Self {
        // revm pays an account that the transaction has destroyed, and the reward goes with it.
        let destroyed = state.get(beneficiary).is_some_and(Account::is_selfdestructed);
        let mut footprint = Self { events: Vec::new(), reward: (!destroyed).then_some(reward) };
        tell(state, rules, is_blind, &mut footprint);
        footprint
    }

    /// Adds what a call by the protocol did.
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

/// The footprints of a block's transactions, by their number in the caller's list. Executors write to it from many
/// threads; where a transaction runs again, its last run is the one that counts.
#[derive(Debug, Default)]
pub(crate) struct Record {
    places: HashMap<u32, usize>,
    footprints: Vec<Mutex<Arc<Footprint>>>,
}

impl Record {
    /// For the transactions of `order`.
    pub(crate) fn new(order: &[u32]) -> Self {
        let mut record = Self::default();
        record.extend(order);
        record
    }

    /// Takes notes of the transactions of `order` as well.
    pub(crate) fn extend(&mut self, order: &[u32]) {
        let Self { places, footprints } = self;
        for tx in order {
            places.entry(*tx).or_insert_with(|| {
                footprints.push(Mutex::default());
                footprints.len() - 1
            });
        }
    }

    /// Notes what transaction `tx` did.
    pub(crate) fn put(&self, tx: u32, footprint: Footprint) {
        if let Some(place) = self.places.get(&tx) {
            *self.footprints[*place].lock() = Arc::new(footprint);
        }
    }

    /// What transaction `tx` did last.
    pub(crate) fn read(&self, tx: u32) -> Arc<Footprint> {
        let place = self.places.get(&tx);
        place.map(|place| Arc::clone(&self.footprints[*place].lock())).unwrap_or_default()
    }
}
