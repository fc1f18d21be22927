//! Handlers and instructions of another EVM on every executor, against a plain loop of that EVM.

use super::{COUNTER, Ran, TREASURY, VAULT, ran, transactions, ways};
use crate::kit::{COINBASE, ETHER, builder, call, contract, env};
use phalanx::{
    ChainRules, Error, ForeignDb, ForeignEvm, ForeignFailure, Outcome,
    revm::{
        Context, Database, DatabaseCommit as _, DatabaseRef as _, ExecuteEvm as _, MainBuilder as _, MainContext as _,
        context::{BlockEnv, CfgEnv, ContextSetters as _, TxEnv},
        context_interface::{
            JournalTr as _,
            journaled_state::account::JournaledAccountTr as _,
            result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction},
        },
        database::{CacheDB, EmptyDB},
        handler::{FrameResult, Handler, MainnetContext, MainnetEvm, post_execution, pre_execution},
        interpreter::{InitialAndFloorGas, Instruction, InstructionContext, interpreter::EthInterpreter},
        primitives::{Address, TxKind, U256},
        state::{AccountInfo, Bytecode, EvmState},
    },
};
use std::sync::Arc;

/// An EVM with an instruction of its own, 0xc0, which pushes 42, and a handler that refuses to pay accounts with an odd
/// balance: so every payment reads its receiver.
#[derive(Clone, Copy, Debug)]
struct Odd {
    defers: bool,
}

struct OddHandler<D> {
    pays: bool,
    of: core::marker::PhantomData<fn() -> D>,
}

impl<D: Database> Handler for OddHandler<D> {
    type Evm = MainnetEvm<MainnetContext<D>>;
    type Error = EVMError<D::Error, InvalidTransaction>;
    type HaltReason = HaltReason;

    fn validate_against_state_and_deduct_caller(
        &self,
        evm: &mut Self::Evm,
        _: &mut InitialAndFloorGas,
    ) -> Result<(), Self::Error> {
        pre_execution::validate_against_state_and_deduct_caller::<_, Self::Error>(&mut evm.ctx)?;
        let tx = evm.ctx.tx.clone();
        if let TxKind::Call(to) = tx.kind
            && !tx.value.is_zero()
        {
            let balance = *evm.ctx.journaled_state.load_account_mut(to)?.balance();
            if balance.bit(0) {
                return Err(EVMError::Transaction(InvalidTransaction::Str("the receiver is odd".into())));
            }
        }
        Ok(())
    }

    fn reward_beneficiary(&self, evm: &mut Self::Evm, result: &mut FrameResult) -> Result<(), Self::Error> {
        if self.pays {
            post_execution::reward_beneficiary(&mut evm.ctx, result.gas())?;
        }
        Ok(())
    }
}

impl Odd {
    /// Runs a transaction on a database.
    fn on<D: Database>(
        pays: bool,
        db: D,
        cfg: &CfgEnv,
        env: &BlockEnv,
        tx: &TxEnv,
    ) -> (Result<ExecutionResult, EVMError<D::Error, InvalidTransaction>>, EvmState) {
        let mut evm = Context::mainnet().with_db(db).with_cfg(cfg.clone()).build_mainnet();
        fn answer<H: phalanx::revm::interpreter::Host + ?Sized>(
            context: InstructionContext<'_, H, EthInterpreter>,
        ) -> Result<(), phalanx::revm::interpreter::InstructionResult> {
            if context.interpreter.stack.push(U256::from(42)) {
                Ok(())
            } else {
                Err(phalanx::revm::interpreter::InstructionResult::StackOverflow)
            }
        }
        evm.instruction.insert_instruction(0xc0, Instruction::new(answer), 2);
        evm.ctx.block = env.clone();
        evm.ctx.set_tx(tx.clone());
        let result = OddHandler { pays, of: core::marker::PhantomData }.run(&mut evm);
        (result, evm.finalize())
    }
}

impl ForeignEvm for Odd {
    fn run(
        &self,
        db: ForeignDb<'_>,
        cfg: &CfgEnv,
        env: &BlockEnv,
        tx: &TxEnv,
    ) -> Result<(ExecutionResult, EvmState), ForeignFailure> {
        match Self::on(!self.defers, db, cfg, env, tx) {
            (Ok(result), state) => Ok((result, state)),
            (Err(EVMError::Transaction(reason)), _) => Err(ForeignFailure::Invalid(reason)),
            (Err(other), _) => Err(ForeignFailure::Failed(other.to_string())),
        }
    }

    fn defers_payments(&self) -> bool {
        self.defers
    }
}

fn genesis() -> Vec<phalanx::GenesisAccount> {
    // `storage[0] += 42`, by the instruction.
    let odd = contract(0xab, &[0xc0, 0x5f, 0x54, 0x01, 0x5f, 0x55, 0x00]);
    super::genesis().into_iter().chain([odd]).collect()
}

/// Blocks of everything that the chain with rules runs, and the instruction.
fn block(seed: u64) -> Vec<TxEnv> {
    let mut txs: Vec<_> = transactions(seed, 80, 15).into_iter().filter(|tx| tx.tx_type != 0x7e).collect();
    let mut nonces = [0u64; 256];
    let odd = |from: u8| call(from, 0, Address::repeat_byte(0xab), 0);
    txs.extend((1..=12).map(odd));
    for tx in &mut txs {
        let nonce = &mut nonces[usize::from(tx.caller[0])];
        tx.nonce = *nonce;
        *nonce += u64::from(tx.value < U256::from(ETHER) && tx.gas_limit > 21_000);
    }
    txs
}

/// The loop: outcomes, and the state as a database.
fn truth(txs: &[TxEnv]) -> (Vec<Outcome>, CacheDB<EmptyDB>) {
    let mut db = CacheDB::new(EmptyDB::default());
    for account in genesis() {
        let info = AccountInfo { balance: account.balance, nonce: account.nonce, ..AccountInfo::default() };
        let code = account.code.map(Bytecode::new_raw);
        db.insert_account_info(account.address, code.map_or(info.clone(), |code| info.with_code(code)));
    }
    let cfg = super::cfg(phalanx::revm::primitives::hardfork::SpecId::OSAKA);
    let mut outcomes = Vec::new();
    for tx in txs {
        match Odd::on(true, &mut db, &cfg, &env(1), tx) {
            (Ok(result), state) => {
                db.commit(state);
                outcomes.push(Outcome::Executed(result));
            }
            (Err(EVMError::Transaction(reason)), _) => outcomes.push(Outcome::Skipped(reason)),
            (Err(other), _) => panic!("{other:?}"),
        }
    }
    (outcomes, db)
}

fn equals(ran: &Ran, (outcomes, db): &(Vec<Outcome>, CacheDB<EmptyDB>), what: &str) {
    for (index, (ours, truth)) in ran.outcomes.iter().zip(outcomes).enumerate() {
        assert_eq!(ours, truth, "transaction {index}, {what}");
    }
    for (address, account) in &db.cache.accounts {
        let info = account.info().unwrap_or_default();
        let AccountInfo { nonce, balance, .. } =
            ran.engine.state().account(address).expect("readable").unwrap_or_default();
        assert_eq!((balance, nonce), (info.balance, info.nonce), "{address}, {what}");
        for slot in account.storage.keys() {
            let held = ran.engine.state().storage(address, slot).expect("readable");
            assert_eq!(held, db.storage_ref(*address, *slot).expect("readable"), "{slot} of {address}, {what}");
        }
    }
}

#[test]
fn another_evm_runs_alike_on_every_executor() {
    for seed in [41, 42] {
        let txs = block(seed);
        let truth = truth(&txs);
        assert!(truth.0.iter().any(|outcome| outcome.result().is_none()), "some receivers are odd");
        for defers in [true, false] {
            for way in ways() {
                let rules = ChainRules::new().with_evm(Arc::new(Odd { defers }));
                let ran = ran(builder().with_rules(rules), &genesis(), way, &txs);
                equals(&ran, &truth, &format!("seed {seed}, {way:?}, defers: {defers}"));
                let slot = ran.engine.state().storage(&Address::repeat_byte(0xab), &U256::ZERO).expect("readable");
                assert_eq!(slot % U256::from(42), U256::ZERO);
                assert!(slot > U256::ZERO, "the instruction ran");
            }
        }
    }
}

/// Deferred payments go where the rules say, and cost no parallelism.
#[test]
fn deferred_payments_of_another_evm_are_shared() {
    let txs: Vec<_> = (1..=39).map(|from| call(from, 0, COUNTER, 0)).collect();
    let rules = ChainRules::new().with_evm(Arc::new(Odd { defers: true })).with_tip_share(VAULT, 10_000);
    let mut roots = std::collections::BTreeSet::new();
    for way in ways() {
        let ran = ran(builder().with_rules(rules.clone()), &genesis(), way, &txs);
        let gas: u64 = ran.outcomes.iter().map(Outcome::gas_used).sum();
        let vault = ran.engine.state().account(&VAULT).expect("readable").expect("the vault").balance;
        assert_eq!(vault, U256::from(3 * gas), "{way:?}");
        assert_eq!(ran.engine.state().account(&COINBASE).expect("readable"), None, "{way:?}");
        assert_eq!(ran.stats.reexecutions * usize::from(way.2.is_none()), 0, "{way:?}");
        roots.insert(ran.root);
    }
    assert_eq!(roots.len(), 1);
}

#[test]
fn what_an_evm_does_itself_is_no_rule_beside_it() {
    let odd = |defers| ChainRules::new().with_evm(Arc::new(Odd { defers }));
    for rules in [odd(false).with_tip_share(TREASURY, 1), odd(true).with_forced_transactions()] {
        let error = builder().with_rules(rules).build().expect_err("a contradiction");
        assert!(matches!(&error, Error::Configuration { what } if what.contains("foreign EVM")), "{error}");
    }
}
