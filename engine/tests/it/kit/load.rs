//! Loads of the workloads, as the engine takes them.

use phalanx::GenesisAccount;
use phalanx_workloads::Workload;

/// Accounts of a load's genesis.
pub(crate) fn genesis(workload: &dyn Workload) -> Vec<GenesisAccount> {
    let account = |account: phalanx_workloads::GenesisAccount| {
        let phalanx_workloads::GenesisAccount { address, balance, nonce, code, storage } = account;
        GenesisAccount { address, balance, nonce, code, storage }
    };
    workload.genesis().accounts.into_iter().map(account).collect()
}
