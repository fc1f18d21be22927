//! Effects of a step on each account that it accessed, as EIP-7928 defines them. Producing a list and checking one both
//! use this file, so there is one definition.
//!
//! revm's journal after a step holds exactly the accounts and slots that the step accessed. Items that gas did not
//! cover were not loaded, items that were merely declared (EIP-2930) were not either, and a revert keeps what it undoes
//! loaded. The beneficiary is missing where its payment is deferred; the deferring code adds it.

use crate::state::{AccountRules, AccountTransition};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use revm::state::Account;

/// Receives the effects of a step, account by account; all other events concern the account named last. A change is
/// reported only if the value differs from the one before the step.
pub(crate) trait Sink {
    /// An account was accessed.
    fn account(&mut self, address: &Address);
    /// The balance changed.
    fn balance(&mut self, before: U256, after: U256);
    /// The balance grew, by a credit that did not read it.
    fn credit(&mut self, amount: U256);
    /// The nonce changed.
    fn nonce(&mut self, before: u64, after: u64);
    /// The code changed, from one hash to another.
    fn code(&mut self, before: B256, after: B256, code: Bytes);
    /// A slot was read, or written with its present value.
    fn read(&mut self, slot: U256);
    /// A slot changed.
    fn write(&mut self, slot: U256, before: U256, after: U256);
}

/// Reports the effects of a finished step on `accounts` to `sink`. Of an account that `is_blind` names only
/// a part was shown, and whatever came to its balance is a credit.
pub(crate) fn tell<'a>(
    accounts: impl IntoIterator<Item = (&'a Address, &'a Account)>,
    rules: AccountRules,
    is_blind: impl Fn(&Address) -> bool,
    sink: &mut impl Sink,
) {
    for (address, account) in accounts {
        sink.account(address);
        if is_blind(address) {
            let added = account.info.balance.saturating_sub(account.original_info().balance);
            if !added.is_zero() {
                sink.credit(added);
            }
        } else if rules.counts(account) {
            tell_changes(account, rules.transition(account) == AccountTransition::Gone, sink);
        } else {
            account.storage.keys().for_each(|slot| sink.read(*slot));
        }
    }
}

fn tell_changes(account: &Account, gone: bool, sink: &mut impl Sink) {
    let before = account.original_info();
    let info = &account.info;
    let (balance, nonce, code_hash) =
        if gone { (U256::ZERO, 0, KECCAK256_EMPTY) } else { (info.balance, info.nonce, info.code_hash) };
    if balance != before.balance {
        sink.balance(before.balance, balance);
    }
    if nonce != before.nonce {
        sink.nonce(before.nonce, nonce);
    }
    if code_hash != before.code_hash {
        let code = info.code.as_ref().filter(|_| !gone).map(|code| code.original_bytes()).unwrap_or_default();
        sink.code(before.code_hash, code_hash, code);
    }
    for (slot, value) in &account.storage {
        // A destroyed account has no storage; an account created and destroyed in the step never had any.
        let (before, after) = (value.original_value, if gone { U256::ZERO } else { value.present_value });
        if before == after { sink.read(*slot) } else { sink.write(*slot, before, after) }
    }
}
