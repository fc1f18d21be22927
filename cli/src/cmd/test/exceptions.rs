//! Tests that stock revm does not pass, with reasons. They run all the same, and are skipped only if they fail.

use super::kind::Verdict;
use phalanx_workloads::fixtures::Alloc;

/// Tests of EIP-7610 by parts of their names. The EIP lets a creation fail whose address holds storage; revm checks code and
/// nonce alone. No chain can tell: accounts with storage and neither code nor nonce have been impossible since Spurious
/// Dragon, and mainnet's last ones are out of reach of any creation.
const CREATION_OVER_STORAGE: [&str; 5] =
    ["InitCollision", "RevertInCreateInInit", "create2collisionStorage", "dynamicAccountOverwriteEmpty", "eip7610"];

/// The verdict on a test; a known failure of revm becomes a skip.
pub(super) fn unless_known(test: &str, pre: &Alloc, verdict: Verdict) -> Verdict {
    let bare =
        || pre.values().any(|account| account.nonce == 0 && account.code.is_empty() && !account.storage.is_empty());
    match verdict {
        Verdict::Failed(_) if CREATION_OVER_STORAGE.iter().any(|name| test.contains(name)) && bare() => {
            Verdict::Skipped("revm does not know EIP-7610 (creation over storage)".into())
        }
        verdict => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::revm::primitives::{Address, U256};
    use phalanx_workloads::fixtures::Account;
    use std::collections::BTreeMap;

    #[test]
    fn only_failures_of_the_named_tests_over_bare_storage_are_skipped() {
        let failed = || Verdict::Failed("no".into());
        let storage = BTreeMap::from([(U256::ONE, U256::ONE)]);
        let bare = Alloc::from([(Address::ZERO, Account { storage, ..Account::default() })]);
        let name = "InitCollisionParis_d0g0v0_Cancun";
        assert!(matches!(unless_known(name, &bare, failed()), Verdict::Skipped(_)));
        assert_eq!(unless_known(name, &bare, Verdict::Passed), Verdict::Passed);
        assert_eq!(unless_known(name, &Alloc::new(), failed()), failed());
        assert_eq!(unless_known("sstore_combinations", &bare, failed()), failed());
    }
}
