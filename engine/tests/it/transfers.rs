//! The transfer workloads, at every contention.

use crate::kit::{self, call, env, eoa, genesis, prove};
use phalanx::{
    BlockLimits, Order, Outcome,
    revm::{
        context::CfgEnv,
        primitives::{Address, hardfork::SpecId},
    },
};
use phalanx_workloads::{Erc20, HotSide, Native, TransferLoad, Workload};

fn equals_sequential_revm(workload: &dyn Workload) {
    let genesis = genesis(workload);
    let txs: Vec<_> = workload.transactions().collect();
    let limits = BlockLimits { max_txs: 700, max_gas: 40_000_000 };
    let (free, given) = prove(&genesis, &txs, limits, |number| workload.block_env(number));
    for ran in [free, given] {
        assert_eq!(ran.succeeded(), txs.len(), "{:?}", workload.load());
        assert_eq!(ran.escapes, 0);
        let gas = ran.blocks.iter().map(|block| block.gas_used).sum();
        workload.check(&workload.full_ledger(), gas, ran.engine.state()).expect("the arithmetic of the final state");
    }
}

fn loads(accounts: u64, txs: u64) -> impl Iterator<Item = TransferLoad> {
    [
        (0.0, 1, HotSide::Sender),
        (0.5, 10, HotSide::Sender),
        (0.5, 10, HotSide::Receiver),
        (0.5, 10, HotSide::Both),
        (0.99, 3, HotSide::Sender),
        (0.99, 3, HotSide::Receiver),
        (0.99, 3, HotSide::Both),
        (1.0, 1, HotSide::Receiver),
        (1.0, 1, HotSide::Sender),
    ]
    .into_iter()
    .zip(1..)
    .map(move |((alpha, gamma, hot), seed)| TransferLoad {
        accounts,
        txs,
        alpha,
        gamma,
        hot,
        seed,
        ..Default::default()
    })
}

#[test]
fn native_transfers() {
    for load in loads(500, 2_000) {
        equals_sequential_revm(&Native::new(load).expect("a load"));
    }
}

#[test]
fn erc20_transfers() {
    for load in loads(300, 1_500) {
        equals_sequential_revm(&Erc20::new(load).expect("a load"));
    }
}

/// From Amsterdam on the first payment makes the account, and costs more than the others.
#[test]
fn payments_of_one_account_wait_for_each_other_only_where_one_of_them_may_make_it() {
    let to = Address::repeat_byte(0xd0);
    let txs: Vec<_> = (1..=20).map(|from| call(from, 0, to, 5)).collect();
    for (spec, is_there, path) in [
        (SpecId::OSAKA, true, 1),
        (SpecId::OSAKA, false, 1),
        (SpecId::AMSTERDAM, true, 1),
        (SpecId::AMSTERDAM, false, txs.len()),
    ] {
        let mut engine =
            kit::builder().with_cfg(CfgEnv::new_with_spec(spec)).with_threads(2).build().expect("an engine in memory");
        let there = is_there.then(|| eoa(0xd0));
        engine.genesis((1..=20).map(eoa).chain(there)).expect("a sound genesis");
        let limits = BlockLimits { max_txs: txs.len(), max_gas: u64::MAX };
        let block = engine.plan(&txs, Order::Given, limits).next_block(&engine, &env(1)).expect("a block");
        let executed = engine.execute(&env(1), &txs, block).expect("execution");
        let stats = executed.block().stats().run;
        assert_eq!((stats.critical_path, stats.escapes), (path, 0), "{spec:?}, there: {is_there}");
        let gas: Vec<_> = executed.block().outcomes().iter().map(Outcome::gas_used).collect();
        let first = if path > 1 { 21_000 + 183_600 } else { 21_000 };
        assert_eq!((gas[0], &gas[1..]), (first, &[21_000; 19][..]), "{spec:?}, there: {is_there}");
    }
}

/// Simulated sets list their keys in another order than rules do; the framer still finds the sender.
#[test]
fn simulated_predictions_keep_every_nonce_in_order() {
    for load in loads(40, 400) {
        let workload = Native::new(load).expect("a load");
        let mut engine = kit::builder().with_threads(2).build().expect("an engine in memory");
        engine.genesis(genesis(&workload)).expect("a sound genesis");
        let txs: Vec<_> = workload.transactions().collect();
        let limits = BlockLimits { max_txs: 100, max_gas: u64::MAX };
        let mut planner = engine.plan(&txs, Order::Free, limits);
        planner.simulate_all();
        let mut nonces = std::collections::HashMap::new();
        while let Some(block) = planner.next_block(&engine, &workload.block_env(1)) {
            for tx in block.order() {
                let next = nonces.entry(txs[*tx as usize].caller).or_insert(0);
                assert_eq!(txs[*tx as usize].nonce, *next, "{:?}", workload.load());
                *next += 1;
            }
        }
    }
}

#[test]
fn signatures_recover_to_the_signed_transactions() {
    let load = TransferLoad { accounts: 20, txs: 50, signatures: true, ..Default::default() };
    let workload = Native::new(load).expect("a load");
    let txs: Vec<_> = workload.transactions().collect();
    let signed = workload.accounts().sign(&txs).expect("keys");
    let recovered = phalanx::recover_all(&signed);
    for (tx, recovered) in txs.iter().zip(recovered) {
        assert_eq!(*tx, recovered.expect("a valid signature"));
    }
    let mut broken = signed[0].to_vec();
    broken.push(0);
    assert!(matches!(phalanx::recover(&broken), Err(phalanx::RecoverError::Trailing { len: 1 })));
    // Every cut and every flipped byte is refused or is another transaction; none panics.
    for at in 0..signed[0].len() {
        let _ = phalanx::recover(&signed[0][..at]);
        let mut flipped = signed[0].to_vec();
        flipped[at] ^= 0x41;
        assert!(phalanx::recover(&flipped).map_or(true, |tx| tx != txs[0]), "byte {at}");
    }
    let _ = kit::COINBASE;
}
