//! Simulations on a chain with an extra fee and forced transactions, against the loop.

use super::{COUNTER, DATA, FEES, cfg, genesis, rules, stock, transactions};
use crate::kit::{COINBASE, ETHER, call, env};
use phalanx::{
    ChainRules, ForcedTx,
    paralyze::VmConfig,
    revm::{
        context::TxEnv,
        context_interface::result::InvalidTransaction,
        database::{CacheDB, EmptyDB},
        primitives::{Address, TxKind, U256, hardfork::SpecId},
        state::{Account, AccountInfo},
    },
    simulate::{SimulateError, Simulator},
};
use std::collections::BTreeMap;
use stock::{Step, data_fee, run_watched};

fn vm(rules: ChainRules) -> VmConfig {
    VmConfig::from(cfg(SpecId::OSAKA)).with_rules(rules)
}

/// Every transaction of random blocks is simulated at its turn: the same result, the same changes but for the payments.
#[test]
fn calls_end_as_in_the_loop() {
    let (mut executed, mut invalid, mut forced) = (0, 0, 0);
    let watch = |Step { db, env, tx, result, state }: Step<'_>| {
        let called = Simulator::new(vm(rules(FEES)), env.clone(), db).call(tx);
        match (called, result) {
            (Ok(called), Ok(result)) => {
                assert_eq!(called.result, *result, "{tx:?}");
                let paid = [FEES.treasury, FEES.vault, DATA, COINBASE];
                for (address, account) in state.iter().filter(|(address, _)| !paid.contains(address)) {
                    let facts = |account: &Account| {
                        let AccountInfo { balance, nonce, code_hash, .. } = account.info;
                        let slots = account.storage.iter().map(|(slot, value)| (*slot, value.present_value));
                        (balance, nonce, code_hash, account.status, slots.collect::<BTreeMap<_, _>>())
                    };
                    assert_eq!(facts(&called.state[address]), facts(account), "{address}, {tx:?}");
                }
                executed += 1;
                forced += u32::from(ForcedTx::is(tx));
            }
            // A call has no nonce.
            (_, Err(InvalidTransaction::NonceTooHigh { .. } | InvalidTransaction::NonceTooLow { .. })) => {}
            (Err(SimulateError::Invalid(ours)), Err(theirs)) => {
                assert_eq!(ours, *theirs, "{tx:?}");
                invalid += 1;
            }
            (ours, theirs) => panic!("{ours:?}, {theirs:?}, {tx:?}"),
        }
    };
    let blocks = [(env(1), transactions(31, 300, 20))];
    let mut genesis = genesis();
    // Some can pay for gas and value, and not for the fee as well.
    for (at, account) in genesis.iter_mut().enumerate().take(12) {
        account.balance = U256::from(300_000u64 * 100 + 900 + at as u64);
    }
    run_watched(&genesis, &cfg(SpecId::OSAKA), FEES, &blocks, watch);
    assert!(executed > 100 && invalid > 10 && forced > 10, "{executed}, {invalid}, {forced}");
}

fn world(balance: U256) -> CacheDB<EmptyDB> {
    let mut db = CacheDB::new(EmptyDB::default());
    db.insert_account_info(Address::repeat_byte(1), AccountInfo { balance, ..AccountInfo::default() });
    db
}

#[test]
fn estimates_leave_the_extra_fee_to_the_sender() {
    let to = Address::repeat_byte(2);
    for data in [vec![], vec![9u8; 200]] {
        let tx = TxEnv { data: data.clone().into(), ..call(1, 0, to, 3) };
        let rich = Simulator::new(vm(rules(FEES)), env(1), world(U256::from(ETHER)));
        let least = rich.estimate_gas_within(&tx, 0.0).expect("it succeeds");
        let fixed = U256::from(3) + data_fee(&tx);
        let enough = fixed + U256::from(least * 100);
        let exact = Simulator::new(vm(rules(FEES)), env(1), world(enough));
        assert_eq!(exact.estimate_gas_within(&tx, 0.0).expect("it succeeds"), least);
        let poor = Simulator::new(vm(rules(FEES)), env(1), world(enough - U256::ONE));
        let error = poor.estimate_gas(&tx).expect_err("one wei short");
        assert!(matches!(error, SimulateError::GasAllowance { allowance } if allowance == least - 1), "{error}");
        let none = Simulator::new(vm(rules(FEES)), env(1), world(fixed - U256::ONE));
        let error = none.estimate_gas(&tx).expect_err("not even the fee");
        assert!(matches!(error, SimulateError::Invalid(InvalidTransaction::LackOfFundForMaxFee { .. })), "{error}");
        // A call without a price is free.
        let free = TxEnv { gas_price: 0, gas_priority_fee: None, tx_type: 0, ..tx };
        let nothing = Simulator::new(vm(rules(FEES)), env(1), world(U256::from(3)));
        assert_eq!(nothing.estimate_gas_within(&free, 0.0).expect("it succeeds"), least);
        let called = nothing.call(&free).expect("valid");
        assert_eq!(called.state[&Address::repeat_byte(1)].info.balance, U256::ZERO);
    }
}

#[test]
fn forced_transactions_are_simulated_where_the_chain_permits_them() {
    let from = Address::repeat_byte(1);
    let forced = ForcedTx { from, mint: 50, value: U256::from(51), gas_limit: 90_000, ..ForcedTx::default() };
    let forced = ForcedTx { kind: TxKind::Call(Address::repeat_byte(2)), ..forced }.env();
    let permits = Simulator::new(vm(rules(FEES)), env(1), world(U256::from(1)));
    let called = permits.call(&forced).expect("valid");
    assert!(called.result.is_success(), "{called:?}");
    assert_eq!((called.state[&from].info.nonce, called.state[&from].info.balance), (1, U256::ZERO));
    assert_eq!(permits.estimate_gas_within(&forced, 0.0).expect("it succeeds"), 21_000);
    let refused = |error: &SimulateError<_>| matches!(error, SimulateError::Invalid(InvalidTransaction::Str(_)));
    for kind in [forced.kind, TxKind::Call(COUNTER)] {
        let error = permits.create_access_list(&TxEnv { kind, ..forced.clone() }).expect_err("it has no list");
        assert!(refused(&error), "{error}");
    }
    let without = vm(ChainRules::new().with_tip_share(DATA, 1));
    for vm in [without, VmConfig::from(cfg(SpecId::OSAKA))] {
        let other = Simulator::new(vm, env(1), world(U256::from(1)));
        let error = other.call(&forced).expect_err("not on this chain");
        assert!(refused(&error), "{error}");
        let error = other.estimate_gas(&forced).expect_err("not on this chain");
        assert!(refused(&error), "{error}");
    }
}
