//! Effect of a finished transaction on an account, by the rules of the block's spec: every
//! executor decides by it. EIP-6780 needs no rule here: revm marks what it destroys.

use crate::model::Fault;
use revm::{primitives::hardfork::SpecId, state::Account};

/// Rules that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccountRules {
    /// True if touching an empty account deletes it (EIP-161); otherwise the touch creates it.
    pub(crate) clears_empty: bool,
    /// True if an account without code and nonce may hold storage, see [`super::State::bare_storage`].
    pub(crate) bare_storage: bool,
    /// True if a transfer costs more where it makes its receiver (EIP-2780).
    pub(crate) prices_new: bool,
    /// True if a contract that destroys itself when it is created leaves its balance to its address (EIP-8246).
    pub(crate) leaves_balance: bool,
}

/// Existence of a touched account after the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountTransition {
    /// The account exists.
    Lives,
    /// The account does not exist, whether it did before or not.
    Gone,
}

impl AccountRules {
    pub(crate) const fn new(spec: SpecId, bare_storage: bool) -> Self {
        let clears_empty = spec.is_enabled_in(SpecId::SPURIOUS_DRAGON);
        let is_amsterdam = spec.is_enabled_in(SpecId::AMSTERDAM);
        Self {
            clears_empty,
            bare_storage: bare_storage || !clears_empty,
            prices_new: is_amsterdam,
            leaves_balance: is_amsterdam,
        }
    }

    /// True if a transaction that touched `account` changed it. Before Spurious Dragon revm leaves alone accounts that
    /// existed and are empty in the end, also when a destruction has wrapped the balance to zero.
    pub(crate) fn counts(self, account: &Account) -> bool {
        let left_alone = !self.clears_empty
            && account.is_empty()
            && !account.is_loaded_as_not_existing()
            && !account.is_selfdestructed()
            && !account.is_created();
        account.is_touched() && !left_alone
    }

    /// Existence of `account` after a transaction that touched it.
    pub(crate) fn transition(self, account: &Account) -> AccountTransition {
        if account.is_selfdestructed() || (self.clears_empty && account.is_empty()) {
            AccountTransition::Gone
        } else {
            AccountTransition::Lives
        }
    }

    /// True if the slots that `account` had before the transaction are lost: it was destroyed, or created over an
    /// account that could hold some.
    pub(crate) fn resets_storage(self, account: &Account) -> bool {
        if account.is_loaded_as_not_existing() || Fault::StorageAfterDestruction.is_seeded() {
            return false;
        }
        // What is left of a contract that never was: as revm has it, nothing was there that could be lost.
        if self.leaves_balance && account.is_created() && !account.is_empty() && account.info.has_no_code_and_nonce() {
            return false;
        }
        let destroyed = account.is_selfdestructed() && !account.is_created();
        let replaced =
            self.bare_storage && (account.is_created() || self.transition(account) == AccountTransition::Gone);
        destroyed || replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::{primitives::U256, state::AccountInfo};

    const OLD: AccountRules = AccountRules::new(SpecId::HOMESTEAD, true);
    const NEW: AccountRules = AccountRules::new(SpecId::OSAKA, false);

    fn existing() -> Account {
        Account::from(AccountInfo::default().with_balance(U256::ONE))
    }

    #[test]
    fn an_empty_account_lives_until_spurious_dragon() {
        let empty = Account::from(AccountInfo::default());
        assert_eq!(
            (OLD.transition(&empty), NEW.transition(&empty)),
            (AccountTransition::Lives, AccountTransition::Gone)
        );
        assert_eq!(
            (OLD.transition(&existing()), NEW.transition(&existing())),
            (AccountTransition::Lives, AccountTransition::Lives)
        );
    }

    #[test]
    fn an_account_that_stays_empty_is_left_alone_before_spurious_dragon() {
        let mut empty = Account::from(AccountInfo::default());
        assert_eq!([OLD.counts(&empty), NEW.counts(&empty)], [false, false], "untouched");
        empty.mark_touch();
        assert_eq!([OLD.counts(&empty), NEW.counts(&empty)], [false, true]);
        let mut new = Account::new_not_existing(revm::state::TransactionId::ZERO);
        new.mark_touch();
        assert!(OLD.counts(&new), "it comes to exist");
        let mut rich = existing();
        rich.mark_touch();
        assert!(OLD.counts(&rich) && NEW.counts(&rich));
    }

    #[test]
    fn storage_is_lost_by_destruction_and_where_it_may_be_bare_by_replacement() {
        let mut destroyed = existing();
        destroyed.mark_selfdestruct();
        assert_eq!(
            (OLD.transition(&destroyed), NEW.transition(&destroyed)),
            (AccountTransition::Gone, AccountTransition::Gone)
        );
        assert!(OLD.resets_storage(&destroyed) && NEW.resets_storage(&destroyed));
        let mut created = existing();
        created.mark_created();
        assert!(OLD.resets_storage(&created) && !NEW.resets_storage(&created));
        let [before, after] = [SpecId::OSAKA, SpecId::AMSTERDAM].map(|spec| AccountRules::new(spec, true));
        assert!(before.resets_storage(&created) && !after.resets_storage(&created), "its balance is left alone");
        created.info.nonce = 1;
        assert!(before.resets_storage(&created) && after.resets_storage(&created));
        let mut new = Account::new_not_existing(revm::state::TransactionId::ZERO);
        new.mark_created();
        assert!(!OLD.resets_storage(&new) && !NEW.resets_storage(&new));
    }
}
