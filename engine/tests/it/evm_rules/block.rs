//! System calls, withdrawals, ommers, BLOCKHASH and the environment of a block.

use super::*;
use crate::kit::{COINBASE, Case, ETHER, header};
use alloy_eips::{eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS, eip4895::Withdrawal, eip7002};
use phalanx::{
    chain::ChainSpec,
    revm::bytecode::opcode::{
        BALANCE, BASEFEE, BLOBBASEFEE, BLOCKHASH, CALL, CHAINID, COINBASE as BENEFICIARY, DIFFICULTY, GASLIMIT, MLOAD,
        NUMBER, POP, SSTORE, TIMESTAMP,
    },
};

#[test]
fn blockhash_reaches_back_256_blocks_on_its_own_chain() {
    // sstore(input, blockhash(input)), in block 300.
    let asks = code(0xee, Asm::new().input().op(BLOCKHASH).input().op(SSTORE));
    let mut case = Case::new("Osaka").with(people()).with([asks]);
    case.ancestors = (1..300).map(|number| (number, B256::with_last_byte(number as u8 | 1))).collect();
    case.ancestors.remove(&200);
    let numbers = [43, 44, 200, 299, 300, 301, u64::MAX];
    let txs = numbers.into_iter().zip(1..).map(|(number, from)| with(tx(from, 0, at(0xee)), number));
    let proof = case.block_with(txs, |body| body.header.number = 300).prove();
    let seen = numbers.map(|number| proof.slot(at(0xee), number));
    let known = |number: u64| U256::from(number as u8 | 1);
    assert_eq!(seen, [word(0), known(44), word(0), known(299), word(0), word(0), word(0)]);
}

#[test]
fn eip2935_the_history_contract_is_written_before_the_first_transaction() {
    // As far as a block sees: sstore(number, input); a call without input reads the word.
    let history = Asm::new().input().when(|code| code.input().op(NUMBER).op(SSTORE).op(0)).op(NUMBER).op(0x54).give();
    let history = GenesisAccount { address: HISTORY_STORAGE_ADDRESS, ..code(0, history) };
    let asks = Asm::new().push(U256::from(32)).push(U256::ZERO).push(U256::ZERO).push(U256::ZERO).push(U256::ZERO);
    let asks = asks.addr(HISTORY_STORAGE_ADDRESS).push(U256::from(60_000)).ops(&[CALL, POP]);
    let asks = asks.push(U256::ZERO).op(MLOAD).input().op(SSTORE);
    let proof = Case::new("Prague")
        .with(people())
        .with([history, code(0xee, asks)])
        .block([with(tx(ALICE, 0, at(0xee)), 1)])
        .block([with(tx(BOB, 0, at(0xee)), 2), with(tx(CAROL, 0, at(0xee)), 3)])
        .prove();
    let hash = |number| of(B256::repeat_byte(number));
    assert_eq!([1, 2, 3].map(|slot| proof.slot(at(0xee), slot)), [hash(10), hash(11), hash(11)]);
}

#[test]
fn eip4788_system_calls_and_transactions_meet_on_one_contract() {
    // Counts its calls, and stores its input.
    let roots = GenesisAccount { address: BEACON_ROOTS_ADDRESS, ..code(0, Asm::new().count(0).input().store(1)) };
    let proof = Case::new("Cancun")
        .with(people())
        .with([roots])
        .block([with(tx(ALICE, 0, BEACON_ROOTS_ADDRESS), 5), tx(BOB, 0, at(ALICE))])
        .block([
            tx(CAROL, 0, at(ALICE)),
            with(tx(BOB, 1, BEACON_ROOTS_ADDRESS), 6),
            with(tx(CAROL, 1, BEACON_ROOTS_ADDRESS), 7),
        ])
        .block([tx(ALICE, 1, at(BOB))])
        .prove();
    assert_eq!(proof.slot(BEACON_ROOTS_ADDRESS, 0), word(6));
    assert_eq!(proof.slot(BEACON_ROOTS_ADDRESS, 1), of(B256::repeat_byte(0xbe)));
    let nothing = Case::new("Cancun").with(people()).block([tx(ALICE, 0, BEACON_ROOTS_ADDRESS)]).prove();
    assert_eq!(nothing.account(BEACON_ROOTS_ADDRESS), None, "a contract that does not exist yet is not called");
}

#[test]
fn eip7685_requests_are_collected_after_all_transactions() {
    let withdrawals = eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS;
    // With an input it stores it; without input it returns the last one and clears it.
    let queue = Asm::new().input().when(|code| code.input().store(0).op(0)).load(0).set(0, 0).give();
    let mut case = Case::new("Prague").with(people());
    case.genesis.iter_mut().filter(|account| account.address == withdrawals).for_each(|account| {
        account.code = Some(queue.clone().bytes());
    });
    let proof = case
        .block([with(tx(ALICE, 0, withdrawals), 5), tx(CAROL, 0, at(BOB)), with(tx(BOB, 0, withdrawals), 6)])
        .prove();
    let requests = proof.last().requests.as_deref().expect("since Prague");
    assert_eq!(requests, [[&[1][..], &U256::from(6).to_be_bytes::<32>()].concat()]);
    assert_eq!(proof.slot(withdrawals, 0), word(0));
}

#[test]
fn eip7002_eip7251_a_block_without_its_system_contracts_is_invalid() {
    let mut case = Case::new("Prague");
    case.genesis.clear();
    let proof = case.with(people()).block([tx(ALICE, 0, at(BOB))]).prove();
    assert!(proof.blocks[0].as_ref().expect_err("EIP-7002").contains("has no code"));
    let mut case = Case::new("Prague");
    case.genesis[1].code = Some(vec![0xfe].into());
    let proof = case.with(people()).block([tx(ALICE, 0, at(BOB))]).prove();
    assert!(proof.blocks[0].as_ref().expect_err("EIP-7251").contains("failed"));
}

#[test]
fn eip4895_withdrawals_and_block_rewards_create_and_touch_accounts() {
    let give = |address, amount| Withdrawal { address, amount, ..Withdrawal::default() };
    let hollow = GenesisAccount { address: at(0xe0), ..GenesisAccount::default() };
    let proof = Case::new("Shanghai")
        .with(people())
        .with([hollow])
        .block_with([pay(ALICE, 0, at(0xd0), 1)], |body| {
            let gifts = [give(at(0xd0), 2), give(at(0xd1), 3), give(at(0xe0), 0), give(at(0xd2), 0), give(at(0xd1), 1)];
            body.withdrawals = Some(gifts.to_vec());
        })
        .prove();
    assert_eq!(proof.balance(at(0xd0)), word(2_000_000_001));
    assert_eq!(proof.balance(at(0xd1)), word(4_000_000_000));
    assert_eq!((proof.account(at(0xe0)), proof.account(at(0xd2))), (None, None), "a touch deletes empty accounts");
    let ommer = header(&Case::new("London").rules, 9);
    let ommer = alloy_consensus::Header { beneficiary: at(0xd3), ..ommer };
    let mined = Case::new("London").with(people()).block_with([], |body| body.ommers = vec![ommer]).prove();
    assert_eq!(mined.balance(at(0xd3)), word(2 * ETHER / 8 * 7));
    assert_eq!(mined.balance(COINBASE), word(2 * ETHER + 2 * ETHER / 32));
}

#[test]
fn eip779_the_dao_is_drained_before_the_first_transaction() {
    let drained = phalanx::chain::DAO_ACCOUNTS[7];
    let refund = phalanx::chain::DAO_REFUND;
    let look = Asm::new().addr(refund).op(BALANCE).store(0);
    let mut case = Case::new("Homestead").with(people()).with([code(0xee, look)]);
    case.rules = ChainSpec::named("HomesteadToDaoAt10").expect("a transition");
    let accounts = phalanx::chain::DAO_ACCOUNTS.map(|address| GenesisAccount {
        address,
        balance: word(7),
        ..GenesisAccount::default()
    });
    let proof = case.with(accounts).block([tx(ALICE, 0, at(0xee)), pay(BOB, 0, drained, 1)]).prove();
    let sum = word(7 * phalanx::chain::DAO_ACCOUNTS.len() as u64);
    assert_eq!((proof.slot(at(0xee), 0), proof.balance(refund), proof.balance(drained)), (sum, sum, word(1)));
}

#[test]
fn opcodes_read_the_environment_of_their_block() {
    let ops = [NUMBER, TIMESTAMP, DIFFICULTY, GASLIMIT, BENEFICIARY, BASEFEE, BLOBBASEFEE, CHAINID];
    let notes = ops.iter().zip(0..).fold(Asm::new(), |code, (op, slot)| code.op(*op).store(slot));
    let change = |body: &mut crate::kit::Body| {
        body.header.mix_hash = B256::repeat_byte(0x77);
        body.header.gas_limit = 29_000_000;
        body.header.beneficiary = at(0xcc);
        body.header.base_fee_per_gas = Some(9);
        body.header.excess_blob_gas = Some(10 << 20);
    };
    let proof = Case::new("Osaka")
        .with(people())
        .with([code(0xe1, notes.clone()), code(0xe2, notes)])
        .block([tx(ALICE, 0, at(0xe1)), tx(BOB, 0, at(0xe1))])
        .block_with([tx(CAROL, 0, at(0xe2))], change)
        .prove();
    let seen = |address| [0, 1, 2, 3, 4, 5, 6, 7].map(|slot| proof.slot(address, slot));
    let [random, other] = [0x55, 0x77].map(|byte| of(B256::repeat_byte(byte)));
    let (coinbase, own) = (of(COINBASE.into_word()), of(at(0xcc).into_word()));
    let blob_fee = alloy_eips::eip7840::BlobParams::osaka().calc_blob_fee(10 << 20);
    assert!(blob_fee > 1);
    assert_eq!(seen(at(0xe1)), [word(10), word(120), random, word(30_000_000), coinbase, word(7), word(1), word(1)]);
    let second = [word(11), word(132), other, word(29_000_000), own, word(9), U256::from(blob_fee), word(1)];
    assert_eq!(seen(at(0xe2)), second);
}

#[test]
fn a_block_reads_its_parents_state_and_nothing_of_a_dropped_sibling() {
    use crate::kit::Way;
    use phalanx::{Error, Hints};
    let case = Case::new("Osaka")
        .with(people())
        .with([code(0xee, Asm::new().count(0))])
        .block([tx(ALICE, 0, at(0xee)), tx(BOB, 0, at(0xee))])
        .block([tx(ALICE, 1, at(0xee)), tx(CAROL, 0, at(0xee))]);
    let proof = case.prove();
    assert_eq!(proof.slot(at(0xee), 0), word(4));
    let dropped = Case::new("Osaka").block([tx(5, 0, at(0xee)), tx(6, 0, at(0xee)), tx(ALICE, 0, at(BOB))]);
    for way in [Way::sequential(), Way::stm(2, None), Way::dag(2, crate::kit::Hint::Predict)] {
        let mut engine = case.engine(&way);
        for (body, truth) in case.blocks.iter().zip(&proof.blocks) {
            // A sibling is executed and even merkleized, and never committed.
            let mut sibling = || engine.execute_block(&dropped.blocks[0].payload(), Hints::Predict);
            let stale = sibling();
            if let Ok(sibling) = sibling() {
                drop(engine.merkleize(sibling).expect("a root"));
            }
            let executed = engine.execute_block(&body.payload(), Hints::Predict).expect("a valid block");
            let merkleized = engine.merkleize(executed).expect("a root");
            let committed = engine.commit(merkleized).expect("a commit");
            assert_eq!(committed.state_root, truth.as_ref().expect("a valid block").root, "{way:?}");
            if let Ok(stale) = stale {
                assert!(matches!(engine.merkleize(stale), Err(Error::Stale)), "{way:?}");
            }
        }
    }
}
