//! Whole blocks: the expected root from sequential revm, and a chain that runs the block step by step.

use crate::case::{Case, Kind};
use phalanx::{
    Block, BlockLimits, Engine, Executed, Executor, GenesisAccount, Merkleized, Order, Outcome,
    paralyze::Layers,
    parascheduler::Workers,
    revm::{
        context::{BlockEnv, TxEnv},
        primitives::B256,
    },
};
use phalanx_workloads::{CheckError, ConfigError, TransferLoad, Workload};
use std::sync::Arc;

/// Reason why a case cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The load describes no workload.
    #[error(transparent)]
    Load(#[from] ConfigError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] phalanx::Error),
    /// A transaction did not end as it is built to, or the final state differs from the arithmetic.
    #[error("the result is wrong")]
    Check(#[from] CheckError),
    /// The planner found no block in the transactions.
    #[error("the load has no transaction")]
    Empty,
    /// A transaction was skipped, or is in no block.
    #[error("{executed} of {txs} transactions were executed")]
    Missing {
        /// Number of executed transactions.
        executed: u64,
        /// Number of transactions.
        txs: usize,
    },
}

/// A workload of one block, with the block's order and root from sequential revm, checked by arithmetic.
#[derive(Debug)]
pub struct Truth {
    workload: Box<dyn Workload>,
    txs: Vec<TxEnv>,
    order: Vec<u32>,
    state_root: B256,
}

impl Truth {
    /// Plans all transactions of `load` as one block and executes it with the oracle.
    ///
    /// # Errors
    /// The load describes no workload, a transaction fails, or the final state is wrong.
    pub fn new(load: TransferLoad, kind: Kind) -> Result<Self, Error> {
        let workload = kind.workload(load)?;
        let txs: Vec<_> = workload.transactions().collect();
        let mut engine = start(&*workload, Executor::Sequential, 1)?;
        let env = workload.block_env(1);
        let block = plan(&engine, &txs, &env)?;
        let executed = engine.execute(&env, &txs, block)?;
        let mut ledger = workload.ledger();
        for (tx, outcome) in executed.block().order().iter().zip(executed.block().outcomes()) {
            match outcome {
                Outcome::Executed(result) if result.is_success() => ledger.record(&txs[*tx as usize])?,
                Outcome::Executed(_) => ledger.record_failed(&txs[*tx as usize])?,
                Outcome::Skipped(_) => {}
            }
        }
        if ledger.transactions() != txs.len() as u64 {
            return Err(Error::Missing { executed: ledger.transactions(), txs: txs.len() });
        }
        let merkleized = engine.merkleize(executed)?;
        let committed = engine.commit(merkleized)?;
        committed.write.wait()?;
        workload.check(&ledger, committed.block.gas_used(), engine.state())?;
        let order = committed.block.order().to_vec();
        Ok(Self { workload, order, state_root: committed.state_root, txs })
    }

    /// Root of the state after the block.
    pub const fn state_root(&self) -> B256 {
        self.state_root
    }

    /// Number of transactions.
    pub const fn len(&self) -> usize {
        self.txs.len()
    }

    /// True if there is no transaction.
    pub const fn is_empty(&self) -> bool {
        self.txs.is_empty()
    }

    /// Creates a chain at genesis, in memory, that runs the block as `case` says.
    ///
    /// # Errors
    /// The engine does not start.
    pub fn chain(&self, case: Case) -> Result<Chain<'_>, Error> {
        let engine = start(&*self.workload, case.executor, case.threads)?;
        Ok(Chain { truth: self, engine, executor: case.executor, env: self.workload.block_env(1) })
    }
}

/// A chain at genesis that runs its first block over and over.
#[derive(Debug)]
pub struct Chain<'a> {
    truth: &'a Truth,
    engine: Engine,
    executor: Executor,
    env: BlockEnv,
}

impl Chain<'_> {
    /// Plans, executes and merkleizes the block, and commits nothing. Planning belongs to the DAG's work; the other
    /// executors receive the same order without predictions.
    ///
    /// # Errors
    /// The engine fails.
    pub fn run(&mut self) -> Result<Merkleized, Error> {
        let block = self.plan()?;
        let executed = self.execute(block)?;
        self.merkleize(executed)
    }

    /// Plans the block: the first step of [`Self::run`].
    ///
    /// # Errors
    /// The planner finds no block.
    pub fn plan(&self) -> Result<Block, Error> {
        let Self { truth, engine, executor, env } = self;
        match executor {
            Executor::Dag => plan(engine, &truth.txs, env),
            Executor::BlockStm | Executor::Sequential => Ok(Block::unpredicted(truth.order.clone())),
        }
    }

    /// Executes the block: the second step of [`Self::run`].
    ///
    /// # Errors
    /// The engine fails.
    pub fn execute(&mut self, block: Block) -> Result<Executed, Error> {
        Ok(self.engine.execute(&self.env, &self.truth.txs, block)?)
    }

    /// Computes the root: the last step of [`Self::run`].
    ///
    /// # Errors
    /// The engine fails.
    pub fn merkleize(&self, executed: Executed) -> Result<Merkleized, Error> {
        Ok(self.engine.merkleize(executed)?)
    }

    /// Threads of the engine, to run a step on one of them.
    pub fn workers(&self) -> Arc<Workers> {
        Arc::clone(self.engine.workers())
    }
}

fn start(workload: &dyn Workload, executor: Executor, threads: usize) -> Result<Engine, Error> {
    let mut engine = Engine::builder().with_executor(executor).with_threads(threads).build()?;
    let accounts = workload.genesis().accounts.into_iter().map(|account| {
        let phalanx_workloads::GenesisAccount { address, balance, nonce, code, storage } = account;
        GenesisAccount { address, balance, nonce, code, storage }
    });
    engine.genesis(accounts)?;
    Ok(engine)
}

fn plan(engine: &Engine, txs: &[TxEnv], env: &BlockEnv) -> Result<Block, Error> {
    let limits = BlockLimits { max_txs: txs.len(), max_gas: u64::MAX };
    let mut planner = engine.plan(txs, Order::Free, limits);
    // A learned template may mispredict. An escaped transaction leaves the block, and blocks that differ cannot be
    // compared.
    planner.use_layers(Layers::WithoutTemplates);
    planner.next_block(engine, env).ok_or(Error::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::THREADS;

    #[test]
    fn every_case_leads_to_the_oracles_root() {
        for kind in Kind::ALL {
            let truth = Truth::new(kind.load(500, 300), kind).expect("a sound load");
            for case in Case::matrix(&THREADS).filter(|case| case.workload == kind) {
                let mut chain = truth.chain(case).expect("an engine");
                for _ in 0..2 {
                    let block = chain.run().expect("a block");
                    assert_eq!(block.state_root(), truth.state_root(), "{kind:?} {case}");
                    assert_eq!(block.block().order(), truth.order, "{kind:?} {case}");
                }
            }
        }
    }
}
