//! L0, the native rule: a value transfer to an account without code touches exactly two accounts.

use crate::{batch::Batch, key::StateKey};
use phalanx_access::Access;
use revm::{context::TxEnv, primitives::Address};

/// Adds the two accounts of a native transfer.
///
/// A moved value is a credit of the receiver, which commutes: nothing reads its balance, and before Amsterdam its emptiness
/// changes no gas at the top level. A transfer of zero is a write, since its touch may delete an empty account (EIP-161). So
/// is a transfer to oneself.
#[inline]
pub(crate) fn add(batch: &mut Batch, tx: &TxEnv, to: Address) {
    batch.add_new(StateKey::Basic(tx.caller), Access::Write);
    if to != tx.caller {
        let access = if tx.value.is_zero() { Access::Write } else { Access::Credit };
        batch.add_new(StateKey::Basic(to), access);
    }
}
