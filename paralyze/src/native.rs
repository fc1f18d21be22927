//! L0, the native rule: a value transfer to an account without code touches two accounts and nothing else.

use crate::{Batch, StateKey};
use phalanx_access::Access;
use revm::context::TxEnv;
use revm::primitives::Address;

/// Adds the two accounts of a native transfer.
///
/// The receiver is credited, which commutes, where value moves: nothing observes its balance, and its emptiness changes
/// no gas at the top level before Amsterdam. A transfer of zero touches the account, which may delete an empty one
/// (EIP-161), so that is a write. So is a transfer to oneself.
#[inline]
pub(crate) fn add(batch: &mut Batch, tx: &TxEnv, to: Address) {
    batch.add_new(StateKey::Basic(tx.caller), Access::Write);
    if to != tx.caller {
        let access = if tx.value.is_zero() { Access::Write } else { Access::Credit };
        batch.add_new(StateKey::Basic(to), access);
    }
}
