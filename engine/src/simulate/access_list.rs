//! The access list of a call (EIP-2930): what it touches and is cold otherwise.

use super::{Failure, SimulateError, Simulator, failed};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256};
use phalanx_paralyze::ForcedTx;
use revm::{
    DatabaseRef,
    context::TxEnv,
    context_interface::{
        result::{ExecutionResult, InvalidTransaction},
        transaction::AuthorizationTr,
    },
    inspector::NoOpInspector,
    primitives::hardfork::SpecId,
    state::EvmState,
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of executions of a call whose accesses depend on what its list contains.
pub const ACCESS_LIST_ROUNDS: usize = 8;

/// The access list of a call.
#[derive(Clone, Debug)]
pub struct AccessListed {
    /// Accounts and slots, in order. The list that the call came with is part of it.
    pub access_list: AccessList,
    /// Gas that the call uses with the list.
    pub gas_used: u64,
    /// Result of the call with the list: a call that fails has a list as well.
    pub result: ExecutionResult,
}

type Listed = BTreeMap<Address, BTreeSet<B256>>;

impl<D: DatabaseRef> Simulator<D> {
    /// Makes the access list of a call, like `eth_createAccessList`. The call runs with the list of its last run until
    /// that contains all that it touches, at most [`ACCESS_LIST_ROUNDS`] times.
    ///
    /// Accounts that are warm anyway are listed with their slots alone: sender, receiver and its delegate, precompiles, from Shanghai on
    /// the beneficiary, authorities (EIP-7702), and accounts that the call creates. An address whose creation was
    /// reverted may be listed.
    ///
    /// # Errors
    /// The call is invalid, also because the hard fork knows no access lists or a forced transaction has none, or the state
    /// cannot be read.
    pub fn create_access_list(&self, tx: &TxEnv) -> Result<AccessListed, Failure<D>> {
        if ForcedTx::is(tx) {
            let reason = "a forced transaction has no access list: make the list of a call with the same fields";
            return Err(SimulateError::Invalid(InvalidTransaction::Str(reason.into())));
        }
        let mut tx = TxEnv { gas_limit: tx.gas_limit.min(self.env.gas_limit), ..tx.clone() };
        tx.tx_type = tx.tx_type.max(1);
        let mut listed = Listed::new();
        for item in &*tx.access_list {
            listed.entry(item.address).or_default().extend(&item.storage_keys);
        }
        let mut round = 1;
        loop {
            let called = self.run(tx.clone(), NoOpInspector).0.map_err(failed)?;
            let before = (listed.len(), listed.values().map(BTreeSet::len).sum::<usize>());
            self.list(&tx, &called.state, &mut listed);
            let is_whole = before == (listed.len(), listed.values().map(BTreeSet::len).sum::<usize>());
            if is_whole || round == ACCESS_LIST_ROUNDS {
                let (gas_used, result) = (called.result.tx_gas_used(), called.result);
                return Ok(AccessListed { access_list: tx.access_list, gas_used, result });
            }
            let items = listed.iter().map(|(address, slots)| AccessListItem {
                address: *address,
                storage_keys: slots.iter().copied().collect(),
            });
            tx.access_list = AccessList(items.collect());
            round += 1;
        }
    }

    /// Adds what a call has touched.
    fn list(&self, tx: &TxEnv, state: &EvmState, listed: &mut Listed) {
        let warms_beneficiary = self.rules.spec.is_enabled_in(SpecId::SHANGHAI);
        let receiver = tx.kind.to().and_then(|to| state.get(to)?.info.code.as_ref()?.eip7702_address());
        let authorities: Vec<_> = tx.authorization_list.iter().filter_map(AuthorizationTr::authority).collect();
        for (address, account) in state {
            if account.is_created() {
                continue;
            }
            let is_warm = *address == tx.caller
                || tx.kind.to() == Some(address)
                || receiver == Some(*address)
                || self.rules.is_precompile(address)
                || authorities.contains(address)
                || *address == self.env.beneficiary && warms_beneficiary;
            let slots = account.storage.keys().map(|slot| B256::from(*slot));
            if !is_warm || account.storage.keys().next().is_some() {
                listed.entry(*address).or_default().extend(slots);
            }
        }
    }
}
