//! Properties of the stream without execution: skew, nonces, reproducibility.

#![expect(clippy::unwrap_used, reason = "the helpers are tests too")]

use alloy_consensus::{SignableTransaction, TxEip1559};
use phalanx_workloads::{
    Amm, ConfigError, Erc20, Fees, HotSide, Mix, Mixed, Native, PhalanxToken, Pools, TransferLoad, Workload,
};
use revm::{
    context::TxEnv,
    primitives::{Address, B256, TxKind, b256, keccak256},
};
use std::collections::HashMap;

/// Sender and receiver of a transfer, native or not.
fn sides(tx: &TxEnv) -> (Address, Address) {
    let TxKind::Call(target) = tx.kind else { panic!("a load creates nothing: {tx:?}") };
    (tx.caller, PhalanxToken::decode_transfer(&tx.data).map_or(target, |(to, _)| to))
}

#[test]
fn each_side_is_hot_as_often_as_configured() {
    let (accounts, txs, gamma) = (10_000, 100_000, 5);
    for hot in [HotSide::Sender, HotSide::Receiver, HotSide::Both] {
        for alpha in [0.0, 0.1, 0.5, 0.99, 1.0] {
            let load = TransferLoad { accounts, txs, alpha, gamma, hot, seed: 5, ..Default::default() };
            let workload = Native::new(load).unwrap();
            let mut seen = HashMap::new();
            let (mut from_hot, mut to_hot) = (0.0, 0.0);
            for tx in workload.transactions() {
                let (from, to) = sides(&tx);
                assert_ne!(from, to);
                let [from, to] = [from, to].map(|side| workload.accounts().position(&side).unwrap() as u64);
                from_hot += f64::from(from < gamma);
                to_hot += f64::from(to < gamma);
                *seen.entry(from).or_insert(0u32) += 1;
                *seen.entry(to).or_insert(0) += 1;
            }
            // Two independent draws that differ: both hot, one hot, none hot, renormalised.
            let (hot_pool, cold_pool) = (gamma as f64, (accounts - gamma) as f64);
            let [hh, hc, cc] = [
                alpha * alpha * (1.0 - 1.0 / hot_pool),
                alpha * (1.0 - alpha),
                (1.0 - alpha) * (1.0 - alpha) * (1.0 - 1.0 / cold_pool),
            ];
            let both = (hh + hc) / (hh + 2.0 * hc + cc);
            let uniform = hot_pool / accounts as f64;
            let expected = match hot {
                _ if alpha == 0.0 => (uniform, uniform),
                HotSide::Sender => (alpha, 0.0),
                HotSide::Receiver => (0.0, alpha),
                HotSide::Both => (both, both),
            };
            let n = txs as f64;
            for (side, count, p) in [("from", from_hot, expected.0), ("to", to_hot, expected.1)] {
                let sigma = (n * p * (1.0 - p)).sqrt();
                assert!((count - n * p).abs() <= 5.0 * sigma, "{hot} {alpha} {side}: {count} is not {}", n * p);
            }
            // Hot accounts are equally hot.
            let share = (from_hot + to_hot) / hot_pool;
            for at in 0..gamma {
                let count = f64::from(seen.get(&at).copied().unwrap_or(0));
                assert!(
                    (count - share).abs() <= 5.0 * share.sqrt() + 1.0,
                    "{hot} {alpha} {at}: {count} is not {share}"
                );
            }
        }
    }
}

#[test]
fn nonces_are_consecutive_and_fields_are_those_of_the_load() {
    let fees = Fees { base_fee: 5, priority_fee: 2, max_fee: 8 };
    let load =
        TransferLoad { accounts: 50, txs: 5_000, alpha: 0.5, gamma: 2, fees, chain_id: 99, ..Default::default() };
    let workloads: [Box<dyn Workload>; 2] =
        [Box::new(Native::new(load.clone()).unwrap()), Box::new(Erc20::new(load.clone()).unwrap())];
    for workload in workloads {
        let mut nonces = HashMap::new();
        for tx in workload.transactions() {
            let next = nonces.entry(tx.caller).or_insert(0);
            assert_eq!(tx.nonce, *next);
            *next += 1;
            assert_eq!((tx.tx_type, tx.gas_price, tx.gas_priority_fee, tx.chain_id), (2, 8, Some(2), Some(99)));
        }
        assert_eq!(nonces.values().sum::<u64>(), 5_000);
        let block = workload.block_env(3);
        assert_eq!((block.basefee, block.beneficiary), (5, load.coinbase));
    }
}

#[test]
fn a_stream_is_independent_of_its_cuts() {
    let workload = Erc20::new(TransferLoad { accounts: 64, txs: 1_000, ..Default::default() }).unwrap();
    let whole: Vec<_> = workload.transactions().collect();
    let (mut stream, mut cut) = (workload.transactions(), Vec::new());
    for size in [0, 1, 7, 300, 5_000, 9] {
        let (before, left) = (cut.len(), stream.remaining());
        let filled = stream.fill(&mut cut, size);
        assert_eq!((filled, filled), (cut.len() - before, size.min(left as usize)));
    }
    assert_eq!(stream.remaining(), 0);
    assert_eq!(stream.size_hint(), (0, Some(0)));
    assert_eq!(cut, whole);
}

#[test]
fn a_stream_can_be_made_on_another_thread() {
    let workload = Native::new(TransferLoad { accounts: 8, txs: 10, ..Default::default() }).unwrap();
    let mut stream = workload.transactions();
    let made = std::thread::scope(|scope| scope.spawn(move || stream.by_ref().count()).join().unwrap());
    assert_eq!(made, 10);
}

#[test]
fn equal_seeds_give_equal_streams() {
    let load = |seed| TransferLoad { accounts: 64, txs: 500, seed, ..Default::default() };
    let stream = |seed| Native::new(load(seed)).unwrap().transactions().collect::<Vec<_>>();
    assert_eq!(stream(1), stream(1));
    assert_ne!(stream(1), stream(2));
    let genesis = |seed| Native::new(load(seed)).unwrap().genesis();
    assert_eq!(genesis(1), genesis(1));
    assert_ne!(genesis(1), genesis(2));
}

#[test]
fn constructors_refuse_impossible_loads() {
    let load = |accounts, memory_limit| TransferLoad { accounts, memory_limit, ..Default::default() };
    assert!(matches!(Native::new(load(1, None)), Err(ConfigError::Accounts { .. })));
    let needed = 1_000 * Erc20::BYTES_PER_ACCOUNT as u64;
    assert!(Erc20::new(load(1_000, Some(needed))).is_ok());
    let limit = needed - 1;
    assert_eq!(Erc20::new(load(1_000, Some(limit))).unwrap_err(), ConfigError::Memory { needed, limit });
    assert!(Native::new(load(1_000, Some(limit))).is_ok());
    let coinbase = PhalanxToken::ADDRESS;
    let taken = TransferLoad { coinbase, ..load(10, None) };
    assert_eq!(Erc20::new(taken).unwrap_err(), ConfigError::CoinbaseTakesPart { coinbase });
}

/// Keccak-256 of the genesis, then of each transaction's sender and signing payload, in order.
fn digest(workload: &dyn Workload) -> B256 {
    let mut bytes = Vec::new();
    for account in workload.genesis().accounts {
        bytes.extend_from_slice(account.address.as_slice());
        bytes.extend_from_slice(&account.balance.to_be_bytes::<32>());
        bytes.extend_from_slice(&account.nonce.to_be_bytes());
        bytes.extend_from_slice(&account.code.unwrap_or_default());
        for (slot, value) in account.storage {
            bytes.extend_from_slice(&slot.to_be_bytes::<32>());
            bytes.extend_from_slice(&value.to_be_bytes::<32>());
        }
    }
    for tx in workload.transactions() {
        bytes.extend_from_slice(tx.caller.as_slice());
        TxEip1559 {
            chain_id: tx.chain_id.unwrap(),
            nonce: tx.nonce,
            gas_limit: tx.gas_limit,
            max_fee_per_gas: tx.gas_price,
            max_priority_fee_per_gas: tx.gas_priority_fee.unwrap(),
            to: tx.kind,
            value: tx.value,
            access_list: tx.access_list,
            input: tx.data,
        }
        .encode_for_signing(&mut bytes);
    }
    keccak256(bytes)
}

/// Old measurements are comparable only while these hold: a change here is a new load and belongs in the changelog.
#[test]
fn the_first_thousand_transactions_of_seed_42_never_change() {
    let load = TransferLoad {
        accounts: 10_000,
        txs: 1_000,
        alpha: 0.5,
        gamma: 100,
        hot: HotSide::Both,
        seed: 42,
        ..Default::default()
    };
    let pinned = [
        ("native", b256!("0x532a57b5d1acfa66275344337cd6218205553c426058109cb109a685075bddb2")),
        ("erc20", b256!("0x7b909a38a1a4a9ed37c368d4bfde55508e0ad06ebf3dc15359d52c8a78fdacfa")),
        ("amm", b256!("0xe5c138ee306ad70af39ea99e82efd5415b3719f8098bdf938e982ebd8f56f1d2")),
        ("mixed", b256!("0x3705db053fe79930d7a24e2b6b2050ed3beecf089bf2dec74482c563b8f82286")),
        ("signed", b256!("0x0082f2c03f848cb2aa3b1e6c38d7fd699b2783f501dd6786087e361cd421ab7d")),
    ];
    let pools = Pools { count: 20, hot_share: 0.25 };
    let sender = TransferLoad { hot: HotSide::Sender, ..load };
    let few = TransferLoad { accounts: 100, gamma: 10, txs: 100, signatures: true, ..load };
    let found = [
        ("native", digest(&Native::new(load.clone()).unwrap())),
        ("erc20", digest(&Erc20::new(load.clone()).unwrap())),
        ("amm", digest(&Amm::new(sender, pools).unwrap())),
        ("mixed", digest(&Mixed::new(load, pools, Mix::default()).unwrap())),
        ("signed", digest(&Native::new(few).unwrap())),
    ];
    assert_eq!(found, pinned);
}
