//! A chain's own precompiled contract with state, on every executor.

use crate::kit::{ETHER, Ran, builder, call, contract, env, eoa, run};
use phalanx::{
    BlockLimits, Executor, GenesisAccount, Order, State,
    access::Access,
    paralyze::{Precompile, PrecompileCall, PrecompileState, Refused, StateKey},
    revm::{
        context::TxEnv,
        precompile::PrecompileOutput,
        primitives::{Address, Bytes, Log, TxKind, U256},
    },
};
use std::sync::Arc;

/// Nonce and balance of the counter.
fn counter(state: &State) -> (u64, U256) {
    let account = state.account(&COUNTER).expect("readable").expect("it is there");
    (account.nonce, account.balance)
}

const BANK: Address = Address::repeat_byte(0xba);

/// Stores the payments of each caller under the caller's address, and sends a tenth to the account that calldata names.
#[derive(Debug)]
struct Bank {
    declares: bool,
}

fn slot(caller: Address) -> U256 {
    U256::from_be_slice(caller.as_slice())
}

impl Precompile for Bank {
    fn address(&self) -> Address {
        BANK
    }

    fn call(&self, call: &PrecompileCall<'_>, state: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        if call.is_static || call.target != BANK || call.input.len() != 20 {
            return Ok(PrecompileOutput::revert(500, Bytes::new(), call.reservoir));
        }
        let slot = slot(call.caller);
        let paid = state.storage(BANK, slot)? + call.value;
        state.set_storage(BANK, slot, paid)?;
        let friend = Address::from_slice(call.input);
        assert!(state.transfer(BANK, friend, call.value / U256::from(10))?, "the bank was just paid");
        state.log(Log::new_unchecked(BANK, vec![], paid.to_be_bytes_vec().into()));
        Ok(PrecompileOutput::new(5_000, state.balance(friend)?.to_be_bytes_vec().into(), call.reservoir))
    }

    fn accesses(&self, tx: &TxEnv) -> Option<Vec<(StateKey, Access)>> {
        let friend = StateKey::Basic(Address::from_slice(tx.data.get(..20)?));
        let own = StateKey::Slot(BANK, slot(tx.caller));
        self.declares.then(|| vec![(own, Access::Write), (friend, Access::Write)])
    }
}

fn ran(executor: Executor, threads: usize, order: Order, declares: bool) -> Ran {
    let mut genesis: Vec<GenesisAccount> = (1..=20).map(eoa).collect();
    // Storage may only be kept by an account that is not empty.
    genesis.push(GenesisAccount { nonce: 1, ..contract(0xba, &[]) });
    let txs: Vec<TxEnv> = (0..100u64)
        .map(|i| {
            let friend = Bytes::copy_from_slice(Address::repeat_byte(0x40 + (i % 7) as u8).as_slice());
            let data = if i % 10 == 9 { Bytes::new() } else { friend };
            TxEnv { data, kind: TxKind::Call(BANK), ..call(1 + (i % 20) as u8, i / 20, BANK, 1000) }
        })
        .collect();
    let limits = BlockLimits { max_txs: 40, max_gas: u64::MAX };
    let builder = builder().with_precompile(Arc::new(Bank { declares }));
    run(builder.with_executor(executor).with_threads(threads), &genesis, &txs, order, limits, env)
}

#[test]
fn a_precompile_with_state_is_executed_alike_by_every_executor() {
    let truth = ran(Executor::Sequential, 1, Order::Given, false);
    assert_eq!(truth.succeeded(), 90, "one in ten reverts");
    let state = truth.engine.state();
    let paid = state.storage(&BANK, &slot(Address::repeat_byte(1))).expect("a word");
    assert_eq!(paid, U256::from(5 * 1000), "five payments of the first account");
    let balance = state.account(&BANK).expect("readable").expect("the bank").balance;
    assert_eq!(balance, U256::from(90 * 900));
    let first = state.account(&Address::repeat_byte(1)).expect("readable").expect("funded").balance;
    assert!(first < U256::from(10 * ETHER) - U256::from(5 * 1000), "fees were paid");
    for threads in [1, 2, 4] {
        for (executor, declares) in
            [(Executor::Dag, true), (Executor::Dag, false), (Executor::BlockStm, false), (Executor::Sequential, true)]
        {
            let given = ran(executor, threads, Order::Given, declares);
            assert_eq!(given.blocks, truth.blocks, "{executor:?}, {threads} threads, declares: {declares}");
            let free = ran(executor, threads, Order::Free, declares);
            assert_eq!(free.succeeded(), 90);
            assert_eq!(free.engine.state().dump().expect("sound"), state.dump().expect("sound"), "payments commute");
            if declares && executor == Executor::Dag {
                assert_eq!((given.escapes, free.escapes), (0, 0), "the declared accesses are true");
            }
        }
    }
}

/// Counts its calls in a slot of its own.
#[derive(Debug)]
struct Counter;

const COUNTER: Address = Address::repeat_byte(0xcc);

impl Precompile for Counter {
    fn address(&self) -> Address {
        COUNTER
    }

    fn call(&self, call: &PrecompileCall<'_>, state: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        let count = state.storage(COUNTER, U256::ZERO)? + U256::from(1);
        state.set_storage(COUNTER, U256::ZERO, count)?;
        Ok(PrecompileOutput::new(1_000, Bytes::new(), call.reservoir))
    }
}

#[test]
fn storage_of_a_precompile_without_an_account_stays() {
    let genesis: Vec<GenesisAccount> = (1..=8).map(eoa).collect();
    let txs: Vec<TxEnv> = (0..48u64).map(|i| call(1 + (i % 8) as u8, i / 8, COUNTER, 0)).collect();
    let limits = BlockLimits { max_txs: 24, max_gas: u64::MAX };
    let roots: Vec<_> = [Executor::Sequential, Executor::Dag, Executor::BlockStm]
        .into_iter()
        .map(|executor| {
            let builder = builder().with_precompile(Arc::new(Counter)).with_executor(executor).with_threads(2);
            let ran = run(builder, &genesis, &txs, Order::Given, limits, env);
            let state = ran.engine.state();
            assert_eq!(state.storage(&COUNTER, &U256::ZERO).expect("a word"), U256::from(48), "{executor:?}");
            assert_eq!(counter(state), (1, U256::ZERO), "as a new contract");
            state.root()
        })
        .collect();
    assert!(roots.iter().all(|root| *root == roots[0]));
}

/// Counts its calls, and sends what it was paid back to the caller: it is empty before and after.
#[derive(Debug)]
struct Refunder;

impl Precompile for Refunder {
    fn address(&self) -> Address {
        COUNTER
    }

    fn call(&self, call: &PrecompileCall<'_>, state: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        let output = Counter.call(call, state)?;
        state.transfer(COUNTER, call.caller, call.value)?;
        Ok(output)
    }
}

#[test]
fn storage_of_a_precompile_that_pays_all_it_has_stays() {
    let genesis: Vec<GenesisAccount> = (1..=8).map(eoa).collect();
    let txs: Vec<TxEnv> = (0..24u64).map(|i| call(1 + (i % 8) as u8, i / 8, COUNTER, 5 * ((i + 1) % 2))).collect();
    let limits = BlockLimits { max_txs: 12, max_gas: u64::MAX };
    for executor in [Executor::Sequential, Executor::Dag, Executor::BlockStm] {
        for rich in [0, 7] {
            let balance = U256::from(rich);
            let genesis = [genesis.clone(), vec![GenesisAccount { address: COUNTER, balance, ..Default::default() }]];
            let builder = builder().with_precompile(Arc::new(Refunder)).with_executor(executor).with_threads(2);
            let ran = run(builder, &genesis.concat(), &txs, Order::Given, limits, env);
            assert_eq!(ran.succeeded(), 24, "{executor:?}");
            let state = ran.engine.state();
            assert_eq!(state.storage(&COUNTER, &U256::ZERO).expect("a word"), U256::from(24), "{executor:?}, {rich}");
            assert_eq!(counter(state), (1, balance), "{executor:?}, {rich}");
        }
    }
}

/// Counts its calls, and gives all that it has to a caller who pays.
#[derive(Debug)]
struct Purse;

impl Precompile for Purse {
    fn address(&self) -> Address {
        COUNTER
    }

    fn call(&self, call: &PrecompileCall<'_>, state: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        let output = Counter.call(call, state)?;
        if !call.value.is_zero() {
            let all = state.balance(COUNTER)?;
            state.transfer(COUNTER, call.caller, all)?;
        }
        Ok(output)
    }
}

#[test]
fn storage_of_a_precompile_stays_when_a_later_transaction_empties_it() {
    let genesis: Vec<GenesisAccount> = (1..=2).map(eoa).collect();
    let own = GenesisAccount { address: COUNTER, balance: U256::from(7), ..Default::default() };
    let txs = [call(1, 0, COUNTER, 0), call(2, 0, COUNTER, 0), call(1, 1, COUNTER, 5), call(2, 1, COUNTER, 0)];
    for executor in [Executor::Sequential, Executor::Dag, Executor::BlockStm] {
        for max_txs in [1, 2, 4] {
            let limits = BlockLimits { max_txs, max_gas: u64::MAX };
            let builder = builder().with_precompile(Arc::new(Purse)).with_executor(executor).with_threads(2);
            let ran = run(builder, &[genesis.clone(), vec![own.clone()]].concat(), &txs, Order::Given, limits, env);
            assert_eq!(ran.succeeded(), 4, "{executor:?}");
            let state = ran.engine.state();
            assert_eq!(state.storage(&COUNTER, &U256::ZERO).expect("a word"), U256::from(4), "{executor:?}, {max_txs}");
            assert_eq!(counter(state), (1, U256::ZERO), "{executor:?}, {max_txs}");
        }
    }
}
