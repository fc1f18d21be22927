//! The state after a block, on the store. The only room that knows both the state store and revm.
//!
//! [`State::reader`] is the only way to values, of the committed state and of a fork alike. `load` loads keys of
//! a block, `delta` writes what it changes, `database` shows the state to revm. A block may also run on a foreign database: executors see [`StateRef`].

mod account_rules;
mod ahead;
mod anchored;
mod changes;
mod code_rule;
mod codes;
mod contents;
mod database;
mod delta;
mod diff;
mod dump;
pub(crate) mod encoding;
mod entry;
mod foreign;
mod genesis;
mod hashes;
mod load;
mod index;
mod origin;
mod remote;
mod root;
mod state_ref;
mod stored;
mod value;
mod view;
mod writer;

pub(crate) use account_rules::{AccountRules, AccountTransition};
pub(crate) use ahead::named;
pub use anchored::{Anchored, verify_anchored};
pub(crate) use changes::{AccountChange, AccountIndexDelta, AccountLayers, Changes};
pub use code_rule::CODE_RULE;
pub(crate) use codes::{CodeId, CodeRule, Codes, LocalCodes};
pub use contents::contents;
pub use diff::{ChangedAccount, StateDiff};
pub use entry::StoredEntry;
pub(crate) use foreign::Foreign;
pub(crate) use genesis::AccountDigests;
pub use genesis::{GenesisAccount, genesis_digest};
pub(crate) use hashes::Hashes;
pub(crate) use origin::Origin;
pub(crate) use remote::Remote;
pub use remote::{RemoteAccount, RemoteError, RemoteState, RemoteValue};
pub use root::StateWitness;
pub(crate) use root::{Commitment, Prepared};
pub(crate) use state_ref::StateRef;
pub use stored::StateError;
pub(crate) use stored::account;
use stored::{no_account, word};
pub(crate) use value::Value;
pub(crate) use view::Views;
pub use view::{SnapshotError, StateSnapshot};
pub(crate) use writer::Persister;
pub use writer::{Done, WriteHandle};

use crate::model::{Error, RootKind};
use ahead::Ahead;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use encoding::{StoredAccount, decode_name, name_key, slot_key};
use index::Index;
use phalanx_merkle::{BlockId, Reader, Snapshot, Store};
use phalanx_paralyze::StateKey;
use revm::{
    DatabaseRef as _,
    state::{AccountInfo, Bytecode},
};
use std::{collections::BTreeMap, sync::Arc};

/// Key that is present in a store if [`State::bare_storage`] holds.
const BARE_STORAGE: &[u8] = b"bare storage";

/// Key of the chain's identity.
const IDENTITY: &[u8] = b"chain";

/// Key that is present in a store whose chain reports Ethereum's root.
const ETHEREUM_ROOT: &[u8] = b"ethereum root";

/// Key of the last block of a service.
const LAST: &[u8] = b"last";

/// Chain id and digest of the genesis.
pub(crate) type Identity = (u64, B256);

/// The state after one block: the last committed one or, on a fork, a block beside the chain. It is a [`DatabaseRef`](revm::DatabaseRef):
/// calls, traces and inspectors run on it unchanged.
#[derive(Debug)]
pub struct State {
    /// Reads values of a paged store ahead. Dropped before the store.
    ahead: Option<Ahead>,
    /// True if the store keeps values on disk.
    is_paged: bool,
    pub(crate) store: Store,
    pub(crate) codes: Arc<Codes>,
    /// State that the chain goes on from, which is read where the store has nothing.
    remote: Option<Remote>,
    /// Source of the roots of all blocks.
    commitment: Commitment,
    /// Results of BLOCKHASH in the next block.
    pub(crate) ancestors: Arc<Ancestors>,
    /// Hashes that the caller gave.
    told: Arc<Ancestors>,
    /// Hashes that the store knows in this state, under those that the caller gave; `None` until they are needed.
    named: Option<Ancestors>,
    /// Name of this state among all states of all engines; replaced with every commit.
    pub(crate) tip: Arc<Tip>,
    /// True if accounts without code and nonce may hold storage. Only a block before Spurious Dragon or a genesis can
    /// leave such accounts; otherwise a created account never had storage before.
    pub(crate) bare_storage: bool,
    index: Index,
    /// Fork that the state is on; `None` for the committed state.
    above: Option<Above>,
}

/// A block that is not committed, relative to the committed state.
#[derive(Debug)]
pub(crate) struct Above {
    pub(crate) view: Snapshot,
    /// Accounts whose code or incarnation changed since the committed block.
    pub(crate) accounts: AccountLayers,
}

/// Hashes of ancestors by number, for BLOCKHASH.
pub type Ancestors = BTreeMap<u64, B256>;

/// Name of a state, equal to itself alone.
#[derive(Debug)]
pub(crate) struct Tip {
    // Not zero-sized, so that no two names share an address.
    _place: u8,
}

impl Tip {
    fn new() -> Arc<Self> {
        Arc::new(Self { _place: 0 })
    }
}

impl State {
    /// Opens the state of a store, and reads all contracts in it. Code gets its kind by `rule`; at most about
    /// `code_cache` bytes of it stay in memory.
    pub(crate) fn new(store: Store, rule: CodeRule, code_cache: usize, remote: Option<Remote>) -> Result<Self, Error> {
        let mut state = Self {
            bare_storage: false,
            ahead: None,
            is_paged: store.cache().is_some(),
            store,
            codes: Arc::new(Codes::new(rule, code_cache)),
            remote,
            commitment: Commitment::default(),
            ancestors: Arc::default(),
            told: Arc::default(),
            named: None,
            tip: Tip::new(),
            index: Index::default(),
            above: None,
        };
        state.meet_all()?;
        Ok(state)
    }

    /// Reads all contracts of the committed state again. O(state).
    pub(crate) fn meet_all(&mut self) -> Result<(), Error> {
        self.move_to(None);
        self.index = Index::at(self.store.height());
        let (mut met, mut bad) = (Vec::new(), None);
        self.store.read().each_committed(|key, value| {
            let Ok(address) = <[u8; 20]>::try_from(key) else { return };
            let address = Address::new(address);
            match account(&address, value) {
                Ok(account) if account.code_hash.is_some() || account.incarnation != 0 => met.push((address, account)),
                Ok(_) => {}
                Err(error) => _ = bad.get_or_insert(error),
            }
        })?;
        bad.map_or(Ok(()), Err)?;
        for (address, account) in met {
            if let Some(hash) = account.code_hash {
                if self.codes.has_room() {
                    self.code_id(&hash)?;
                } else {
                    self.stored_code(&hash)?;
                }
            }
            self.index.meet(address, account.code_hash, account.incarnation);
        }
        Ok(())
    }

    /// Follows the store back to an earlier block. O(changes of the blocks above it), or O(state) where they are not known.
    pub(crate) fn go_back(&mut self) -> Result<(), Error> {
        let height = self.store.height();
        let Some(changed) = height.and_then(|height| self.index.take_above(height)) else { return self.meet_all() };
        self.move_to(None);
        for address in changed {
            let reader = self.store.read();
            let stored = reader.get(address.as_slice()).map(|bytes| account(&address, bytes)).transpose()?;
            readable(&reader, stored.is_some())?;
            drop(reader);
            let (code_hash, incarnation) = stored.map_or((None, 0), |stored| (stored.code_hash, stored.incarnation));
            self.index.meet(address, code_hash, incarnation);
        }
        Ok(())
    }

    /// Reads code from the store, and checks it.
    fn stored_code(&self, hash: &B256) -> Result<Arc<[u8]>, StateError> {
        let unreadable = |error| StateError(format!("code {hash} cannot be read: {error}"));
        let mut code = self.store.code(&hash.0).map_err(unreadable)?;
        if let (None, Some(remote)) = (&code, &self.remote) {
            code = remote.ask(|remote| remote.code(hash))?.map(|code| code.as_ref().into());
        }
        let code = code.ok_or_else(|| StateError(format!("code {hash} is missing")))?;
        if keccak256(&code) == *hash { Ok(code) } else { Err(StateError(format!("code {hash} has another hash"))) }
    }

    /// Finds code, in the store if it was not used lately.
    fn code_id(&self, hash: &B256) -> Result<CodeId, StateError> {
        match self.codes.find(hash) {
            Some(id) => Ok(id),
            None => self.fetch(hash),
        }
    }

    #[cold]
    fn fetch(&self, hash: &B256) -> Result<CodeId, StateError> {
        let code = Bytes::copy_from_slice(&self.stored_code(hash)?);
        Ok(self.codes.insert_stored(*hash, self.codes.rule().code(code)))
    }

    /// Begins the next use of the state, a block's or a study of one: what named code by id before is gone.
    pub(crate) fn begin(&mut self) {
        self.codes.begin();
    }

    /// Sets the rule by which code has its kind from now on.
    pub(crate) fn follow(&mut self, rule: CodeRule) {
        self.codes.follow(rule);
    }

    /// Puts the state on a fork, or back on the committed block.
    pub(crate) fn move_to(&mut self, above: Option<Above>) {
        self.ancestors = Arc::clone(&self.told);
        self.named = None;
        self.above = above;
        self.tip = Tip::new();
        self.bare_storage = self.reader().is_ok_and(|reader| reader.get(BARE_STORAGE).is_some());
    }

    /// Block that the state is after.
    pub(crate) fn position(&self) -> BlockId {
        self.above.as_ref().map_or_else(|| self.store.tip(), |above| above.view.block())
    }

    fn reader(&self) -> Result<Reader<'_>, StateError> {
        match &self.above {
            None => Ok(self.store.read()),
            // The engine leaves a fork before it drops it.
            Some(Above { view, .. }) => view.read().map_err(|error| StateError(error.to_string())),
        }
    }

    /// Change of an account's code or incarnation since the committed state.
    #[inline]
    fn changed(&self, address: &Address) -> Option<&AccountChange> {
        self.above.as_ref()?.accounts.get(address)
    }

    /// Height of the block that the state is after; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        self.reader().ok()?.height()
    }

    /// Root of the state, of the kind that its chain reports.
    pub fn root(&self) -> B256 {
        let root = self.reader().ok().and_then(|reader| self.commitment.root(self.position(), reader.root()));
        root.unwrap_or_default()
    }

    /// Snapshots of this state's blocks.
    pub(crate) fn views(&self) -> Views {
        let remote = self.remote.as_ref().map(|remote| Arc::clone(remote.state()));
        Views::new(Arc::clone(&self.codes), self.commitment.clone(), remote)
    }

    /// Takes a snapshot of the state after a block.
    ///
    /// # Errors
    /// The block is gone.
    pub(crate) fn snapshot(&self, block: BlockId) -> Result<StateSnapshot, Error> {
        self.views().of(self.store.snapshot(block)?)
    }

    /// Kind of root that the store was begun with.
    pub(crate) fn stored_root_kind(&self) -> Result<RootKind, StateError> {
        let reader = self.reader()?;
        let found = reader.get(ETHEREUM_ROOT).is_some();
        readable(&reader, found)?;
        Ok(if found { RootKind::Ethereum } else { RootKind::Twigs })
    }

    /// Nonce, balance and code hash of an account; `None` if it does not exist. The code is not loaded.
    ///
    /// # Errors
    /// The stored bytes are not an account.
    pub fn account(&self, address: &Address) -> Result<Option<AccountInfo>, Error> {
        Ok(self.stored(address)?.map(StoredAccount::into_info))
    }

    /// Storage slot; zero if it is not stored.
    ///
    /// # Errors
    /// The stored bytes are not a word.
    pub fn storage(&self, address: &Address, slot: &U256) -> Result<U256, Error> {
        Ok(self.storage_ref(*address, *slot)?)
    }

    fn stored(&self, address: &Address) -> Result<Option<StoredAccount>, StateError> {
        if let Some(remote) = &self.remote {
            return self.account_over(remote, address);
        }
        let reader = self.reader()?;
        let stored = reader.get(address.as_slice()).map(|bytes| account(address, bytes)).transpose()?;
        readable(&reader, stored.is_some())?;
        Ok(stored.filter(|account| account.exists))
    }

    /// Number of times that the storage of `address` was emptied.
    #[inline]
    pub(crate) fn incarnation(&self, address: &Address) -> u32 {
        self.changed(address).map_or_else(|| self.index.incarnation(address), |change| change.incarnation)
    }

    /// Slot of the given incarnation of an account.
    pub(crate) fn slot(&self, address: &Address, slot: &U256, incarnation: u32) -> Result<U256, StateError> {
        if let Some(remote) = &self.remote {
            let found = self.load_over(remote, &[(StateKey::Slot(*address, *slot), incarnation)])?;
            return Ok(found.first().map_or(U256::ZERO, |(value, _)| value.number));
        }
        let reader = self.reader()?;
        match reader.get(slot_key(address, slot, incarnation).as_slice()) {
            Some(bytes) => word(address, slot, bytes),
            None => readable(&reader, false).map(|()| U256::ZERO),
        }
    }

    /// A stored account with its code.
    fn info(&self, address: &Address) -> Result<Option<AccountInfo>, StateError> {
        let Some(stored) = self.stored(address)? else { return Ok(None) };
        let (code_hash, code) = match stored.code_hash {
            Some(hash) => (hash, self.code(&hash)?),
            None => (KECCAK256_EMPTY, Bytecode::default()),
        };
        let StoredAccount { balance, nonce, .. } = stored;
        Ok(Some(AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }))
    }

    /// Code with a hash that some account has.
    fn code(&self, hash: &B256) -> Result<Bytecode, StateError> {
        match self.codes.code(hash) {
            Some(code) => Ok(code),
            None => Ok(self.codes.get(self.fetch(hash)?).1),
        }
    }

    /// Sets the results of BLOCKHASH that the caller knows.
    pub(crate) fn set_ancestors(&mut self, told: Arc<Ancestors>) {
        self.ancestors = Arc::clone(&told);
        (self.told, self.named) = (told, None);
    }

    /// Completes the results of BLOCKHASH for one child block: by the hash of its parent, and by the hashes that the
    /// store knows. Hashes that the caller gave stay. A block that is not committed leaves nothing behind.
    pub(crate) fn complete_ancestors(&mut self, parent: u64, hash: B256) -> Result<(), Error> {
        if self.told.contains_key(&parent) {
            self.ancestors = Arc::clone(&self.told);
            return Ok(());
        }
        let mut ancestors = match &self.named {
            Some(named) => named.clone(),
            None => {
                let mut named = self.names()?;
                named.extend(self.told.iter().map(|(height, name)| (*height, *name)));
                self.named.insert(named).clone()
            }
        };
        ancestors.insert(parent, hash);
        self.ancestors = Arc::new(ancestors);
        Ok(())
    }

    /// Takes the first failure of the remote state since the last call.
    pub(crate) fn take_remote_failure(&self) -> Option<RemoteError> {
        self.remote.as_ref()?.take_failure()
    }

    /// Height of the block that the remote state is after; `None` for a chain that stands alone.
    pub(crate) fn remote_height(&self) -> Option<u64> {
        self.remote.as_ref().map(|remote| remote.state().height())
    }

    /// Height of the first block of the chain.
    pub(crate) fn first_height(&self) -> u64 {
        self.remote_height().unwrap_or(0)
    }

    /// Chain that the store was begun for, as [`Self::put_identity`] wrote it.
    pub(crate) fn identity(&self) -> Result<Option<Identity>, StateError> {
        identity_of(&self.reader()?)
    }

    /// Hashes of the last blocks, as given to [`Self::put_hash`]: those below the block of a service, or of a chain.
    pub(crate) fn names(&self) -> Result<BTreeMap<u64, B256>, Error> {
        let (reader, mut names) = (self.reader()?, BTreeMap::new());
        for place in 0..=u8::MAX {
            if let Some(value) = reader.get(&name_key(place.into())) {
                let (height, name) = decode_name(value).ok_or_else(|| StateError(format!("name {place}")))?;
                names.insert(height, name);
            }
        }
        readable(&reader, false)?;
        Ok(names)
    }

    /// Applies the account changes of a block that is committed on top of the committed state.
    pub(crate) fn adopt(&mut self, accounts: &AccountIndexDelta) {
        self.move_to(None);
        if !accounts.changes.is_empty() {
            self.codes.keep(accounts.changes.iter().filter_map(|change| change.code));
        }
        self.index.add(self.store.height().unwrap_or_default(), self.store.history() as u64, accounts);
    }
}

/// Chain that a state was begun for.
fn identity_of(reader: &Reader<'_>) -> Result<Option<Identity>, StateError> {
    let bytes = reader.get(IDENTITY);
    readable(reader, bytes.is_some())?;
    bytes.map(|bytes| decode_name(bytes).ok_or_else(|| StateError("the chain's identity".into()))).transpose()
}

/// Distinguishes an absent value from an unreadable one.
fn readable(store: &Reader<'_>, found: bool) -> Result<(), StateError> {
    if found { Ok(()) } else { store.check().map_err(|_| StateError("its log cannot be read".into())) }
}
