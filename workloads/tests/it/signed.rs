//! Signed loads: the bytes decode to their transaction, and recover to its sender.

use alloy_consensus::{Transaction, TxEnvelope, transaction::SignerRecoverable};
use alloy_eips::eip2718::Decodable2718;
use phalanx_workloads::{Amm, Erc20, HotSide, Mix, Mixed, Native, Pools, SignError, TransferLoad, Workload};
use revm::{context::TxEnv, primitives::Address};
use std::sync::atomic::{AtomicU64, Ordering};

fn load() -> TransferLoad {
    TransferLoad {
        accounts: 64,
        txs: 200,
        alpha: 0.5,
        gamma: 4,
        hot: HotSide::Both,
        signatures: true,
        ..Default::default()
    }
}

#[test]
fn bytes_decode_and_recover_to_their_transaction() {
    let sender = TransferLoad { hot: HotSide::Sender, ..load() };
    let workloads: [Box<dyn Workload>; 4] = [
        Box::new(Native::new(load()).unwrap()),
        Box::new(Erc20::new(load()).unwrap()),
        Box::new(Amm::new(sender, Pools::default()).unwrap()),
        Box::new(Mixed::new(load(), Pools::default(), Mix::default()).unwrap()),
    ];
    for workload in workloads {
        let txs: Vec<_> = workload.transactions().collect();
        let raw = workload.accounts().sign(&txs).unwrap();
        assert_eq!(raw.len(), txs.len());
        for (tx, bytes) in txs.iter().zip(&raw) {
            let mut rest = &bytes[..];
            let decoded = TxEnvelope::decode_2718(&mut rest).unwrap();
            assert!(rest.is_empty() && decoded.is_eip1559());
            assert_eq!(decoded.recover_signer().unwrap(), tx.caller);
            assert_eq!(decoded.chain_id(), tx.chain_id);
            assert_eq!(decoded.nonce(), tx.nonce);
            assert_eq!(decoded.gas_limit(), tx.gas_limit);
            assert_eq!(decoded.max_fee_per_gas(), tx.gas_price);
            assert_eq!(decoded.max_priority_fee_per_gas(), tx.gas_priority_fee);
            assert_eq!(decoded.kind(), tx.kind);
            assert_eq!(decoded.value(), tx.value);
            assert_eq!(*decoded.input(), tx.data);
            assert_eq!(decoded.access_list(), Some(&tx.access_list));
        }
        assert_eq!(raw, workload.accounts().sign(&txs).unwrap(), "the same bytes every time");
    }
}

#[test]
fn only_transactions_of_the_load_are_signed() {
    let workload = Native::new(load()).unwrap();
    let tx = workload.transactions().next().unwrap();
    let caller = Address::repeat_byte(1);
    let foreign = TxEnv { caller, ..tx.clone() };
    assert_eq!(workload.accounts().sign(&[foreign]), Err(SignError::UnknownSender { caller }));
    for other in [
        TxEnv { tx_type: 0, ..tx.clone() },
        TxEnv { chain_id: None, ..tx.clone() },
        TxEnv { gas_priority_fee: None, ..tx.clone() },
    ] {
        let error = workload.accounts().sign(&[other]).unwrap_err();
        assert_eq!(error, SignError::NotEip1559 { caller: tx.caller, nonce: 0 });
    }
    let unsigned = Native::new(TransferLoad { signatures: false, ..load() }).unwrap();
    let tx = unsigned.transactions().next().unwrap();
    assert_eq!(unsigned.accounts().sign(&[tx]), Err(SignError::NoKeys));
}

#[test]
fn progress_counts_up_to_all_keys() {
    let (most, calls) = (AtomicU64::new(0), AtomicU64::new(0));
    let load = TransferLoad { accounts: 5_000, ..load() };
    let progress = |done: u64| {
        most.fetch_max(done, Ordering::Relaxed);
        calls.fetch_add(1, Ordering::Relaxed);
    };
    Erc20::with_progress(load, &progress).unwrap();
    assert_eq!((most.into_inner(), calls.into_inner()), (5_000, 2));
}
