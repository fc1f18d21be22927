//! Accesses of one transaction: the cells that its predicted set names, and nothing else.
//!
//! Correctness of parallel execution lives here. The DAG orders predicted accesses; this file refuses all others: when a value
//! is loaded ([`View`] as revm's database), and when a finished transaction is collected ([`View::collect`]). Changes that are
//! made without revm, by the fast path and by traces, hold only what [`View::access`] permits.

use crate::{
    exec::{
        cells::{Cells, Outline},
        dag::rewards::Rewards,
    },
    model::Fault,
    state::{AccountRules, AccountTransition, CodeId, Codes, Hashes, LocalCodes, Value},
};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use phalanx_access::{Access, AccessSets, KeyId};
use phalanx_memory::Pooled;
use phalanx_paralyze::{KnownSlots, Preimage, Preimages, StateKey};
use revm::{
    Database,
    database_interface::DBErrorMarker,
    primitives::{StorageKey, StorageValue, map::HashMap},
    state::{Account, AccountInfo, Bytecode, EvmState},
};
use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Maximum number of accesses of a transaction that are searched by scanning; more are looked up in a map, so that
/// large sets stay linear.
const MAX_SCANNED: usize = 24;

/// A block in execution, shared by its workers.
pub(crate) struct Shared {
    pub(crate) keys: Pooled<Vec<StateKey>>,
    pub(crate) sets: Pooled<AccessSets<KeyId>>,
    pub(crate) preimages: Pooled<Preimages<KeyId>>,
    pub(crate) cells: Cells,
    pub(crate) codes: Arc<Codes>,
    pub(crate) hashes: Hashes,
    pub(crate) rules: AccountRules,
    /// Rewards of the transactions, if one of them reads the beneficiary.
    pub(crate) rewards: Option<Rewards>,
    /// Recipients of shares by the chain's rules, with the ids of their balances. The DAG orders a credit of each by each
    /// transaction; the view of a transaction remains its prediction.
    pub(crate) payees: Vec<(Address, KeyId)>,
    /// True once a credit has passed 2^256: its effect depends on the order of credits, so the block has to run
    /// serially.
    pub(crate) overflowed: AtomicBool,
}

impl Shared {
    /// Adds to a balance.
    ///
    /// # Safety
    /// The promise of [`Cells::credit`].
    #[inline]
    #[expect(unsafe_code, reason = "shared mutation, ordered by the DAG")]
    unsafe fn credit(&self, id: KeyId, amount: U256) {
        // SAFETY: the caller's promise.
        let fits = unsafe { self.cells.credit(id, amount) };
        if !fits {
            self.overflowed.store(true, Ordering::Relaxed);
        }
    }
}

/// Reason why the database refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The transaction reached a key outside its predicted set, or accessed one more strongly than predicted.
    #[error("escaped its predicted access set at {0:?}")]
    Escape(StateKey),
    /// Code was requested by a hash that no account of the view has.
    #[error("no code with hash {0}")]
    UnknownCode(B256),
}

impl DBErrorMarker for Refused {}

/// A worker's view of the block.
#[derive(Default)]
pub(crate) struct View {
    block: Option<Arc<Shared>>,
    /// Index of the running transaction.
    index: usize,
    /// Range of the running transaction in the arena of sets.
    accesses: core::ops::Range<usize>,
    /// End of the last search: keys are mostly looked up in the order in which they were predicted.
    next: Cell<usize>,
    /// The same accesses by key, if there are too many to scan.
    by_key: HashMap<StateKey, (KeyId, Access)>,
    codes: LocalCodes,
    changes: Vec<Change>,
}

impl core::fmt::Debug for View {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("View").field("accesses", &self.accesses).finish_non_exhaustive()
    }
}

/// A change that passed all checks and waits for the others of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Store(KeyId, Value),
    Credit(KeyId, U256),
}

impl Change {
    /// Creates the change of a slot's value.
    pub(crate) fn store_slot(id: KeyId, number: U256) -> Self {
        Self::Store(id, Value { number, exists: true, ..Value::default() })
    }

    /// Id of the changed key.
    pub(crate) const fn id(&self) -> KeyId {
        match *self {
            Self::Store(id, _) | Self::Credit(id, _) => id,
        }
    }
}

impl View {
    /// Enters `block`. Returns true if ids of code have another meaning than in the block before.
    pub(crate) fn enter(&mut self, block: Arc<Shared>) -> bool {
        let renamed = self.codes.enter(&block.codes);
        self.block = Some(block);
        renamed
    }

    /// Leaves the block.
    pub(crate) fn leave(&mut self) {
        self.block = None;
    }

    /// Shows transaction `index` from now on. Called by the job that the DAG has released for this transaction, on
    /// which the cells' safety rests.
    pub(crate) fn show(&mut self, index: usize) {
        self.index = index;
        self.accesses = self.block().sets.range(index);
        self.next.set(0);
        self.by_key.clear();
        if self.accesses.len() > MAX_SCANNED {
            let block = self.block.as_deref().expect("a view is shown inside a block");
            let entries = &block.sets.entries()[self.accesses.clone()];
            self.by_key.extend(entries.iter().map(|(id, access)| (block.keys[id.index()], (*id, *access))));
        }
        let block = self.block();
        if let Some(rewards) = &block.rewards
            && rewards.are_seen_by(&block.sets.entries()[self.accesses.clone()])
            && let Some(amount) = rewards.take(index)
        {
            #[expect(unsafe_code, reason = "shared mutation, ordered by the DAG")]
            // SAFETY: all transactions before the running one have finished, because it reads the balance. Of later
            // ones with an access of the balance none has begun: readers wait for all before them, and a credit waits
            // for a read.
            unsafe {
                block.credit(rewards.id(), amount);
            }
        }
    }

    fn block(&self) -> &Shared {
        self.block.as_deref().expect("a view is shown inside a block")
    }

    /// Predicted access of `key`. Most sets are short; the scan touches the same lines as publishing.
    #[inline]
    fn find(&self, key: &StateKey) -> Result<(KeyId, Access), Refused> {
        if self.accesses.len() > MAX_SCANNED {
            return self.by_key.get(key).copied().ok_or(Refused::Escape(*key));
        }
        let block = self.block();
        let entries = &block.sets.entries()[self.accesses.clone()];
        let (before, after) = entries.split_at(self.next.get().min(entries.len()));
        let is_it = |(id, _): &(KeyId, Access)| block.keys[id.index()] == *key;
        let found = |at: usize| {
            self.next.set(at + 1);
            entries[at]
        };
        let at = after.iter().position(is_it).map(|at| before.len() + at);
        at.or_else(|| before.iter().position(is_it)).map(found).ok_or(Refused::Escape(*key))
    }

    #[inline]
    #[expect(unsafe_code, reason = "shared reads, ordered by the DAG")]
    fn load(&self, id: KeyId) -> Value {
        // SAFETY: `find` returned the id with a read or a write for the running transaction, which the DAG released.
        unsafe { self.block().cells.load(id) }
    }

    fn info(&mut self, value: Value) -> AccountInfo {
        let (code_hash, code) = self.code(value.code);
        AccountInfo { balance: value.number, nonce: value.nonce, code_hash, code: Some(code), account_id: None }
    }

    fn code(&mut self, id: CodeId) -> (B256, Bytecode) {
        let block = self.block.as_deref().expect("a view is shown inside a block");
        self.codes.get(id, &block.codes)
    }

    /// True if the running transaction only adds to an account, without reading it.
    pub(crate) fn credits(&self, address: &Address) -> bool {
        matches!(self.find(&StateKey::Basic(*address)), Ok((_, Access::Credit)))
    }

    /// Account rules of the block.
    pub(crate) fn rules(&self) -> AccountRules {
        self.block().rules
    }

    /// Changes that were published last.
    pub(crate) fn published(&self) -> &[Change] {
        &self.changes
    }

    /// Predicted access of `key`, if there is one.
    #[inline]
    pub(crate) fn access(&self, key: &StateKey) -> Option<(KeyId, Access)> {
        self.find(key).ok()
    }

    /// Value of `key`, if the running transaction may read it.
    #[inline]
    pub(crate) fn read(&self, key: &StateKey) -> Option<(KeyId, Access, Value)> {
        let (id, access) = self.access(key)?;
        (access != Access::Credit).then(|| (id, access, self.load(id)))
    }

    /// Id of code that the engine has seen.
    pub(crate) fn code_id(&self, hash: &B256) -> Option<CodeId> {
        self.block().codes.find(hash)
    }

    /// Value of `key`, if the running transaction may replace it.
    #[inline]
    pub(crate) fn writable(&self, key: &StateKey) -> Option<(KeyId, Value)> {
        let (id, access) = self.access(key)?;
        (access == Access::Write).then(|| (id, self.load(id)))
    }

    /// Part that it may see of an account that the running transaction may credit. `None` if the credit must see more: code would run
    /// and could read the balance; an account that exists and is empty may go; a new one may cost more.
    #[inline]
    #[expect(unsafe_code, reason = "shared reads, ordered by the DAG")]
    fn outline(&self, id: KeyId) -> Option<Outline> {
        // SAFETY: `find` returned the id with a credit for the running transaction, which the DAG released.
        let outline = unsafe { self.block().cells.outline(id) };
        let sees_more = if self.block().rules.prices_new { outline.is_empty() } else { outline.is_hollow() };
        (outline.code.is_none() && !sees_more).then_some(outline)
    }

    /// True if the running transaction may add to this account without reading it.
    #[inline]
    pub(crate) fn takes_credits(&self, id: KeyId) -> bool {
        self.outline(id).is_some()
    }

    /// Buffer of changes for [`Self::publish_prepared`], empty at first. Their keys and kinds must be those that
    /// [`Self::access`] permits.
    #[inline]
    pub(crate) fn prepare(&mut self) -> &mut Vec<Change> {
        self.changes.clear();
        &mut self.changes
    }

    /// Collects the changes of a finished transaction, all or none, for [`Self::publish`].
    pub(crate) fn collect(&mut self, state: &EvmState) -> Result<(), Refused> {
        self.changes.clear();
        for (address, account) in state {
            if account.is_touched() {
                self.check(*address, account)?;
            }
        }
        Ok(())
    }

    /// Adds shares to the changes that wait to be published. The recipient must not be destroyed by the transaction.
    pub(crate) fn share(&mut self, shares: impl IntoIterator<Item = (Address, U256)>) {
        let block = self.block.as_deref().expect("a view is shown inside a block");
        for (to, amount) in shares {
            let id = block.payees.iter().find(|(payee, _)| *payee == to).map(|(_, id)| *id);
            let id = id.expect("the rules name their recipients");
            self.changes.push(Change::Credit(id, amount));
        }
    }

    /// Writes the collected changes of `state` into the cells.
    pub(crate) fn publish(&mut self, state: &EvmState, reward: U256) {
        // revm pays an account that the transaction has destroyed, and the reward goes with it.
        let destroyed = |address: &Address| state.get(address).is_some_and(Account::is_selfdestructed);
        self.publish_prepared(reward, destroyed);
    }

    /// Writes prepared changes into the cells, and records the reward if some transaction reads it and its receiver is
    /// not `destroyed`.
    #[inline]
    pub(crate) fn publish_prepared(&mut self, reward: U256, destroyed: impl Fn(&Address) -> bool) {
        let block = self.block.as_deref().expect("a view is shown inside a block");
        // A zero reward touches the account all the same, which matters where empty ones are kept.
        if let Some(rewards) = block.rewards.as_ref().filter(|_| !reward.is_zero() || !block.rules.clears_empty)
            && (!destroyed(block.keys[rewards.id().index()].address()) || Fault::RewardAfterDestruction.is_seeded())
        {
            rewards.note(self.index, reward);
        }
        for change in &self.changes {
            #[expect(unsafe_code, reason = "shared mutation, ordered by the DAG")]
            match *change {
                // SAFETY: the set of the running transaction, which the DAG released, has a write of the id: `check` found it, or
                // the caller of `prepare` asked `access`.
                Change::Store(id, value) => unsafe { block.cells.store(id, value) },
                // SAFETY: `check` found a credit of the id, likewise; or it is a payee's, of which the DAG orders a credit.
                Change::Credit(id, amount) => unsafe { block.credit(id, amount) },
            }
        }
    }

    /// Turns the changes of one account into changes of cells, if the predicted set permits them.
    fn check(&mut self, address: Address, account: &Account) -> Result<(), Refused> {
        let key = StateKey::Basic(address);
        let (id, access) = self.find(&key)?;
        let info = &account.info;
        let rules = self.block().rules;
        if access != Access::Credit && !rules.counts(account) {
            return Ok(());
        }
        if rules.resets_storage(account) {
            // Cells hold the slots of one incarnation. A transaction that begins another one runs serially.
            return Err(Refused::Escape(key));
        }
        let gone = rules.transition(account) == AccountTransition::Gone;
        match access {
            Access::Credit => {
                // The view showed an outline of the account, so what it has beyond that was added.
                let shown = account.original_info();
                let added = info.balance.checked_sub(shown.balance).ok_or(Refused::Escape(key))?;
                let kept_empty = info.balance.is_zero() && !rules.clears_empty;
                let is_other = info.nonce != shown.nonce || info.code_hash != KECCAK256_EMPTY;
                if is_other || account.is_selfdestructed() || kept_empty {
                    return Err(Refused::Escape(key));
                }
                if !added.is_zero() {
                    self.changes.push(Change::Credit(id, added));
                }
            }
            Access::Read => {
                let appeared_or_gone = gone != account.is_loaded_as_not_existing();
                if account.is_changed() || account.is_selfdestructed() || account.is_created() || appeared_or_gone {
                    return Err(Refused::Escape(key));
                }
            }
            Access::Write => {
                let value = if gone {
                    if account.is_created() || account.is_selfdestructed() {
                        self.permits_code_change(address)?;
                    }
                    Value::default()
                } else {
                    let code = self.changed_code(address, account)?;
                    Value { number: info.balance, nonce: info.nonce, code, exists: true, incarnation: 0 }
                };
                self.changes.push(Change::Store(id, value));
                if gone {
                    // The account had no slots before, or loses them.
                    return Ok(());
                }
            }
        }
        for (slot, value) in &account.storage {
            if value.is_changed() {
                let key = StateKey::Slot(address, *slot);
                match self.find(&key)? {
                    (id, Access::Write) => {
                        self.changes.push(Change::store_slot(id, value.present_value));
                    }
                    _ if Fault::LostWrite.is_seeded() => {}
                    _ => return Err(Refused::Escape(key)),
                }
            }
        }
        Ok(())
    }

    fn permits_code_change(&self, address: Address) -> Result<(), Refused> {
        let key = StateKey::Code(address);
        match self.find(&key)? {
            (_, Access::Write) => Ok(()),
            _ => Err(Refused::Escape(key)),
        }
    }

    fn changed_code(&mut self, address: Address, account: &Account) -> Result<CodeId, Refused> {
        let info = &account.info;
        if info.code_hash == account.original_info().code_hash && !account.is_created() {
            // Unchanged code keeps its id.
            let (id, _) = self.find(&StateKey::Basic(address))?;
            return Ok(self.load(id).code);
        }
        self.permits_code_change(address)?;
        Ok(match &info.code {
            Some(code) if info.code_hash != KECCAK256_EMPTY => self.block().codes.insert(info.code_hash, code.clone()),
            _ => CodeId::NONE,
        })
    }
}

impl KnownSlots for View {
    #[inline]
    fn known_slot(&self, preimage: &Preimage) -> Option<U256> {
        let block = self.block();
        block.preimages.find(self.index, preimage, |id| match block.keys[id.index()] {
            StateKey::Slot(_, slot) => Some(slot),
            _ => None,
        })
    }
}

impl Database for View {
    type Error = Refused;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Refused> {
        let key = StateKey::Basic(address);
        match self.find(&key)? {
            (id, Access::Credit) => {
                let Outline { nonce, funded, .. } = self.outline(id).ok_or(Refused::Escape(key))?;
                Ok(Some(self.info(Value { number: U256::from(funded), nonce, ..Value::default() })))
            }
            (id, _) => {
                let value = self.load(id);
                Ok(value.exists.then(|| self.info(value)))
            }
        }
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, Refused> {
        // Accounts are shown with their code, so revm has no reason to request it.
        let id = self.block().codes.find(&code_hash).ok_or(Refused::UnknownCode(code_hash))?;
        Ok(self.code(id).1)
    }

    fn storage(&mut self, address: Address, slot: StorageKey) -> Result<StorageValue, Refused> {
        let key = StateKey::Slot(address, slot);
        match self.find(&key)? {
            (_, Access::Credit) => Err(Refused::Escape(key)),
            (id, _) => Ok(self.load(id).number),
        }
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Refused> {
        let number = number + u64::from(Fault::BlockHashWindow.is_seeded());
        Ok(self.block().hashes.get(number))
    }
}
