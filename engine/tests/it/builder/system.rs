//! Steps around the transactions can make a block invalid; a builder's block never is.

use super::{NEVER, ask, candidates, check, engine, open, pay, ranks, whole};
use crate::kit::{Asm, Case, contract, eoa};
use alloy_eips::{eip4895::Withdrawal, eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS, eip7002};
use phalanx::{
    BlockError, Budget, Builder, GenesisAccount, Reason, Target,
    revm::{
        bytecode::opcode::*,
        context::TxEnv,
        context_interface::result::InvalidTransaction,
        primitives::{Address, TxKind, U256, b256},
    },
};

#[test]
fn a_chain_without_its_system_contracts_builds_no_block() {
    let mut case = Case::new("Prague").with([eoa(1)]);
    case.genesis.retain(|account| account.address != eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS);
    let mut engine = engine(&case, 1);
    let mut builder = Builder::new(&engine);
    let error = open(&mut builder, &mut engine, &case, Budget::default()).expect_err("no block");
    assert!(matches!(error, BlockError::SystemContract { what: "has no code", .. }), "{error}");
}

/// The contract of withdrawal requests fails once it has been called by a transaction.
#[test]
fn transactions_that_break_the_end_of_the_block_leave_the_empty_block() {
    let mut case = Case::new("Prague").with((1..=5).map(eoa));
    let fails = Asm::new().load(0).when(|code| code.push(0u64).push(0u64).op(REVERT));
    let system = phalanx::revm::primitives::Address::from(hex(SYSTEM));
    let called = fails.op(CALLER).addr(system).op(EQ).op(ISZERO).when(|code| code.set(0, 1)).op(STOP);
    let predeploy = eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS;
    for account in &mut case.genesis {
        if account.address == predeploy {
            account.code = Some(called.clone().bytes());
        }
    }
    let mut engine = engine(&case, 2);
    let mut builder = Builder::new(&engine);
    let mut job = open(&mut builder, &mut engine, &case, Budget::default()).expect("a block");
    job.extend(candidates([pay(1, 0, 2), pay(2, 0, 3)]), NEVER).expect("execution");
    let best = job.best();
    assert_eq!((best.txs.len(), best.failure.is_none()), (2, true));
    let breaks = TxEnv { kind: TxKind::Call(predeploy), value: U256::ZERO, gas_limit: 100_000, ..pay(3, 0, 1) };
    job.extend([phalanx::CandidateTx::new(breaks, 2)], NEVER).expect("execution");
    let built = job.finish();
    assert!(matches!(built.failure, Some(BlockError::SystemContract { what: "failed", .. })), "{:?}", built.failure);
    assert_eq!((built.txs.len(), built.waiting.len()), (0, 3));
    let Target::Whole(template) = whole(&case, 10) else { unreachable!("a whole block") };
    let made = check::commit(&mut engine, &template, built);
    check::replays(&case, &[made]);
}

const SYSTEM: &str = "fffffffffffffffffffffffffffffffffffffffe";

fn hex(text: &str) -> [u8; 20] {
    core::array::from_fn(|index| u8::from_str_radix(&text[2 * index..2 * index + 2], 16).expect("hex"))
}

/// A log that imitates a deposit makes a block invalid (EIP-6110): only the transaction that writes it is left out.
#[test]
fn a_false_deposit_excludes_its_transaction_alone() {
    let event = b256!("0x649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");
    let code = Asm::new().count(0).push(U256::from_be_bytes(event.0)).push(0u64).push(0u64).op(LOG1).op(STOP);
    let deposits = GenesisAccount {
        address: MAINNET_DEPOSIT_CONTRACT_ADDRESS,
        nonce: 1,
        code: Some(code.bytes()),
        ..GenesisAccount::default()
    };
    let counter = contract(0xee, &Asm::new().count(0).op(STOP).build());
    let case = Case::new("Prague").with((1..=9).map(eoa)).with([deposits, counter]);
    let deposit = |from, nonce| TxEnv {
        kind: TxKind::Call(MAINNET_DEPOSIT_CONTRACT_ADDRESS),
        value: U256::ZERO,
        gas_limit: 200_000,
        ..pay(from, nonce, 1)
    };
    let txs = [pay(1, 0, 2), deposit(2, 0), pay(2, 1, 3), ask(3, 0, 0xee, 0), deposit(4, 0), pay(4, 0, 5)];
    // On the DAG, and serially: forced, and on the sequential executor.
    for (forced, threads) in [(0, 2), (6, 2), (3, 1)] {
        let mut engine = engine(&case, threads);
        let mut builder = Builder::new(&engine);
        let offered = candidates(txs.clone());
        let first = offered[..forced].to_vec();
        let mut job = builder.open(&mut engine, whole(&case, 10), Budget::default(), first).expect("a block");
        job.extend(offered[forced..].to_vec(), NEVER).expect("execution");
        let built = job.finish();
        assert!(built.failure.is_none(), "{:?}", built.failure);
        check::complete(&built, 6);
        let mut placed = ranks(&built.txs);
        placed.sort_unstable();
        assert_eq!(placed, [0, 3, 5]);
        for dropped in &built.dropped {
            let Reason::Invalid(reason) = &dropped.reason else { panic!("{dropped:?}") };
            assert_eq!(matches!(reason, InvalidTransaction::Str(_)), dropped.candidate.rank != 2, "{reason}");
        }
        let Target::Whole(template) = whole(&case, 10) else { unreachable!("a whole block") };
        let made = check::commit(&mut engine, &template, built);
        check::replays(&case, &[made]);
    }
}

#[test]
fn withdrawals_come_after_the_transactions() {
    let case = Case::new("Osaka").with((1..=9).map(eoa));
    let Target::Whole(mut template) = whole(&case, 10) else { unreachable!("a whole block") };
    let withdrawal = |byte, amount| Withdrawal { address: Address::repeat_byte(byte), amount, ..Default::default() };
    // One goes to a sender that cannot pay before.
    template.withdrawals = Some(vec![withdrawal(0x77, 5_000_000_000), withdrawal(0x66, 0)]);
    let mut engine = engine(&case, 2);
    let mut builder = Builder::new(&engine);
    let target = Target::Whole(template.clone());
    let mut job = builder.open(&mut engine, target, Budget::default(), []).expect("a block");
    job.extend(candidates([pay(1, 0, 2), pay(0x77, 0, 1)]), NEVER).expect("execution");
    let built = job.finish();
    assert_eq!(ranks(&built.txs), [0]);
    assert_eq!(built.dropped.len(), 1);
    let made = check::commit(&mut engine, &template, built);
    let balance = engine.state().account(&Address::repeat_byte(0x77)).expect("readable").expect("paid").balance;
    assert_eq!(balance, U256::from(5_000_000_000u64) * U256::from(1_000_000_000u64));
    check::replays(&case, &[made]);
}
