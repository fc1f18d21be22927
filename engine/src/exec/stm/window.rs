//! View of one Block-STM execution, as revm's database: a window that is open while it runs.

use crate::model::Fault;
use crate::state::{CodeId, Codes, Hashes, LocalCodes, Value};
use alloy_primitives::{
    Address, B256, U256,
    map::{AddressMap, AddressSet},
};
use core::ptr::NonNull;
use phalanx_paralyze::{AccountMask, MaskedAccount, StateKey};
use revm::{
    Database,
    database_interface::DBErrorMarker,
    primitives::{StorageKey, StorageValue},
    state::{AccountInfo, Bytecode},
};
use std::sync::Arc;

/// Returns the value of a key; `None` ends the execution.
type Look<'a> = dyn FnMut(&StateKey) -> Option<Value> + 'a;

/// Reader that an execution uses.
pub(crate) type Seen<'a> = &'a mut Look<'a>;

/// The database returned no value, so the execution ends. The opener of the window knows the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the execution was interrupted")]
pub(crate) struct Closed;

impl DBErrorMarker for Closed {}

/// Maximum number of accounts whose code is remembered; beyond them one is read again.
const LATELY: usize = 16;

/// State that an execution does not see, so that it does not depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unseen {
    /// Receiver of a plain transfer, of which nothing is seen.
    pub(crate) blind: Option<Address>,
    /// Sender; of all other contracts, balance and nonce are masked until they are read.
    pub(crate) but: Option<Address>,
}

/// A worker's database. It outlives the executions that it shows, so each lends it its reader.
#[derive(Default)]
pub(crate) struct Window {
    /// The reader, present while [`Self::with_open`] runs.
    seen: Option<NonNull<Look<'static>>>,
    unseen: Unseen,
    /// Contracts that were shown without balance and nonce, and contracts that must not be.
    masked: AddressSet,
    whole: AddressSet,
    /// Maximum gain of any account by payments at any time of the execution, also where a revert took it back.
    most_paid: AddressMap<U256>,
    /// True if a payment to a masked contract overflows its balance.
    overflowed: bool,
    /// Last read code of accounts, which is requested again with each of their slots; the oldest first.
    accounts: Vec<(Address, Value)>,
    local: LocalCodes,
    codes: Option<Arc<Codes>>,
    hashes: Hashes,
}

impl core::fmt::Debug for Window {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Window").field("open", &self.seen.is_some()).finish_non_exhaustive()
    }
}

/// Closes a window when an execution ends, also by a panic.
struct Closing<'e, E, W: Fn(&mut E) -> &mut Window> {
    evm: &'e mut E,
    window: W,
}

impl<E, W: Fn(&mut E) -> &mut Window> Drop for Closing<'_, E, W> {
    fn drop(&mut self) {
        (self.window)(self.evm).seen = None;
    }
}

impl Window {
    /// Opens the `window` of `evm` on `seen` while `run` executes.
    pub(crate) fn with_open<E, R>(
        evm: &mut E,
        window: impl Fn(&mut E) -> &mut Self,
        unseen: Unseen,
        seen: Seen<'_>,
        run: impl FnOnce(&mut E) -> R,
    ) -> R {
        let closing = Closing { evm, window };
        let opened = (closing.window)(closing.evm);
        (opened.unseen, opened.overflowed) = (unseen, false);
        opened.accounts.clear();
        opened.masked.clear();
        opened.whole.clear();
        opened.most_paid.clear();
        let seen: NonNull<Look<'_>> = NonNull::from(seen);
        #[expect(unsafe_code, reason = "the window outlives what it is opened on")]
        // SAFETY: only the lifetime changes. `closing` takes the pointer back before this function returns or unwinds, and
        // `seen` is borrowed until then.
        let seen = unsafe { core::mem::transmute::<NonNull<Look<'_>>, NonNull<Look<'static>>>(seen) };
        opened.seen = Some(seen);
        run(closing.evm)
    }

    /// Enters a block.
    pub(crate) fn enter(&mut self, codes: &Arc<Codes>, hashes: Hashes) {
        self.local.enter(codes);
        self.codes = Some(Arc::clone(codes));
        self.hashes = hashes;
    }

    fn code(&mut self, id: CodeId) -> (B256, Bytecode) {
        self.local.get(id, self.codes.as_ref().expect("a window is opened inside a block"))
    }

    /// Account that was shown as empty.
    pub(crate) const fn blind(&self) -> Option<Address> {
        self.unseen.blind
    }

    /// True if an account was shown without balance and nonce to the end.
    pub(crate) fn is_masked(&self, address: &Address) -> bool {
        self.masked.contains(address)
    }

    /// Checks, after an execution, the contracts that were paid unseen and did not keep it. If a payment overflowed the
    /// balance, it failed, and more than the revert followed from that. Kept payments are credits, whose sums are
    /// checked where they are added. `gained` returns the final gain of an account.
    pub(crate) fn end(&mut self, gained: impl Fn(&Address) -> U256) -> Result<(), Closed> {
        let most_paid = core::mem::take(&mut self.most_paid);
        let mut lost = most_paid.iter().filter(|(address, most)| **most > gained(address));
        let ended = lost.try_for_each(|(address, most)| {
            if self.masked.contains(address) { self.hidden(*address, *most).map(drop) } else { Ok(()) }
        });
        self.most_paid = most_paid;
        ended
    }

    /// Balance of a masked contract, if `gained` fits onto it.
    fn hidden(&mut self, address: Address, gained: U256) -> Result<MaskedAccount, Closed> {
        let Value { number: balance, nonce, .. } = self.read(&StateKey::Basic(address))?;
        if balance.checked_add(gained).is_none() {
            self.overflowed = true;
            return Err(Closed);
        }
        Ok(MaskedAccount { balance, nonce })
    }

    /// True if the execution ended because its unseen payment to a contract overflows the balance.
    pub(crate) const fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// True if a contract is shown without balance and nonce. A delegating account sends transactions (EIP-7702).
    fn masks(&self, address: &Address, code: &Bytecode) -> bool {
        let delegates = code.is_eip7702() && !Fault::MaskedDelegation.is_seeded();
        self.unseen.but.is_some_and(|sender| sender != *address) && !delegates && !self.whole.contains(address)
    }

    /// Code and incarnation of an account that this execution has read lately. They stay valid as long as the execution
    /// counts: a view returns the same again.
    pub(crate) fn met(&self, address: &Address) -> Option<Value> {
        self.accounts.iter().rev().find(|(met, _)| met == address).map(|(_, value)| *value)
    }

    /// Code and incarnation of an account.
    fn code_of(&mut self, address: Address) -> Result<Value, Closed> {
        if let Some(met) = self.met(&address) {
            return Ok(met);
        }
        let value = self.read(&StateKey::Code(address))?;
        self.remember(address, value);
        Ok(value)
    }

    fn remember(&mut self, address: Address, code: Value) {
        if self.accounts.len() == LATELY {
            self.accounts.remove(0);
        }
        self.accounts.push((address, code));
    }

    fn read(&mut self, key: &StateKey) -> Result<Value, Closed> {
        let mut seen = self.seen.ok_or(Closed)?;
        #[expect(unsafe_code, reason = "the window outlives what it is opened on")]
        // SAFETY: the pointer is present only while `with_open` borrows its target, exclusively, for this window.
        let seen = unsafe { seen.as_mut() };
        seen(key).ok_or(Closed)
    }
}

impl Database for Window {
    type Error = Closed;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Closed> {
        if self.unseen.but == Some(address) && self.met(&address).is_none() {
            // The sender is read in any case, and a reader of an account knows its code.
            let Value { code, incarnation, .. } = self.read(&StateKey::Basic(address))?;
            self.remember(address, Value { code, incarnation, ..Value::default() });
        }
        let id = self.code_of(address)?.code;
        if id.is_none() && self.unseen.blind == Some(address) {
            let (code_hash, code) = self.code(id);
            let (balance, nonce) = (U256::ZERO, 0);
            return Ok(Some(AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }));
        }
        // Code runs and may read its balance; its caller is not blind any more.
        if self.unseen.blind == Some(address) {
            self.unseen.blind = None;
        }
        if !id.is_none() {
            let (code_hash, code) = self.code(id);
            if self.masks(&address, &code) {
                self.masked.insert(address);
                let (balance, nonce) = (U256::ZERO, 0);
                return Ok(Some(AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }));
            }
        }
        let Value { number: balance, nonce, exists, .. } = self.read(&StateKey::Basic(address))?;
        if !exists {
            return Ok(None);
        }
        let (code_hash, code) = self.code(id);
        Ok(Some(AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }))
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, Closed> {
        // Accounts are shown with their code, so revm has no reason to request it.
        let id = self.codes.as_ref().and_then(|codes| codes.find(&code_hash)).ok_or(Closed)?;
        Ok(self.code(id).1)
    }

    fn storage(&mut self, address: Address, slot: StorageKey) -> Result<StorageValue, Closed> {
        let incarnation = self.code_of(address)?.incarnation;
        let value = self.read(&StateKey::Slot(address, slot))?;
        Ok(if value.incarnation == incarnation { value.number } else { U256::ZERO })
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Closed> {
        Ok(self.hashes.get(number))
    }
}

impl AccountMask for Window {
    fn reveal(&mut self, address: Address, gained: U256) -> Result<Option<MaskedAccount>, Closed> {
        if !self.masked.contains(&address) {
            return Ok(None);
        }
        let most = self.most_paid.get(&address).copied().unwrap_or_default();
        let hidden = self.hidden(address, gained.max(most))?;
        self.masked.remove(&address);
        Ok(Some(hidden))
    }

    fn exempt(&mut self, address: Address) {
        if self.unseen.but.is_some() {
            self.whole.insert(address);
        }
    }

    fn pays(&mut self, address: Address, gained: U256) {
        if self.unseen.but.is_some() {
            let most = self.most_paid.entry(address).or_default();
            *most = gained.max(*most);
        }
    }
}
