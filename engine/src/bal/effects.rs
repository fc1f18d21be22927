//! What a step of a block did to each account that it accessed, as EIP-7928 tells it. Producing a list and checking one
//! both go through here, so there is one answer.
//!
//! revm's journal after a step holds exactly the accounts and slots that the step has accessed: what gas did not suffice
//! to look at was not loaded, what was merely declared (EIP-2930) was not either, and a revert leaves loaded what it
//! undoes. The beneficiary is missing where its payment is deferred; whoever defers it adds it.

use crate::state::{AccountRules, AccountTransition};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use revm::state::Account;

/// Takes what a step did, account by account; all else is about the account named last. A change is told only if the
/// value is another than before the step.
pub(crate) trait Sink {
    /// An account was accessed.
    fn account(&mut self, address: &Address);
    /// Its balance changed.
    fn balance(&mut self, before: U256, after: U256);
    /// Its balance grew, from what the step did not see.
    fn credit(&mut self, amount: U256);
    /// Its nonce changed.
    fn nonce(&mut self, before: u64, after: u64);
    /// Its code changed, from one hash to another.
    fn code(&mut self, before: B256, after: B256, code: Bytes);
    /// A slot was read, or written with the value that it had.
    fn read(&mut self, slot: U256);
    /// A slot changed.
    fn write(&mut self, slot: U256, before: U256, after: U256);
}

/// Tells `sink` what a finished step did to `accounts`. An account that `is_blind` names was shown with nothing in it.
pub(crate) fn tell<'a>(
    accounts: impl IntoIterator<Item = (&'a Address, &'a Account)>,
    rules: AccountRules,
    is_blind: impl Fn(&Address) -> bool,
    sink: &mut impl Sink,
) {
    for (address, account) in accounts {
        sink.account(address);
        if is_blind(address) {
            if !account.info.balance.is_zero() {
                sink.credit(account.info.balance);
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
        // An account that is gone has no storage; one that came and went in the step never had any.
        let (before, after) = (value.original_value, if gone { U256::ZERO } else { value.present_value });
        if before == after { sink.read(*slot) } else { sink.write(*slot, before, after) }
    }
}
