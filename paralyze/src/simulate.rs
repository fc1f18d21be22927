//! L4: a dry run on the snapshot, of which only the keys are kept.

use crate::{
    chain_rules::ChainRules,
    forced::ForcedTx,
    key::StateKey,
    ruled::run_unpaid,
    snapshot::Snapshot,
    vm::{Vm, VmConfig},
};
use phalanx_access::{Access, AccessSet};
use revm::{
    Database, ExecuteEvm,
    context::{BlockEnv, ContextTr, TxEnv},
    primitives::{Address, B256, U256},
    state::{Account, AccountInfo, Bytecode, EvmState},
};
use std::sync::Arc;

/// Runs transactions dry, one after the other.
pub struct Simulator<'a, S: Snapshot> {
    evm: Vm<Turn<'a, S>>,
    rules: Option<Arc<ChainRules>>,
}

/// A snapshot at a transaction's turn: its sender's nonce is the transaction's own, whatever runs before it. Created accounts
/// get the address of that nonce.
struct Turn<'a, S> {
    snapshot: &'a S,
    sender: Address,
    /// `None` for a forced transaction, which has none.
    nonce: Option<u64>,
}

impl<S: Snapshot> Database for Turn<'_, S> {
    type Error = S::Error;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, S::Error> {
        let account = self.snapshot.basic_ref(address)?;
        let Some(nonce) = self.nonce.filter(|nonce| address == self.sender && (account.is_some() || *nonce != 0))
        else {
            return Ok(account);
        };
        Ok(Some(AccountInfo { nonce, ..account.unwrap_or_default() }))
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, S::Error> {
        self.snapshot.code_by_hash_ref(hash)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, S::Error> {
        self.snapshot.storage_ref(address, slot)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, S::Error> {
        self.snapshot.block_hash_ref(number)
    }
}

impl<S: Snapshot> core::fmt::Debug for Simulator<'_, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Simulator").finish_non_exhaustive()
    }
}

impl<'a, S: Snapshot> Simulator<'a, S> {
    /// Creates a simulator on `snapshot` in the environment of the next block.
    pub fn new(snapshot: &'a S, cfg: &VmConfig, env: &BlockEnv) -> Self {
        let mut evm = cfg.build(Turn { snapshot, sender: Address::ZERO, nonce: Some(0) });
        evm.ctx.block = env.clone();
        Self { evm, rules: cfg.shared_rules() }
    }

    /// Returns the accesses of `tx` on the snapshot, or [`None`] if it is invalid there, or the snapshot could not be read.
    ///
    /// The nonce of `tx` counts as the next one of its sender: transactions are simulated before earlier ones ran, and none runs
    /// before its nonce is right.
    pub fn simulate(&mut self, tx: &TxEnv) -> Option<AccessSet<StateKey>> {
        let turn = self.evm.ctx.db_mut();
        (turn.sender, turn.nonce) = (tx.caller, (!ForcedTx::is(tx)).then_some(tx.nonce));
        self.evm.ctx.tx.clone_from(tx);
        let outcome = run_unpaid(self.rules.as_deref(), &mut self.evm);
        let state = self.evm.finalize();
        outcome.ok()?;
        Some(observed(&state))
    }
}

/// Returns the access set of a finished run: loaded keys are read, changed keys are written.
///
/// An account that is touched and empty may be deleted (EIP-161), so it counts as written.
pub fn observed(state: &EvmState) -> AccessSet<StateKey> {
    let mut accounts: Vec<(&Address, &Account)> = state.iter().collect();
    accounts.sort_unstable_by_key(|(address, _)| **address);
    let mut set = AccessSet::new();
    for (address, account) in accounts {
        let original = account.original_info();
        let code = account.info.code_hash != original.code_hash || account.is_selfdestructed() || account.is_created();
        let changed = code || account.is_changed() || (account.is_touched() && account.is_empty());
        set.add_new(StateKey::Basic(*address), if changed { Access::Write } else { Access::Read });
        if code {
            set.add_new(StateKey::Code(*address), Access::Write);
        }
        let mut slots: Vec<_> = account.storage.iter().collect();
        slots.sort_unstable_by_key(|(slot, _)| **slot);
        for (slot, value) in slots {
            let access = if value.is_changed() { Access::Write } else { Access::Read };
            set.add_new(StateKey::Slot(*address, *slot), access);
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::{
        bytecode::Bytecode,
        context::CfgEnv,
        database::{CacheDB, EmptyDB},
        primitives::{Bytes, TxKind, U256, hardfork::SpecId},
        state::AccountInfo,
    };

    #[test]
    fn a_dry_run_names_reads_and_writes_without_the_reward() {
        let (alice, contract, other) = (Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(3));
        // sstore(1, sload(0) + balance(other))
        let mut code = vec![0x73];
        code.extend_from_slice(other.as_slice());
        code.extend_from_slice(&[0x31, 0x5f, 0x54, 0x01, 0x60, 0x01, 0x55, 0x00]);
        let mut db = CacheDB::new(EmptyDB::default());
        db.insert_account_info(
            alice,
            AccountInfo { balance: U256::from(10u64.pow(18)), nonce: 5, ..Default::default() },
        );
        db.insert_account_info(other, AccountInfo { balance: U256::from(3), ..Default::default() });
        db.insert_account_info(contract, AccountInfo::default().with_code(Bytecode::new_raw(Bytes::from(code))));
        let env = BlockEnv { basefee: 1, beneficiary: Address::repeat_byte(9), ..Default::default() };
        let tx = TxEnv {
            caller: alice,
            kind: TxKind::Call(contract),
            gas_limit: 100_000,
            gas_price: 10,
            nonce: 77,
            ..Default::default()
        };
        let mut simulator = Simulator::new(&db, &CfgEnv::new_with_spec(SpecId::OSAKA).into(), &env);
        for _ in 0..2 {
            let set = simulator.simulate(&tx).expect("valid but for its nonce");
            assert_eq!(
                set.as_slice(),
                [
                    (StateKey::Basic(alice), Access::Write),
                    (StateKey::Basic(contract), Access::Read),
                    (StateKey::Slot(contract, U256::ZERO), Access::Read),
                    (StateKey::Slot(contract, U256::ONE), Access::Write),
                    (StateKey::Basic(other), Access::Read),
                ]
            );
        }
        assert!(simulator.simulate(&TxEnv { gas_limit: 1, ..tx }).is_none(), "invalid on any state");
    }

    #[test]
    fn a_created_account_has_the_address_of_the_transactions_nonce() {
        let (alice, poor) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let mut db = CacheDB::new(EmptyDB::default());
        let balance = U256::from(10u64.pow(18));
        db.insert_account_info(alice, AccountInfo { balance, nonce: 5, ..Default::default() });
        let env = BlockEnv { basefee: 1, ..Default::default() };
        let mut simulator = Simulator::new(&db, &CfgEnv::new_with_spec(SpecId::OSAKA).into(), &env);
        // The next nonce, one after a gap, two that are too low, and the next one again.
        for nonce in [5, 7, 3, 0, 5] {
            let create = TxEnv {
                caller: alice,
                kind: TxKind::Create,
                gas_limit: 100_000,
                gas_price: 10,
                nonce,
                ..Default::default()
            };
            let set = simulator.simulate(&create).expect("valid in its turn");
            let created = alice.create(nonce);
            let mut keys: Vec<_> = set.as_slice().iter().map(|(key, access)| (*key.address(), *access)).collect();
            keys.dedup();
            keys.sort_unstable_by_key(|(address, _)| *address != alice);
            assert_eq!(keys, [(alice, Access::Write), (created, Access::Write)], "{nonce}");
        }
        // An account that does not exist yet may have sent transactions by then, and still cannot pay.
        let unpaid = TxEnv { caller: poor, gas_limit: 21_000, gas_price: 10, nonce: 4, ..Default::default() };
        assert!(simulator.simulate(&unpaid).is_none());
        assert!(
            simulator.simulate(&TxEnv { caller: alice, nonce: u64::MAX, ..unpaid }).is_none(),
            "there is no such nonce"
        );
    }
}
