//! L4: a dry run on the snapshot. Nothing is kept but the keys.

use crate::{DeferredReward, Snapshot, StateKey, Vm, VmConfig};
use phalanx_access::{Access, AccessSet};
use revm::{
    ExecuteEvm,
    context::{BlockEnv, ContextTr, TxEnv},
    database::WrapDatabaseRef,
    primitives::Address,
    state::{Account, EvmState},
};

/// A reusable dry run.
pub struct Simulator<'a, S: Snapshot> {
    evm: Vm<WrapDatabaseRef<&'a S>>,
}

impl<S: Snapshot> core::fmt::Debug for Simulator<'_, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Simulator").finish_non_exhaustive()
    }
}

impl<'a, S: Snapshot> Simulator<'a, S> {
    /// A simulator on `snapshot` in the environment of the block to come.
    pub fn new(snapshot: &'a S, cfg: &VmConfig, env: &BlockEnv) -> Self {
        let mut evm = cfg.build(WrapDatabaseRef(snapshot));
        evm.ctx.block = env.clone();
        Self { evm }
    }

    /// What `tx` touches on the snapshot; `None` when it is invalid there, or reading the snapshot failed.
    ///
    /// The nonce is taken from the snapshot: a sender's later transactions are simulated before the earlier ones ran.
    pub fn simulate(&mut self, tx: &TxEnv) -> Option<AccessSet<StateKey>> {
        let mut tx = tx.clone();
        tx.nonce = self.evm.ctx.db().0.basic_ref(tx.caller).ok()?.map_or(0, |account| account.nonce);
        self.evm.ctx.tx = tx;
        let outcome = DeferredReward::run(&mut self.evm);
        let state = self.evm.finalize();
        outcome.ok()?;
        Some(observed(&state))
    }
}

/// The access set that a finished run shows: what was loaded is read, what changed is written.
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
    fn a_dry_run_names_what_was_read_and_written_and_not_the_reward() {
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
}
