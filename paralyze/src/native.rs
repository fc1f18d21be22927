//! L0, the native rule: a value transfer to an account without code touches exactly two accounts.

use crate::{batch::Batch, key::StateKey, snapshot::Snapshot, vm::VmConfig};
use phalanx_access::Access;
use revm::{context::TxEnv, primitives::Address};

/// Adds the two accounts of a native transfer.
///
/// A moved value is a credit of a receiver that is not read, which commutes: see [`VmConfig::plain_receiver`]. A transfer of zero is a
/// write, since its touch may delete an empty account (EIP-161). So is a transfer to oneself, and one that makes its receiver where
/// that has a price.
#[inline]
pub(crate) fn add(cfg: &VmConfig, snapshot: &impl Snapshot, batch: &mut Batch, tx: &TxEnv, to: Address) {
    batch.add_new(StateKey::Basic(tx.caller), Access::Write);
    if to != tx.caller {
        let is_there = || snapshot.basic_ref(to).is_ok_and(|info| info.is_some_and(|info| !info.is_empty()));
        let commutes = cfg.plain_receiver(tx).is_some() && (!cfg.prices_new_accounts() || is_there());
        let access = if commutes { Access::Credit } else { Access::Write };
        batch.add_new(StateKey::Basic(to), access);
    }
}
