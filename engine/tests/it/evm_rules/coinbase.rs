//! The beneficiary: reads of its balance, spending of rewards, touches and warmth.

use super::*;
use crate::kit::{COINBASE, Case, base_fee};
use phalanx::{
    chain::Parameters,
    revm::bytecode::opcode::{BALANCE, CALLER, COINBASE as BENEFICIARY, POP, SELFDESTRUCT, SSTORE},
};

/// Without a block reward, so that only transactions pay.
fn unrewarded(fork: &str) -> Case {
    let mut case = Case::new(fork).with(people());
    case.rules = case.rules.with_parameters(Parameters { rewards: Vec::new(), ..Parameters::default() });
    case
}

/// `sstore(input, balance(coinbase))`.
fn looker() -> GenesisAccount {
    code(0xee, Asm::new().ops(&[BENEFICIARY, BALANCE]).input().op(SSTORE))
}

#[test]
fn a_read_of_the_beneficiary_sees_every_earlier_reward() {
    for fork in ["Homestead", "London", "Osaka"] {
        let case = unrewarded(fork).with([looker()]);
        let tip = PRICE - base_fee(&case.rules);
        let txs = (1..=9u8).map(|from| match from % 3 {
            0 => with(tx(from, 0, at(0xee)), u64::from(from)),
            1 => pay(from, 0, at(BOB), 1),
            _ => pay(from, 0, COINBASE, 5),
        });
        let proof = case.block(txs).prove();
        for look in [3, 6, 9usize] {
            let rewards: u64 = (0..look - 1).map(|index| proof.gas(index) * tip).sum();
            let paid = 5 * (look as u64 / 3);
            assert_eq!(proof.slot(at(0xee), look as u64), word(rewards + paid), "{fork}, transaction {look}");
        }
    }
}

#[test]
fn the_beneficiary_spends_rewards_of_the_same_block() {
    let case = unrewarded("London");
    let tip = PRICE - base_fee(&case.rules);
    let send = |nonce, value| TxEnv { gas_limit: 21_000, caller: COINBASE, ..pay(ALICE, nonce, at(0xd0), value) };
    let proof =
        case.block([tx(ALICE, 0, at(BOB)), tx(BOB, 0, at(ALICE)), send(0, 7), pay(CAROL, 0, COINBASE, 9)]).prove();
    // Three other transfers pay a tip; its own returns all but the base fee.
    let balance = 3 * 21_000 * tip + 9 - 7 - 21_000 * (PRICE - tip);
    assert_eq!((proof.balance(COINBASE), proof.balance(at(0xd0))), (word(balance), word(7)));
    assert_eq!(proof.nonce(COINBASE), 1);
}

#[test]
fn a_reward_to_an_account_that_its_transaction_destroys_is_lost() {
    let mut case = unrewarded("Shanghai").with([code(0xcc, Asm::new().ops(&[CALLER, SELFDESTRUCT]))]);
    let tip = PRICE - base_fee(&case.rules);
    case = case.block_with([pay(ALICE, 0, at(0xcc), 1), tx(BOB, 0, at(CAROL)), tx(CAROL, 0, at(0xcc))], |body| {
        body.header.beneficiary = at(0xcc);
    });
    let proof = case.prove();
    assert_eq!(proof.balance(at(0xcc)), word(2 * 21_000 * tip), "rewards after the destruction stay");
    assert_eq!(proof.account(at(0xcc)).expect("paid").code, None);
}

#[test]
fn eip161_a_zero_reward_touches_the_beneficiary() {
    let free = |from, to| TxEnv { gas_price: 0, ..tx(from, 0, to) };
    for (fork, hollow_before, there_after) in [
        ("Homestead", false, true),
        ("Homestead", true, true),
        ("EIP158", false, false),
        ("EIP158", true, false),
        ("Osaka", true, false),
    ] {
        let mut case = unrewarded(fork).with([looker()]);
        if hollow_before {
            case = case.with([GenesisAccount { address: COINBASE, ..GenesisAccount::default() }]);
        }
        // The second transaction reads the beneficiary, so that the first reward is paid before.
        let txs = [free(ALICE, at(0xd0)), free(BOB, at(0xee)), free(CAROL, at(0xd0))];
        let zero = |body: &mut crate::kit::Body| body.header.base_fee_per_gas = body.header.base_fee_per_gas.map(|_| 0);
        let proof = case.block_with(txs, zero).prove();
        assert_eq!(proof.account(COINBASE).is_some(), there_after, "{fork}, hollow {hollow_before}");
        assert_eq!(proof.account(at(0xd0)).is_some(), fork == "Homestead", "{fork}");
    }
}

#[test]
fn eip3651_the_beneficiary_is_warm_in_every_transaction_since_shanghai() {
    let look = || Case::new("Paris").with(people()).with([code(0xee, Asm::new().ops(&[BENEFICIARY, BALANCE, POP]))]);
    let gas = |case: Case| {
        let proof = case.block([tx(ALICE, 0, at(0xee)), tx(BOB, 0, at(0xee))]).prove();
        assert_eq!(proof.gas(0), proof.gas(1), "warmth does not outlive the transaction");
        proof.gas(0)
    };
    let before = gas(look());
    let since = gas(Case { rules: Case::new("Shanghai").rules, ..look() });
    assert_eq!(before - since, 2_500);
}
