//! Accounts whose authorizations a transaction carries (EIP-7702).

use alloy_primitives::Address;
use revm::{context::TxEnv, context_interface::transaction::AuthorizationTr as _};

/// Returns the signers of the authorizations of `tx`. Each raises the nonce of its account and makes it delegate, if it is
/// valid at its turn. A signer that is not recovered yet is recovered, which costs as much as a transaction's.
pub fn authorities(tx: &TxEnv) -> impl Iterator<Item = Address> + '_ {
    tx.authorization_list.iter().filter_map(|authorization| authorization.authority())
}
