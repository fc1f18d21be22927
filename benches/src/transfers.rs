//! Access sets of transfers, for the benches of framing and ordering.

use crate::case::{CONTENTION, Kind};
use phalanx::{
    access::{Access, AccessSets, Interner, Key as _, KeyId, Salt},
    paralyze::StateKey,
    revm::primitives::TxKind,
};
use phalanx_workloads::{ConfigError, TransferLoad, Workload as _};

/// Number of accounts of every load: enough that most keys of a block are distinct and cold.
const ACCOUNTS: u64 = 1 << 20;

/// Native transfers as ParaFramer and ParaScheduler see them: two keys each, the sender written, the receiver credited.
#[derive(Clone, Debug)]
pub struct Transfers {
    /// Kind of contention, for the name of a bench.
    pub name: &'static str,
    /// The access sets in the order of generation.
    pub sets: AccessSets<StateKey>,
    /// Digests of the keys, one for one. The sender is the first of each set.
    pub digests: AccessSets<u64>,
    salt: Salt,
}

impl Transfers {
    /// Generates `txs` transfers at each kind of contention. O(2^20) each, for the accounts.
    ///
    /// # Errors
    /// `txs` exceeds the maximum of a load.
    pub fn all(txs: u64) -> Result<Vec<Self>, ConfigError> {
        CONTENTION
            .into_iter()
            .map(|(name, alpha, gamma, hot)| {
                Self::new(name, TransferLoad { alpha, gamma, hot, ..Kind::Native.load(ACCOUNTS, txs) })
            })
            .collect()
    }

    /// Generates the transfers of one load. O(accounts + transactions).
    ///
    /// # Errors
    /// The load describes no workload.
    pub fn new(name: &'static str, load: TransferLoad) -> Result<Self, ConfigError> {
        let salt = Salt::new(load.seed);
        let workload = phalanx_workloads::Native::new(load)?;
        let (mut sets, mut digests) = (AccessSets::new(), AccessSets::new());
        for tx in workload.transactions() {
            let sender = (StateKey::Basic(tx.caller), Access::Write);
            let receiver = match tx.kind {
                TxKind::Call(to) => Some((StateKey::Basic(to), Access::Credit)),
                TxKind::Create => None,
            };
            let set = core::iter::once(sender).chain(receiver);
            digests.push(set.clone().map(|(key, access)| (key.digest(&salt), access)));
            sets.push(set);
        }
        Ok(Self { name, sets, digests, salt })
    }

    /// Number of transactions.
    pub const fn len(&self) -> usize {
        self.sets.len()
    }

    /// True if there is no transaction.
    pub const fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Salt of the digests.
    pub const fn salt(&self) -> Salt {
        self.salt
    }

    /// Returns the first `txs` transactions as one block over dense ids, and its number of keys. O(keys).
    ///
    /// # Panics
    /// There are fewer transactions.
    pub fn block(&self, txs: usize) -> (AccessSets<KeyId>, usize) {
        let mut interner = Interner::new(self.salt);
        let mut ids = AccessSets::new();
        for tx in 0..txs {
            ids.push(self.sets.get(tx).iter().map(|(key, access)| (interner.intern(key), *access)));
        }
        (ids, interner.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transfer_has_two_keys_and_its_sender_first() {
        for transfers in Transfers::all(2_000).expect("a load") {
            assert_eq!((transfers.len(), transfers.digests.len()), (2_000, 2_000));
            let (ids, keys) = transfers.block(1_000);
            assert_eq!(ids.len(), 1_000);
            assert!(ids.entries().iter().all(|(id, _)| id.index() < keys));
            for (set, digests) in transfers.sets.iter().zip(transfers.digests.iter()) {
                assert_eq!(set.iter().map(|(_, access)| *access).collect::<Vec<_>>(), [Access::Write, Access::Credit]);
                assert!(set.iter().zip(digests).all(|((key, _), (digest, _))| key.digest(&transfers.salt) == *digest));
            }
        }
    }
}
