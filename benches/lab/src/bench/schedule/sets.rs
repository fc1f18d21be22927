//! Access sets of generated transactions, read off their calldata without execution.

use phalanx::{
    access::{Access, AccessSets},
    paralyze::StateKey,
    revm::{
        context::TxEnv,
        primitives::{Address, TxKind, U256},
    },
};
use phalanx_workloads::{PhalanxPool, PhalanxToken, Pools, Swap};

/// Access sets of `txs`, as if all succeed. The sender is the first key of each set.
pub(super) fn access_sets(txs: &[TxEnv]) -> AccessSets<StateKey> {
    let mut sets = AccessSets::new();
    for tx in txs {
        sets.add(StateKey::Basic(tx.caller), Access::Write);
        match tx.kind {
            TxKind::Call(to) => call(&mut sets, tx, to),
            TxKind::Create => {
                let created = tx.caller.create(tx.nonce);
                sets.add(StateKey::Basic(created), Access::Write);
                sets.add(StateKey::Code(created), Access::Write);
            }
        }
        sets.close();
    }
    sets
}

fn call(sets: &mut AccessSets<StateKey>, tx: &TxEnv, to: Address) {
    if let Some((receiver, _)) = PhalanxToken::decode_transfer(&tx.data) {
        sets.add(StateKey::Basic(to), Access::Read);
        balances(sets, to, [tx.caller, receiver]);
    } else if let Some((spender, _)) = PhalanxToken::decode_approve(&tx.data) {
        sets.add(StateKey::Basic(to), Access::Read);
        sets.add(StateKey::Slot(to, PhalanxToken::allowance_slot(tx.caller, spender)), Access::Write);
    } else if let (Some(swap), Some(tokens)) = (PhalanxPool::decode_swap(&tx.data), Pools::tokens(&to)) {
        trade(sets, tx.caller, to, tokens, &swap);
    } else {
        sets.add(StateKey::Basic(to), Access::Credit);
    }
}

fn trade(sets: &mut AccessSets<StateKey>, trader: Address, pool: Address, tokens: [Address; 2], swap: &Swap) {
    sets.add(StateKey::Basic(pool), Access::Read);
    // The pool checks the deadline before it touches anything else.
    if swap.deadline == U256::ZERO {
        return;
    }
    let [first, second] = PhalanxPool::TOKEN_SLOTS;
    // The lock ends with its initial value, which counts as a read.
    for slot in [first, second, PhalanxPool::LOCK_SLOT] {
        sets.add(StateKey::Slot(pool, slot), Access::Read);
    }
    sets.add(StateKey::Slot(pool, PhalanxPool::RESERVES_SLOT), Access::Write);
    // An unlimited allowance is not reduced.
    sets.add(StateKey::Slot(swap.sold, PhalanxToken::allowance_slot(trader, pool)), Access::Read);
    for token in tokens {
        sets.add(StateKey::Basic(token), Access::Read);
        balances(sets, token, [if token == swap.sold { trader } else { swap.to }, pool]);
    }
}

fn balances(sets: &mut AccessSets<StateKey>, token: Address, holders: [Address; 2]) {
    for holder in holders {
        sets.add(StateKey::Slot(token, PhalanxToken::balance_slot(holder)), Access::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::{
        paralyze::{Simulator, VmConfig},
        revm::{
            bytecode::Bytecode,
            context::CfgEnv,
            database::{CacheDB, EmptyDB},
            state::AccountInfo,
        },
    };
    use phalanx_workloads::{Amm, Erc20, Mix, Mixed, Native, TransferLoad, Workload};
    use std::collections::BTreeMap;

    fn slots(set: &[(StateKey, Access)]) -> BTreeMap<(Address, U256), Access> {
        set.iter()
            .filter_map(|(key, access)| match key {
                StateKey::Slot(owner, slot) => Some(((*owner, *slot), *access)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn sets_read_off_calldata_hold_every_touched_slot() {
        let load = TransferLoad { accounts: 200, txs: 400, ..TransferLoad::default() };
        let pools = Pools { count: 5, hot_share: 0.5 };
        let mix = Mix { create: 0, revert: 0, ..Mix::default() };
        let workloads: [Box<dyn Workload>; 4] = [
            Box::new(Native::new(load.clone()).expect("a load")),
            Box::new(Erc20::new(load.clone()).expect("a load")),
            Box::new(Amm::new(load.clone(), pools).expect("a load")),
            Box::new(Mixed::new(load, pools, mix).expect("a load")),
        ];
        for workload in workloads {
            let mut state = CacheDB::new(EmptyDB::default());
            for account in workload.genesis().accounts {
                let mut info = AccountInfo { balance: account.balance, nonce: account.nonce, ..Default::default() };
                if let Some(code) = account.code {
                    info = info.with_code(Bytecode::new_raw(code));
                }
                state.insert_account_info(account.address, info);
                for (slot, value) in account.storage {
                    state.insert_account_storage(account.address, slot, value).expect("in memory");
                }
            }
            let txs: Vec<_> = workload.transactions().collect();
            let (cfg, env) = (VmConfig::from(CfgEnv::default()), workload.block_env(1));
            let mut simulator = Simulator::new(&state, &cfg, &env);
            for (tx, read_off) in txs.iter().zip(access_sets(&txs).iter()) {
                assert_eq!(read_off.first(), Some(&(StateKey::Basic(tx.caller), Access::Write)));
                let truth = simulator.simulate(tx).expect("a valid transaction");
                assert_eq!(slots(read_off), slots(truth.as_slice()), "{}: {tx:?}", workload.name());
                for (key, _) in read_off {
                    assert!(truth.as_slice().iter().any(|(found, _)| found == key), "{key:?} is not touched by {tx:?}");
                }
            }
        }
    }
}
