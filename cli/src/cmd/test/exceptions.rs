//! Tests that stock revm itself does not pass, and why. They are run all the same, and skipped only where they fail.

use super::kind::Verdict;
use phalanx_workloads::fixtures::Alloc;

/// Tests of EIP-7610, by a part of their names. It makes a creation fail whose address holds storage. revm looks at code and
/// nonce alone, which no chain can tell from it: an account with storage and neither code nor nonce has been impossible since
/// Spurious Dragon, and mainnet's last ones are out of reach of any creation.
const CREATION_OVER_STORAGE: [&str; 5] =
    ["InitCollision", "RevertInCreateInInit", "create2collisionStorage", "dynamicAccountOverwriteEmpty", "eip7610"];

/// The verdict on a test, a failure that revm is known for turned into a skip.
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
