//! Built blocks validate: on fresh engines, by every executor, and by stock revm.

mod anytime;
mod check;
mod escapes;
mod limits;
mod mixes;
mod random;
mod rewards;
mod system;
mod workloads;

use crate::kit::{Case, Way, call, header};
use phalanx::{
    BlockError, Budget, BuildJob, Builder, Built, CandidateTx, Engine, Target, Template, Transaction,
    revm::{
        context::TxEnv,
        primitives::{Address, U256},
    },
};

/// Stop condition that never holds.
const NEVER: &(dyn Fn() -> bool + Sync) = &|| false;

/// An engine for the case on `threads` threads.
fn engine(case: &Case, threads: usize) -> Engine {
    case.engine(&Way::dag(threads, crate::kit::Hint::None))
}

/// A whole block of the case whose header satisfies the rules.
fn whole(case: &Case, number: u64) -> Target {
    Target::Whole(Box::new(Template { header: header(&case.rules, number), ..Template::default() }))
}

/// Candidates, ranked in the given order.
fn candidates(txs: impl IntoIterator<Item = TxEnv>) -> Vec<CandidateTx> {
    (0..).zip(txs).map(|(rank, tx)| CandidateTx::new(tx, rank)).collect()
}

/// The transactions of a block.
fn envs(built: &Built) -> Vec<TxEnv> {
    built.txs.iter().map(|candidate| candidate.tx.env().clone()).collect()
}

fn ranks<'c>(candidates: impl IntoIterator<Item = &'c CandidateTx>) -> Vec<u64> {
    candidates.into_iter().map(|candidate| candidate.rank).collect()
}

/// A call with a word as input.
fn ask(from: u8, nonce: u64, to: u8, word: u64) -> TxEnv {
    TxEnv { data: U256::from(word).to_be_bytes_vec().into(), ..call(from, nonce, Address::repeat_byte(to), 0) }
}

/// A transfer between accounts that repeat a byte.
fn pay(from: u8, nonce: u64, to: u8) -> TxEnv {
    TxEnv { gas_limit: 21_000, ..call(from, nonce, Address::repeat_byte(to), 1) }
}

/// A transaction that takes the given number of bytes.
#[derive(Debug)]
struct Long(TxEnv, u64);

impl Transaction for Long {
    fn env(&self) -> &TxEnv {
        &self.0
    }

    fn size(&self) -> u64 {
        self.1
    }
}

/// Opens a whole block without forced transactions.
fn open<'e>(
    builder: &'e mut Builder,
    engine: &'e mut Engine,
    case: &Case,
    budget: Budget,
) -> Result<BuildJob<'e>, BlockError> {
    builder.open(engine, whole(case, 10), budget, [])
}
