//! Senders of published transactions: recorded blocks, and the blocks of the Ethereum Foundation's tests.

use super::signed::encoded;
use crate::{chain::blockchain::each_of_the_fixtures, mainnet::blocks};
use alloy_consensus::{Block, TxEnvelope, transaction::SignerRecoverable as _};
use alloy_primitives::{Address, Bytes};
use alloy_rlp::Decodable as _;
use phalanx::{Form, Recovery, chain::ChainSpec, parascheduler::Workers, recover_all};
use serde_json::Value;

#[test]
fn senders_of_recorded_blocks_are_the_recorded_ones() {
    let (chain, workers) = (ChainSpec::mainnet(), Workers::new(2).expect("threads"));
    let mut compared = 0;
    for block in blocks().iter().filter(|block| !block.inputs_only) {
        let bytes: Vec<_> = block.envelopes.iter().map(encoded).collect();
        // Under the block's own rules: before Homestead, s may be above half of the order.
        let recovery = Recovery::new(chain.clone(), chain.spec(&block.header));
        let number = block.header.number;
        for (at, (ours, recorded)) in
            recovery.recover_batch(&workers, Form::Block, &bytes).into_iter().zip(&block.txs).enumerate()
        {
            assert_eq!(ours.map(|tx| tx.sender()).ok(), Some(recorded.caller), "transaction {at} of block {number}");
            compared += 1;
        }
    }
    assert!(compared > 0, "no block has signatures");
}

/// Transactions of one file's blocks, those of refused blocks included.
fn transactions(cases: &Value) -> Vec<TxEnvelope> {
    let cases = cases.as_object().expect("cases by name").values();
    let blocks = cases.flat_map(|case| case["blocks"].as_array().expect("blocks"));
    let rlp = blocks.map(|block| block["rlp"].as_str().and_then(|rlp| rlp.parse().ok()).unwrap_or_default());
    rlp.filter_map(|rlp: Bytes| Block::<TxEnvelope>::decode(&mut &rlp[..]).ok())
        .flat_map(|block| block.body.transactions)
        .collect()
}

#[test]
fn senders_of_all_blockchain_tests_are_those_of_alloy() {
    let (mut compared, mut without) = (0, 0);
    let is_there = each_of_the_fixtures(|cases| {
        let transactions = transactions(cases);
        let bytes: Vec<_> = transactions.iter().map(encoded).collect();
        for (tx, ours) in transactions.iter().zip(recover_all(&bytes)) {
            let theirs: Option<Address> = tx.recover_signer().ok();
            assert_eq!(ours.ok().map(|tx| tx.caller), theirs, "{tx:?}");
            (compared, without) = (compared + 1, without + usize::from(theirs.is_none()));
        }
    });
    println!("{compared} transactions, {without} of them without a sender");
    assert!(!is_there || compared > 400, "{compared} transactions");
}
