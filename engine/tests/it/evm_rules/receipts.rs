//! Order and contents of receipts.

use super::*;
use crate::kit::{COINBASE, Case, base_fee, deploys};
use alloy_consensus::{Eip658Value, Receipt, ReceiptEnvelope, ReceiptWithBloom};
use phalanx::{
    Outcome,
    chain::Parameters,
    revm::bytecode::opcode::{BALANCE, COINBASE as BENEFICIARY, INVALID, LOG1, MSTORE, PUSH1, REVERT},
};

/// Logs the top of the stack under the topic 7.
fn logs(code: Asm) -> Asm {
    code.push(U256::ZERO).op(MSTORE).push(U256::from(7)).push(U256::from(32)).push(U256::ZERO).op(LOG1)
}

#[test]
fn receipts_are_sealed_in_block_order() {
    let logger = code(0xee, logs(logs(Asm::new().input()).input()));
    let fails = code(0xef, logs(Asm::new().input()).op(INVALID));
    let reverts = code(0xed, logs(Asm::new().input()).ops(&[PUSH1, 0, PUSH1, 0, REVERT]));
    let proof = Case::new("Osaka")
        .with(people())
        .with([logger, fails, reverts])
        .block([
            with(tx(ALICE, 0, at(0xee)), 1),
            with(tx(BOB, 0, at(0xef)), 2),
            create(CAROL, 0, deploys(Asm::new(), &[0])),
            with(tx(4, 0, at(0xed)), 3),
            with(tx(5, 0, at(0xee)), 4),
        ])
        .prove();
    let block = proof.last();
    let status = [true, false, true, false, true];
    let mut cumulative_gas_used = 0;
    let receipts = block.outcomes.iter().zip(status).map(|(outcome, status)| {
        let logs = outcome.result().expect("it ran").logs().to_vec();
        cumulative_gas_used += outcome.gas_used();
        let receipt = Receipt { status: Eip658Value::Eip658(status), cumulative_gas_used, logs };
        ReceiptEnvelope::Legacy(ReceiptWithBloom::from(receipt))
    });
    let receipts: Vec<_> = receipts.collect();
    assert_eq!(block.receipts_root, Some(alloy_consensus::proofs::calculate_receipt_root(&receipts)));
    assert_eq!(block.gas_used, receipts[4].cumulative_gas_used());
    assert_eq!(receipts.iter().map(|receipt| receipt.logs().len()).collect::<Vec<_>>(), [2, 0, 0, 0, 2]);
    assert_eq!(block.logs_bloom, *receipts[0].logs_bloom(), "the same address and topic in all");
    assert_eq!(block.outcomes[1].gas_used(), 300_000, "a halt uses all gas");
    let Some(created) = block.outcomes[2].result().and_then(|result| result.created_address()) else {
        panic!("the third creates")
    };
    assert_eq!(created, at(CAROL).create(0), "by the nonce before the transaction");
}

#[test]
fn rewards_are_applied_before_logs_and_root_show_them() {
    let look = logs(Asm::new().ops(&[BENEFICIARY, BALANCE]));
    let mut case = Case::new("London").with(people()).with([code(0xee, look)]);
    case.rules = case.rules.with_parameters(Parameters { rewards: Vec::new(), ..Parameters::default() });
    let tip = PRICE - base_fee(&case.rules);
    let mut txs: Vec<_> = (1..=6).map(|from| pay(from, 0, at(from + 1), 1)).collect();
    let silent = Case { ..case.clone() }.block(txs.clone()).prove();
    assert_eq!(silent.balance(COINBASE), word(6 * 21_000 * tip), "unread rewards are in the root");
    txs.push(tx(7, 0, at(0xee)));
    let proof = case.block(txs).prove();
    let Outcome::Executed(result) = &proof.last().outcomes[6] else { panic!("valid") };
    let logged = B256::from_slice(&result.logs()[0].data.data);
    assert_eq!(U256::from_be_bytes(logged.0), word(6 * 21_000 * tip));
}
