//! Headers: a child's follows from its parent, and every false statement about an outcome is named.

use super::{after, genesis, send};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use phalanx::{
    Engine, Hints, RecoveredBlock,
    chain::{Attributes, ChainSpec, HeaderError, OutcomeDifference, transactions_root},
    revm::primitives::{Address, B256, Bytes, TxKind, U256},
};

const USER: Address = Address::repeat_byte(1);

#[test]
fn a_childs_header_is_valid_across_every_fork() {
    let times = [("shanghai", 20), ("cancun", 60), ("prague", 100), ("osaka", 140), ("bpo1", 180), ("amsterdam", 200)];
    let file = genesis(&times, &[USER]);
    let chain = ChainSpec::from_genesis(&file).expect("a chain");
    let mut engine = Engine::builder().with_chain(chain.clone()).build().expect("an engine");
    let mut parent = engine.begin(&file).expect("a genesis");
    for number in 1..=18u64 {
        let withdrawal =
            Withdrawal { index: number, address: Address::repeat_byte(9), amount: 5, ..Default::default() };
        let paid = parent.timestamp + 12 >= 20;
        let withdrawals = if paid { vec![withdrawal] } else { vec![] };
        let attributes = Attributes { withdrawals: withdrawals.clone(), ..after(&parent) };
        let mut header = chain.child_header(&parent, &attributes).expect("a child");
        let txs = [send(1, number - 1, TxKind::Call(USER), Bytes::from(vec![1; 10_000]))];
        let withdrawals = paid.then_some(&withdrawals[..]);
        let payload = RecoveredBlock { header: &header, txs: &txs, ommers: &[], withdrawals };
        let executed = engine.execute_block(&payload, Hints::Predict).expect("valid");
        let merkleized = engine.merkleize(executed).expect("a root");
        merkleized.outcome().write_to(&mut header);
        header.transactions_root = transactions_root(&[]);
        assert_eq!(chain.validate_header(&header, &parent, None), Ok(()), "{number}");
        assert_eq!(chain.check_outcome(&header, &merkleized.outcome()), Ok(()), "{number}");
        engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
        parent = header;
    }
    assert!(parent.requests_hash.is_some() && parent.excess_blob_gas.is_some());
    assert_eq!(parent.slot_number, Some(18), "the number, unless consensus has another");
    let slot = Attributes { slot_number: Some(77), ..after(&parent) };
    assert_eq!(chain.child_header(&parent, &slot).expect("a child").slot_number, Some(77));
    let late = Attributes { timestamp: parent.timestamp, ..after(&parent) };
    assert!(matches!(chain.child_header(&parent, &late), Err(HeaderError::Timestamp { .. })));
    let vast = Attributes { gas_limit: Some(u64::MAX), ..after(&parent) };
    assert!(matches!(chain.child_header(&parent, &vast), Err(HeaderError::GasLimit { .. })));
}

#[test]
fn every_false_statement_about_an_outcome_is_named() {
    let times = [("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0), ("amsterdam", 0)];
    let file = genesis(&times, &[USER]);
    let chain = ChainSpec::from_genesis(&file).expect("a chain");
    let mut engine = Engine::builder().with_chain(chain.clone()).build().expect("an engine");
    let parent = engine.begin(&file).expect("a genesis");
    let mut header = chain.child_header(&parent, &after(&parent)).expect("a child");
    let txs = [send(1, 0, TxKind::Call(USER), Bytes::new())];
    let payload = RecoveredBlock { header: &header, txs: &txs, ommers: &[], withdrawals: Some(&[]) };
    let executed = engine.execute_block(&payload, Hints::Predict).expect("valid");
    let outcome = engine.merkleize(executed).expect("a root").outcome();
    outcome.write_to(&mut header);
    assert_eq!(chain.check_outcome(&header, &outcome), Ok(()));
    let lies: [fn(&mut Header); 7] = [
        |header| header.state_root = B256::ZERO,
        |header| header.receipts_root = B256::ZERO,
        |header| header.logs_bloom.0[3] ^= 1,
        |header| header.gas_used += 1,
        |header| header.blob_gas_used = Some(1 << 17),
        |header| header.requests_hash = Some(B256::ZERO),
        |header| header.block_access_list_hash = Some(B256::ZERO),
    ];
    let mut all = header.clone();
    for lie in lies {
        let mut lying = header.clone();
        lie(&mut lying);
        lie(&mut all);
        assert_eq!(chain.check_outcome(&lying, &outcome).expect_err("a lie").differences.len(), 1);
    }
    let error = chain.check_outcome(&all, &outcome).expect_err("lies");
    assert_eq!(error.differences.len(), lies.len());
    assert!(error.differences.contains(&OutcomeDifference::LogsBloom));
    assert!(error.to_string().contains("the block uses 12000 gas, the header says 12001"), "{error}");
    assert_eq!(U256::from(outcome.blob_gas_used), U256::ZERO);
}
