//! Validity of transactions that depends on earlier ones in the block, and overflows.

use super::*;
use crate::kit::{COINBASE, Case, ETHER, Proof, base_fee};
use phalanx::revm::bytecode::opcode::{CALL, SELFDESTRUCT};

fn judged(proof: &Proof) -> &str {
    proof.blocks[0].as_ref().expect_err("an invalid block")
}

#[test]
fn a_sender_funded_within_the_block_can_pay() {
    // A chain of accounts, each funded by the one before it.
    let hops = 0x20..0x30u8;
    let mut txs = vec![TxEnv { value: word(ETHER), ..tx(ALICE, 0, at(0x20)) }];
    let value = |from: u8| word(ETHER - u64::from(from - 0x1f) * 21_000 * PRICE);
    txs.extend(hops.map(|from| TxEnv { value: value(from), gas_limit: 21_000, ..tx(from, 0, at(from + 1)) }));
    for fork in ["Frontier", "Osaka"] {
        let proof = Case::new(fork).with(people()).block(txs.clone()).prove();
        assert_eq!(proof.balance(at(0x30)), value(0x2f), "{fork}");
        assert_eq!(proof.balance(at(0x28)), word(0), "{fork}");
    }
}

#[test]
fn a_sender_drained_within_the_block_cannot_pay() {
    let spender = GenesisAccount { balance: word(1_000_000 * PRICE), ..holder(0x20, 0) };
    let proof = Case::new("London")
        .with(people())
        .with([spender])
        .block([
            tx(ALICE, 0, at(BOB)),
            pay(0x20, 0, at(BOB), 690_000 * PRICE),
            tx(0x20, 1, at(BOB)),
            tx(BOB, 7, at(BOB)),
        ])
        .prove();
    assert!(judged(&proof).contains("index: 2, reason: LackOfFundForMaxFee"), "{}", judged(&proof));
}

#[test]
fn the_lowest_invalid_transaction_is_reported() {
    for place in 0..8usize {
        let mut txs: Vec<_> = (1..=8).map(|from| pay(from, 0, at(from % 8 + 1), 1)).collect();
        txs[place].nonce = 5;
        // And a later invalid one that must not be reported.
        txs[7].nonce = 3;
        let proof = Case::new("Osaka").with(people()).block(txs).prove();
        let state = if place == 7 { 3 } else { 5 };
        let reason = format!("index: {place}, reason: NonceTooHigh {{ tx: {state}, state: 0 }}");
        assert!(judged(&proof).contains(&reason), "{}", judged(&proof));
    }
}

#[test]
fn eip1559_the_maximum_cost_must_be_covered_before_execution() {
    let cost = 21_000 * PRICE + 5;
    let spend = TxEnv { gas_limit: 21_000, tx_type: 2, gas_priority_fee: Some(0), ..pay(0x20, 0, at(BOB), 5) };
    for (balance, valid) in [(cost - 1, false), (cost, true)] {
        let case = Case::new("London").with(people()).with([holder(0x20, balance - 1)]);
        let base_fee = base_fee(&case.rules);
        // The last wei comes within the block.
        let proof = case.block([pay(ALICE, 0, at(0x20), 1), spend.clone()]).prove();
        if valid {
            assert_eq!(proof.balance(at(0x20)), word(21_000 * (PRICE - base_fee)), "the charge is below the maximum");
        } else {
            assert!(judged(&proof).contains("index: 1, reason: LackOfFundForMaxFee"), "{}", judged(&proof));
        }
    }
}

#[test]
fn a_transfer_that_overflows_a_balance_fails() {
    let full = GenesisAccount { balance: U256::MAX - word(2), ..holder(0x20, 0) };
    let payer = GenesisAccount { balance: word(9), ..code(0xee, Asm::new().call(CALL, at(0x20), 1, 5_000).store(0)) };
    for fork in ["Homestead", "Osaka"] {
        let proof = Case::new(fork)
            .with(people())
            .with([full.clone(), payer.clone()])
            .block([
                pay(ALICE, 0, at(0x20), 2),
                pay(BOB, 0, at(0x20), 1),
                tx(CAROL, 0, at(0xee)),
                pay(4, 0, at(0x20), 0),
            ])
            .prove();
        assert_eq!([0, 1, 3].map(|index| proof.succeeded(index)), [true, false, true], "{fork}");
        assert_eq!((proof.balance(at(0x20)), proof.slot(at(0xee), 0)), (U256::MAX, word(0)), "{fork}");
    }
}

#[test]
fn a_reward_that_overflows_a_balance_is_not_paid() {
    let tip = PRICE - base_fee(&Case::new("Osaka").rules);
    let room = 21_000 * tip + 5;
    let full = GenesisAccount { address: COINBASE, balance: U256::MAX - word(room), ..GenesisAccount::default() };
    let proof = Case::new("Osaka")
        .with(people())
        .with([full.clone()])
        // The first reward fits, the second does not; then a transfer that fits only because the second was not paid.
        .block([tx(ALICE, 0, at(BOB)), tx(BOB, 0, at(CAROL)), pay(CAROL, 0, COINBASE, 3), pay(4, 0, COINBASE, 3)])
        .prove();
    assert_eq!([2, 3].map(|index| proof.succeeded(index)), [true, false]);
    assert_eq!(proof.balance(COINBASE), U256::MAX - word(2));
    // The same with a read of the beneficiary, and with a transaction outside of its hints.
    let look = Asm::new().ops(&[0x41, 0x31]).store(0);
    let proof = Case::new("Osaka")
        .with(people())
        .with([full, code(0xee, look), code(0xef, Asm::new().count(0))])
        .block([tx(ALICE, 0, at(0xef)), tx(BOB, 0, at(0xef)), pay(CAROL, 0, COINBASE, 6), tx(4, 0, at(0xee))])
        .prove();
    assert_eq!(proof.slot(at(0xee), 0), proof.balance(COINBASE) - proof_reward(&proof, 3, tip));
}

/// Reward of the last transaction, if it fitted.
fn proof_reward(proof: &Proof, index: usize, tip: u64) -> U256 {
    let reward = word(proof.gas(index) * tip);
    let before = proof.slot(at(0xee), 0);
    if before.checked_add(reward).is_some() { reward } else { word(0) }
}

/// No chain has such a supply, but every executor must equal revm: a destruction adds modulo 2^256. Before Spurious
/// Dragon, an account that becomes empty by it is left in place.
#[test]
fn a_destruction_that_overflows_a_balance_wraps_like_revm() {
    for (fork, left) in [("Frontier", U256::MAX), ("EIP158", word(0)), ("Cancun", word(0))] {
        let full = GenesisAccount { balance: U256::MAX, ..holder(0x20, 0) };
        let doomed = GenesisAccount { balance: word(1), ..code(0xee, Asm::new().addr(at(0x20)).op(SELFDESTRUCT)) };
        let proof = Case::new(fork)
            .with(people())
            .with([full, doomed])
            .block([tx(ALICE, 0, at(0xee)), tx(BOB, 0, at(CAROL))])
            .prove();
        assert_eq!(proof.balance(at(0x20)), left, "{fork}");
        assert_eq!(proof.balance(at(0xee)), word(0), "{fork}");
    }
}

#[test]
fn transactions_invalid_in_every_state_are_refused() {
    let blob = |hashes: usize| {
        let mut hash = phalanx::revm::primitives::B256::ZERO;
        hash.0[0] = 1;
        TxEnv {
            tx_type: 3,
            gas_priority_fee: Some(1),
            blob_hashes: vec![hash; hashes],
            max_fee_per_blob_gas: 5,
            ..tx(BOB, 0, at(CAROL))
        }
    };
    let bad = [
        ("Osaka", TxEnv { chain_id: Some(2), ..tx(BOB, 0, at(CAROL)) }, "InvalidChainId"),
        ("Osaka", delegating(tx(BOB, 0, at(CAROL)), &[]), "EmptyAuthorizationList"),
        ("Osaka", blob(0), "EmptyBlobs"),
        ("Osaka", blob(7), "TooManyBlobs"),
        ("Shanghai", blob(1), "Eip4844NotSupported"),
        ("Cancun", delegating(tx(BOB, 0, at(CAROL)), &[(4, 0, at(5))]), "Eip7702NotSupported"),
        ("Istanbul", TxEnv { tx_type: 1, ..tx(BOB, 0, at(CAROL)) }, "Eip2930NotSupported"),
        ("Berlin", TxEnv { tx_type: 2, gas_priority_fee: Some(0), ..tx(BOB, 0, at(CAROL)) }, "Eip1559NotSupported"),
        ("London", TxEnv { gas_price: 6, ..tx(BOB, 0, at(CAROL)) }, "GasPriceLessThanBasefee"),
        ("London", TxEnv { gas_limit: 20_999, ..tx(BOB, 0, at(CAROL)) }, "CallGasCostMoreThanGasLimit"),
    ];
    for (fork, tx2, reason) in bad {
        let proof = Case::new(fork).with(people()).block([tx(ALICE, 0, at(BOB)), tx2, tx(CAROL, 0, at(BOB))]).prove();
        let verdict = judged(&proof);
        assert!(verdict.contains("index: 1,") && verdict.contains(reason), "{fork}, {reason}: {verdict}");
    }
    assert_eq!(Case::new("Osaka").with(people()).block([blob(6)]).prove().nonce(at(BOB)), 1);
}

#[test]
fn eip2_a_signature_has_one_form() {
    use alloy_consensus::{Signed, TxEnvelope};
    use alloy_eips::{Decodable2718 as _, Encodable2718 as _};
    use alloy_primitives::{Signature, uint};
    use phalanx::{RecoverError, recover};
    use phalanx_workloads::{Native, TransferLoad, Workload as _};
    const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
    let load = TransferLoad { accounts: 4, txs: 1, signatures: true, ..TransferLoad::default() };
    let workload = Native::new(load).expect("a load");
    let txs: Vec<_> = workload.transactions().collect();
    let encoded = &workload.accounts().sign(&txs).expect("keys")[0];
    let TxEnvelope::Eip1559(signed) = TxEnvelope::decode_2718(&mut &encoded[..]).expect("a transaction") else {
        panic!("the workload signs transactions of type 2")
    };
    let with = |signature: Signature| {
        let envelope = TxEnvelope::Eip1559(Signed::new_unhashed(signed.tx().clone(), signature));
        recover(&envelope.encoded_2718())
    };
    let (r, s, odd) = (signed.signature().r(), signed.signature().s(), signed.signature().v());
    assert_eq!(with(Signature::new(r, s, odd)).expect("the original signature"), txs[0]);
    // The mirror image is a signature of the same key, and not valid (EIP-2).
    assert!(matches!(with(Signature::new(r, ORDER - s, !odd)), Err(RecoverError::Signature)));
    assert!(with(Signature::new(r, s, !odd)).map_or(true, |tx| tx.caller != txs[0].caller));
    for (r, s) in [(U256::ZERO, s), (r, U256::ZERO), (ORDER, s), (r, ORDER)] {
        assert!(matches!(with(Signature::new(r, s, odd)), Err(RecoverError::Signature)));
    }
}
