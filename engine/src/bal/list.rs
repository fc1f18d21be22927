//! Decodes a list that a block commits to.

use crate::model::RecoveredBlock;
use crate::{bal::directory::Directory, model::AccessListFault};
use alloy_eips::eip7928::{AccountChanges, BlockAccessIndex, ITEM_COST, total_bal_items, validate_block_access_list};
use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_rlp::Decodable as _;
use phalanx_paralyze::StateKey;
use revm::primitives::{hardfork::SpecId, map::HashMap};

/// Gas per byte of deployed code.
const CODE_BYTE_GAS: u64 = 200;

/// Minimum gas of a new code, refunds deducted: a delegation's (EIP-7702). A deployment takes 32,000.
const CODE_GAS: u64 = 12_500;

/// Number of accounts and slots that no gas pays for, besides those that are paid: precompiles, and contracts that the
/// protocol calls.
const FREE_ITEMS: u64 = 128;

/// Bytes of what no gas pays for: queues of the contracts that the protocol calls.
const UNPAID_BYTES: u64 = 1 << 18;

/// Gas of the protocol's own steps in a block, beyond that of its transactions.
const PROTOCOL_GAS: u64 = 4 * 30_000_000;

/// A list in canonical form, with an index.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) accounts: Vec<AccountChanges>,
    pub(crate) hash: B256,
    by_address: HashMap<Address, u32>,
    /// Directories of each account: of the slots that change, and of the slots that are only read, where either are
    /// many.
    directories: Vec<Option<Box<[Directory; 2]>>>,
    /// Number of keys before each account's own, where each account is a key, followed by its slots, changed ones
    /// first. One more entry at the end.
    first_key: Vec<usize>,
    /// Number of code changes before each account's own.
    first_code: Vec<usize>,
    /// Number of changes at each index.
    listed: Vec<u32>,
}

/// A slot of a listed account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Number of the slot among those that change.
    Changed(usize),
    /// Number of the slot among those that are only read.
    Read(usize),
}

impl List {
    /// Accounts and slots of the list, in its order.
    pub(crate) fn names(&self) -> Vec<StateKey> {
        let mut keys = Vec::with_capacity(self.keys());
        for AccountChanges { address, storage_changes, storage_reads, .. } in &self.accounts {
            keys.push(StateKey::Basic(*address));
            keys.extend(storage_changes.iter().map(|changes| StateKey::Slot(*address, changes.slot)));
            keys.extend(storage_reads.iter().map(|slot| StateKey::Slot(*address, *slot)));
        }
        keys
    }

    /// Decodes and checks all that can be checked without executing. Work and memory are linear in the length of `rlp`.
    ///
    /// # Errors
    /// Description of the fault.
    pub(crate) fn decode(
        rlp: &[u8],
        expected: B256,
        payload: &RecoveredBlock<'_>,
        spec: SpecId,
    ) -> Result<Self, AccessListFault> {
        let txs = payload.txs.len();
        let malformed = |what: &dyn core::fmt::Display| AccessListFault::Malformed(what.to_string());
        let hash = keccak256(rlp);
        if hash != expected {
            return Err(AccessListFault::Hash { expected, actual: hash });
        }
        // Decoded, a byte may take as much as 32.
        if rlp.len() as u64 > most_bytes(payload, spec) {
            return Err(malformed(&format_args!("its {} bytes are more than the block could pay for", rlp.len())));
        }
        let mut rest = rlp;
        let accounts = Vec::<AccountChanges>::decode(&mut rest).map_err(|error| malformed(&error))?;
        if !rest.is_empty() {
            return Err(malformed(&"something follows the list"));
        }
        check_length(&accounts, payload, spec)?;
        validate_block_access_list(&accounts, txs).map_err(|error| malformed(&error))?;
        let codes = accounts.iter().flat_map(|account| &account.code_changes).map(|change| change.new_code.len());
        let (count, bytes) =
            codes.filter(|len| *len > 0).fold((0, 0), |(count, sum), len| (count + 1, sum + len as u64));
        let gas_limit = payload.header.gas_limit;
        let [net, gross] = [gas_limit, gross_gas(gas_limit, spec)].map(|gas| gas.saturating_add(PROTOCOL_GAS));
        if bytes > gross / CODE_BYTE_GAS || count > net / CODE_GAS {
            return Err(malformed(&"it has more code than the block could pay for"));
        }
        Ok(Self::new(accounts, hash, txs))
    }

    fn new(accounts: Vec<AccountChanges>, hash: B256, txs: usize) -> Self {
        let by_address = accounts.iter().zip(0..).map(|(account, number)| (account.address, number)).collect();
        let directories = accounts.iter().map(|account| {
            let changed = Directory::new(account.storage_changes.iter().map(|changes| &changes.slot));
            let both = [changed, Directory::new(account.storage_reads.iter())];
            (!both.iter().all(Directory::is_empty)).then(|| Box::new(both))
        });
        let directories = directories.collect();
        let (mut first_key, mut first_code) = (vec![0], vec![0]);
        let mut listed = vec![0u32; txs + 2];
        for account in &accounts {
            let AccountChanges { storage_changes, storage_reads, .. } = account;
            first_key.push(first_key[first_key.len() - 1] + 1 + storage_changes.len() + storage_reads.len());
            first_code.push(first_code[first_code.len() - 1] + account.code_changes.len());
            let slots = storage_changes.iter().flat_map(|slot| &slot.changes).map(|change| change.block_access_index);
            let balances = account.balance_changes.iter().map(|change| change.block_access_index);
            let nonces = account.nonce_changes.iter().map(|change| change.block_access_index);
            let recoded = account.code_changes.iter().map(|change| change.block_access_index);
            for index in slots.chain(balances).chain(nonces).chain(recoded) {
                listed[index.get() as usize] += 1;
            }
        }
        Self { accounts, hash, by_address, directories, first_key, first_code, listed }
    }

    /// True if the list sets a delegation, or code that begins like one.
    pub(crate) fn has_delegation(&self) -> bool {
        let codes = self.accounts.iter().flat_map(|account| &account.code_changes);
        codes.into_iter().any(|change| change.new_code.first() == Some(&0xef))
    }

    /// True if an account loses its code: before Cancun it is destroyed then.
    pub(crate) fn takes_code_away(&self) -> bool {
        let codes = self.accounts.iter().flat_map(|account| &account.code_changes);
        codes.into_iter().any(|change| change.new_code.is_empty())
    }

    /// Number of an account.
    #[inline]
    pub(crate) fn find(&self, address: &Address) -> Option<usize> {
        self.by_address.get(address).map(|number| *number as usize)
    }

    /// Slot of account `number`. O(log slots), and O(1) where slots are hashes.
    #[inline]
    pub(crate) fn find_slot(&self, number: usize, slot: &U256) -> Option<Slot> {
        let AccountChanges { storage_changes, storage_reads, .. } = &self.accounts[number];
        let directories = self.directories[number].as_deref();
        let [changed, read] = [(0, storage_changes.len()), (1, storage_reads.len())]
            .map(|(of, len)| directories.map_or(0..len, |directories| directories[of].range(slot, len)));
        let (first_changed, first_read) = (changed.start, read.start);
        match storage_changes[changed].binary_search_by_key(slot, |changes| changes.slot) {
            Ok(place) => Some(Slot::Changed(first_changed + place)),
            Err(_) => storage_reads[read].binary_search(slot).ok().map(|place| Slot::Read(first_read + place)),
        }
    }

    /// Number of keys.
    pub(crate) fn keys(&self) -> usize {
        self.first_key[self.accounts.len()]
    }

    /// Number of account `number` among all keys.
    #[inline]
    pub(crate) fn key(&self, number: usize) -> usize {
        self.first_key[number]
    }

    /// Number of a slot among all keys.
    #[inline]
    pub(crate) fn slot_key(&self, number: usize, slot: Slot) -> usize {
        self.first_key[number]
            + 1
            + match slot {
                Slot::Changed(place) => place,
                Slot::Read(place) => self.accounts[number].storage_changes.len() + place,
            }
    }

    /// Number of a slot that is only read among all keys.
    pub(crate) fn read_key(&self, number: usize, place: usize) -> usize {
        self.slot_key(number, Slot::Read(place))
    }

    /// Number of a code change among all.
    #[inline]
    pub(crate) fn code_number(&self, number: usize, change: usize) -> usize {
        self.first_code[number] + change
    }

    /// Number of changes at `index`.
    #[inline]
    pub(crate) fn listed(&self, index: u64) -> u32 {
        self.listed[index as usize]
    }
}

/// Checks the number of a list's items: the block's own list has as many at most, or from Amsterdam on the block is invalid.
///
/// # Errors
/// [`AccessListFault::TooLong`].
pub(crate) fn check_length(
    accounts: &[AccountChanges],
    payload: &RecoveredBlock<'_>,
    spec: SpecId,
) -> Result<(), AccessListFault> {
    let (items, most) = (total_bal_items(accounts), most_items(payload, spec));
    if items > most { Err(AccessListFault::TooLong { items, most }) } else { Ok(()) }
}

/// Maximum number of accounts and slots that a block can touch; from Amsterdam on the bound of EIP-7928, which counts unpaid items as
/// paid.
fn most_items(payload: &RecoveredBlock<'_>, spec: SpecId) -> u64 {
    if spec.is_enabled_in(SpecId::AMSTERDAM) {
        return payload.header.gas_limit / ITEM_COST as u64;
    }
    let paid = payload.ommers.len() + payload.withdrawals.map_or(0, <[_]>::len);
    let items = gross_gas(payload.header.gas_limit, spec) / item_gas(spec);
    items.saturating_add(paid as u64 + FREE_ITEMS)
}

/// Length that no list of a block has. From Berlin on a byte of it costs 25 gas and more: a slot that is read has 33 for 2,000, one that
/// changes 76 for 2,900, a transaction's accounts 120 for 12,000, code one for 200. Before, a slot costs 20.
fn most_bytes(payload: &RecoveredBlock<'_>, spec: SpecId) -> u64 {
    let gas = gross_gas(payload.header.gas_limit, spec);
    let paid = if spec.is_enabled_in(SpecId::BERLIN) { gas / 8 } else { gas.saturating_mul(4) };
    let recipients = payload.ommers.len() + payload.withdrawals.map_or(0, <[_]>::len);
    paid.saturating_add(UNPAID_BYTES).saturating_add(64 * recipients as u64)
}

/// Maximum gas of a block's transactions before refunds. Refunds are capped by a share of each transaction's gas, and a block's
/// gas is counted behind them until Amsterdam (EIP-7778).
const fn gross_gas(gas_limit: u64, spec: SpecId) -> u64 {
    if spec.is_enabled_in(SpecId::AMSTERDAM) {
        gas_limit
    } else if spec.is_enabled_in(SpecId::LONDON) {
        // At most a fifth is refunded (EIP-3529).
        gas_limit.saturating_add(gas_limit / 4)
    } else {
        gas_limit.saturating_mul(2)
    }
}

/// Minimum gas of the first access of an account or slot in a block, before refunds.
const fn item_gas(spec: SpecId) -> u64 {
    if spec.is_enabled_in(SpecId::BERLIN) {
        // A slot of a transaction's list, and its read (EIP-2929, EIP-2930).
        ITEM_COST as u64
    } else if spec.is_enabled_in(SpecId::ISTANBUL) {
        // BALANCE and EXTCODEHASH (EIP-1884), EXTCODESIZE and calls (EIP-150).
        700
    } else if spec.is_enabled_in(SpecId::TANGERINE) {
        // SLOAD (EIP-150), SSTORE without a change (EIP-1283).
        200
    } else {
        // BALANCE and EXTCODESIZE.
        20
    }
}

/// Number of `changes` before `index`.
#[inline]
pub(crate) fn before<T>(changes: &[T], index: u64, at: impl Fn(&T) -> BlockAccessIndex) -> usize {
    let is_before = |change: &T| at(change).get() < index;
    // Most lists are short.
    if changes.len() < 8 {
        return changes.iter().take_while(|change| is_before(change)).count();
    }
    // An account that changes in every transaction, like the beneficiary, has one change for each.
    let guess = usize::try_from(index).unwrap_or(usize::MAX).saturating_sub(1);
    if guess > 0 && guess < changes.len() && is_before(&changes[guess - 1]) && !is_before(&changes[guess]) {
        return guess;
    }
    changes.partition_point(is_before)
}
