//! Every workload under stock revm: all transactions succeed, the check passes, and it detects any single wrong value.

#![expect(clippy::unwrap_used, reason = "the helpers are tests too")]

use crate::common::{Db, Lie, Lying, balance, database, execute, loads, run, shuffle_by_sender};
use phalanx_workloads::{CheckError, Erc20, HotSide, Native, PhalanxToken, TransferLoad, Workload};
use revm::{
    DatabaseRef,
    context::TxEnv,
    primitives::{Address, U256, hardfork::SpecId},
};

fn workloads(load: &TransferLoad) -> [Box<dyn Workload>; 2] {
    [Box::new(Native::new(load.clone()).unwrap()), Box::new(Erc20::new(load.clone()).unwrap())]
}

#[test]
fn everything_succeeds_and_checks_on_every_fork_with_type_2_transactions() {
    for (index, load) in loads().iter().enumerate() {
        let specs = [SpecId::OSAKA, SpecId::PRAGUE, SpecId::CANCUN, SpecId::SHANGHAI, SpecId::MERGE, SpecId::LONDON];
        for workload in workloads(load) {
            let (db, gas) = run(&*workload, specs[index % specs.len()], None);
            let ledger = workload.full_ledger();
            assert_eq!(ledger.transactions(), load.txs);
            workload.check(&ledger, gas, &db).unwrap_or_else(|error| panic!("{error}: {} {load:?}", workload.name()));
        }
    }
}

#[test]
fn any_order_that_keeps_nonces_succeeds_and_ends_in_the_same_state() {
    for (seed, load) in loads().iter().enumerate() {
        for workload in workloads(load) {
            let order = shuffle_by_sender(workload.transactions().collect(), seed as u64);
            assert!(load.accounts == 2 || order != workload.transactions().collect::<Vec<_>>(), "seed {seed}");
            let (db, gas) = run(&*workload, SpecId::OSAKA, Some(order));
            workload.check(&workload.full_ledger(), gas, &db).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

#[test]
fn an_order_that_swaps_two_nonces_fails() {
    let load = TransferLoad { accounts: 20, txs: 50, ..Default::default() };
    let workload = Native::new(load).unwrap();
    let mut txs: Vec<_> = workload.transactions().collect();
    let second = txs.iter().position(|tx| tx.nonce == 1).unwrap();
    let first = txs.iter().position(|tx| tx.caller == txs[second].caller).unwrap();
    txs.swap(first, second);
    let attempt = std::panic::catch_unwind(|| run(&workload, SpecId::OSAKA, Some(txs)));
    assert!(attempt.is_err(), "the judge does check nonces");
}

#[test]
fn a_recorded_part_checks_on_its_own() {
    let load = TransferLoad { accounts: 100, txs: 400, alpha: 0.8, gamma: 4, hot: HotSide::Both, ..Default::default() };
    for workload in workloads(&load) {
        let (mut db, mut gas) = (database(workload.genesis()), 0);
        let mut ledger = workload.ledger();
        workload.check(&ledger, 0, &db).unwrap();
        let (mut stream, mut txs) = (workload.transactions(), Vec::new());
        for number in 1..=4 {
            txs.clear();
            stream.fill(&mut txs, 90);
            gas += execute(&mut db, workload.block_env(number), SpecId::OSAKA, &txs)
                .iter()
                .map(|result| result.tx_gas_used())
                .sum::<u64>();
            txs.iter().for_each(|tx| ledger.record(tx).unwrap());
            workload.check(&ledger, gas, &db).unwrap();
        }
        assert_eq!(stream.remaining(), 40);
        assert!(workload.check(&workload.full_ledger(), gas, &db).is_err(), "40 transactions are missing");
        stream.for_each(|tx| ledger.record(&tx).unwrap());
        assert!(matches!(ledger.record(&txs[0]), Err(CheckError::TooMany { txs: 400 })));
    }
}

#[test]
fn foreign_transactions_are_not_recorded() {
    let load = TransferLoad { accounts: 10, txs: 10, ..Default::default() };
    for workload in workloads(&load) {
        let tx = workload.transactions().next().unwrap();
        let stranger = Address::repeat_byte(9);
        let value = U256::MAX;
        for foreign in [TxEnv { caller: stranger, ..tx.clone() }, TxEnv { value, ..tx.clone() }] {
            let mut ledger = workload.ledger();
            assert!(matches!(ledger.record(&foreign), Err(CheckError::ForeignTransaction { .. })));
            assert_eq!(ledger.transactions(), 0);
        }
        let mut ledger = workload.ledger();
        assert!(matches!(ledger.record_failed(&tx), Err(CheckError::Outcome { reverts: false, .. })));
        assert_eq!((ledger.transactions(), ledger.reverted()), (0, 0));
    }
}

#[test]
fn a_single_wrong_value_fails_the_check() {
    let load =
        TransferLoad { accounts: 40, txs: 200, alpha: 0.5, gamma: 3, hot: HotSide::Receiver, ..Default::default() };
    for workload in workloads(&load) {
        let (db, gas) = run(&*workload, SpecId::OSAKA, None);
        let verdict = |about: Lie, gas: u64| {
            workload.check(&workload.full_ledger(), gas, &Lying { db: &db, about }).expect_err(&format!("{about:?}"))
        };
        for address in workload.accounts().addresses() {
            let error = verdict(Lie::Balance(address), gas);
            // Where gas differs between transfers, a wrong balance shows in the sum, or as more than the supply.
            assert!(
                matches!(error, CheckError::Balance { address: at, .. } if at == address)
                    || workload.name() == "erc20"
                        && matches!(error, CheckError::FeesPaid { .. } | CheckError::BalanceOutside { .. }),
                "{error}"
            );
            let error = verdict(Lie::Nonce(address), gas);
            assert!(matches!(error, CheckError::Nonce { address: at, .. } if at == address), "{error}");
        }
        assert!(matches!(verdict(Lie::Balance(load.coinbase), gas), CheckError::Reward { .. }));
        assert!(matches!(verdict(Lie::Failure, gas), CheckError::Read(_)));
        let error = workload.check(&workload.full_ledger(), gas + 1, &db).unwrap_err();
        assert!(matches!(error, CheckError::GasUsed { .. } | CheckError::FeesPaid { .. }), "{error}");
        assert!(workload.check(&workload.full_ledger(), u64::MAX, &db).is_err());

        if workload.name() == "erc20" {
            for holder in workload.accounts().addresses() {
                let error = verdict(Lie::Slot(PhalanxToken::ADDRESS, PhalanxToken::balance_slot(holder)), gas);
                assert!(matches!(error, CheckError::TokenBalance { holder: at, .. } if at == holder), "{error}");
            }
            for slot in [2, 3, 4] {
                assert!(matches!(
                    verdict(Lie::Slot(PhalanxToken::ADDRESS, U256::from(slot)), gas),
                    CheckError::TokenMetadata { .. }
                ));
            }
            assert!(matches!(verdict(Lie::Balance(PhalanxToken::ADDRESS), gas), CheckError::Balance { .. }));
            assert!(matches!(verdict(Lie::Nonce(PhalanxToken::ADDRESS), gas), CheckError::Nonce { .. }));
        }
    }
}

#[test]
fn ether_is_conserved_but_for_the_burned_base_fee() {
    let load = TransferLoad { accounts: 50, txs: 300, ..Default::default() };
    for workload in workloads(&load) {
        let total = |db: &Db| {
            let all = workload.accounts().addresses().chain([load.coinbase, PhalanxToken::ADDRESS]);
            all.map(|address| balance(db, address)).sum::<U256>()
        };
        let before = total(&database(workload.genesis()));
        let (db, gas) = run(&*workload, SpecId::OSAKA, None);
        assert_eq!(total(&db), before - U256::from(gas) * U256::from(load.fees.base_fee));
        assert!(db.basic_ref(load.coinbase).unwrap().is_some());
    }
}

#[test]
fn a_transfer_uses_its_stated_gas() {
    let load = TransferLoad { accounts: 500, txs: 2_000, ..Default::default() };
    let [native, erc20] = workloads(&load);
    assert_eq!(run(&*native, SpecId::OSAKA, None).1, 2_000 * Native::GAS);
    let each = run(&*erc20, SpecId::OSAKA, None).1 / 2_000;
    assert!((34_000..36_000).contains(&each), "{each}");
}
