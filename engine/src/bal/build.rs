//! Builds the list of a block from the footprints of its steps.

use crate::bal::{Footprint, record::Event};
use crate::{
    model::paid,
    state::{StateError, Value},
};
use alloy_eips::eip7928::{
    AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, SlotChanges, StorageChange,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use revm::primitives::map::HashMap;

/// Changes of one value in a block, without those that a step takes back.
#[derive(Clone, Debug)]
struct Track<V, K = V> {
    /// Value before the block, in the form that is compared.
    base: K,
    /// Last step that set the value, and the value before that step.
    step: Option<(u64, K)>,
    changes: Vec<(u64, K, V)>,
}

impl<V, K: PartialEq + Clone> Track<V, K> {
    const fn new(base: K) -> Self {
        Self { base, step: None, changes: Vec::new() }
    }

    /// Present value.
    fn now(&self) -> &K {
        self.changes.last().map_or(&self.base, |(_, key, _)| key)
    }

    /// Sets the value at a step. A step that sets it repeatedly counts with its last value.
    fn set(&mut self, index: u64, key: K, value: V) {
        let before = self.now().clone();
        self.set_from(index, before, key, value);
    }

    /// Sets the value at a step that began with `before`: the value may be lost between two steps that set it.
    fn set_from(&mut self, index: u64, before: K, key: K, value: V) {
        let (_, before) = match self.step.take().filter(|(at, _)| *at == index) {
            Some(step) => self.step.insert(step),
            None => self.step.insert((index, before)),
        };
        self.changes.pop_if(|(at, ..)| *at == index);
        if *before != key {
            self.changes.push((index, key, value));
        }
    }
}

/// An account within a block. Unchanged values have no track.
#[derive(Clone, Debug, Default)]
struct Traces {
    balance: Option<Track<(), U256>>,
    nonce: Option<Track<(), u64>>,
    /// Code and storage, which few accounts have.
    rare: Option<Box<Rare>>,
}

/// Code and storage of an account.
#[derive(Clone, Debug, Default)]
struct Rare {
    code: Option<Track<Bytes, B256>>,
    /// Tracks of slots; `None` for a slot that was only read.
    slots: HashMap<U256, Option<Track<(), U256>>>,
}

impl Traces {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// Accounts of a block, and the place of each. Most have few values, and sorting moves places alone.
#[derive(Debug, Default)]
struct Accounts {
    places: HashMap<Address, u32>,
    traces: Vec<Traces>,
}

impl Accounts {
    fn of(&mut self, address: Address) -> &mut Traces {
        let Self { places, traces } = self;
        let place = *places.entry(address).or_insert_with(|| {
            traces.push(Traces::default());
            (traces.len() - 1) as u32
        });
        &mut traces[place as usize]
    }
}

/// Builds a list from the footprints of a block's steps, in order. O(n log n) in the accesses of all steps.
pub(crate) struct Builder<F> {
    accounts: Accounts,
    /// Returns an account as it is before the first step.
    before: F,
}

impl<F: Fn(&Address) -> Result<Value, StateError>> Builder<F> {
    pub(crate) fn new(before: F) -> Self {
        Self { accounts: Accounts::default(), before }
    }

    /// Adds a step. Consecutive steps may share an index.
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn add(&mut self, index: u64, footprint: &Footprint, beneficiary: &Address) -> Result<(), StateError> {
        let mut address = Address::ZERO;
        let mut traces = &mut Traces::default();
        for event in &footprint.events {
            match *event {
                Event::Account(named) => {
                    address = named;
                    traces = self.accounts.of(named);
                }
                Event::Balance { before, after } => {
                    traces.balance.get_or_insert_with(|| Track::new(before)).set(index, after, ());
                }
                Event::Credit(amount) => credit(traces, index, &address, amount, &self.before)?,
                Event::Nonce { before, after } => {
                    traces.nonce.get_or_insert_with(|| Track::new(before)).set(index, after, ());
                }
                Event::Code { before, after, ref code } => {
                    traces.rare().code.get_or_insert_with(|| Track::new(before)).set(index, after, code.clone());
                }
                Event::Read(slot) => _ = traces.rare().slots.entry(slot).or_default(),
                Event::Write { slot, before, after } => {
                    let track = traces.rare().slots.entry(slot).or_default();
                    let track = track.get_or_insert_with(|| Track::new(before));
                    // Before Cancun a step that destroys an account clears slots that it does not access.
                    track.set_from(index, before, after, ());
                }
            }
        }
        if let Some(reward) = footprint.reward {
            let traces = self.accounts.of(*beneficiary);
            if !reward.is_zero() {
                credit(traces, index, beneficiary, reward, &self.before)?;
            }
        }
        for (to, amount) in &footprint.shares {
            credit(self.accounts.of(*to), index, to, *amount, &self.before)?;
        }
        Ok(())
    }

    /// The list in canonical order.
    pub(crate) fn finish(self) -> Vec<AccountChanges> {
        let Accounts { places, mut traces } = self.accounts;
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_unstable();
        let mut take = |place: u32| core::mem::take(&mut traces[place as usize]);
        places.into_iter().map(|(address, place)| changes(address, take(place))).collect()
    }
}

/// Adds to a balance without a read: to the sum that a step saw, or to the balance before the block.
fn credit(
    traces: &mut Traces,
    index: u64,
    address: &Address,
    amount: U256,
    before: &impl Fn(&Address) -> Result<Value, StateError>,
) -> Result<(), StateError> {
    let track = match &mut traces.balance {
        Some(track) => track,
        none => none.insert(Track::new(before(address)?.number)),
    };
    let sum = paid(*track.now(), amount);
    track.set(index, sum, ());
    Ok(())
}

fn changes(address: Address, traces: Traces) -> AccountChanges {
    let at = BlockAccessIndex::new;
    let mut list = AccountChanges::new(address);
    let Traces { balance, nonce, rare } = traces;
    let Rare { code, slots } = rare.map(|rare| *rare).unwrap_or_default();
    for (index, value, ()) in balance.into_iter().flat_map(|track| track.changes) {
        list.balance_changes.push(BalanceChange::new(at(index), value));
    }
    for (index, value, ()) in nonce.into_iter().flat_map(|track| track.changes) {
        list.nonce_changes.push(NonceChange::new(at(index), value));
    }
    for (index, _, code) in code.into_iter().flat_map(|track| track.changes) {
        list.code_changes.push(CodeChange::new(at(index), code));
    }
    for (slot, track) in slots {
        let written = track.map(|track| track.changes).filter(|changes| !changes.is_empty());
        match written {
            Some(changes) => {
                let changes = changes.into_iter().map(|(index, value, ())| StorageChange::new(at(index), value));
                list.storage_changes.push(SlotChanges::new(slot, changes.collect()));
            }
            None => list.storage_reads.push(slot),
        }
    }
    list.storage_changes.sort_unstable_by_key(|changes| changes.slot);
    list.storage_reads.sort_unstable();
    list
}
