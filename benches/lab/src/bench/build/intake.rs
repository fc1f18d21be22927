//! The producer's intake: recovers transactions, admits them to the pool and hands out the ready ones.

use super::chain::Chain;
use crate::machine::clock::StageClock;
use anyhow::{Context as _, bail, ensure};
use phalanx::{
    Engine, Form, Observer as _, RecoveredTx, Recovery, Stage,
    pool::{Admission, Batch, Fees, Load, Policy, Pool, PoolConfig, PooledTx, Settled, Tip},
    revm::{
        context::TxEnv,
        primitives::{Address, B256, Bytes},
    },
};
use std::sync::Arc;

/// Transactions recovered at a time.
const CHUNK: usize = 8192;

/// Input of the producer.
pub(super) enum Input {
    /// Signed transactions in their wire encoding.
    Signed(Vec<Bytes>),
    /// Transactions with senders; a number takes the place of each hash.
    Unsigned(Vec<Arc<RecoveredTx>>),
}

impl Input {
    pub(super) fn unsigned(txs: &[TxEnv]) -> Self {
        let hash = |index: u64| B256::left_padding_from(&index.to_be_bytes());
        let tx = |(index, tx): (u64, &TxEnv)| Arc::new(RecoveredTx::unsigned(hash(index), tx.clone()));
        Self::Unsigned((0..).zip(txs).map(tx).collect())
    }

    const fn len(&self) -> usize {
        match self {
            Self::Signed(bytes) => bytes.len(),
            Self::Unsigned(txs) => txs.len(),
        }
    }
}

/// Recovery and pool. A transaction's rank in the pool is its index in the load.
pub(super) struct Intake<'a> {
    input: &'a Input,
    clock: &'a StageClock,
    recovery: Recovery,
    fees: Fees,
    pool: Pool,
    /// Transactions that the pool is kept filled with, as long as there is input.
    room: usize,
    /// Transactions admitted so far.
    next: usize,
    spent: u64,
}

impl<'a> Intake<'a> {
    pub(super) fn new(chain: &Chain<'_>, input: &'a Input, room: usize, clock: &'a StageClock) -> Self {
        // The whole load is executed, so only the size of a chunk is limited.
        let all = Load { txs: usize::MAX, bytes: usize::MAX };
        let pool = Pool::new(PoolConfig {
            spec: chain.spec,
            policy: Policy::Arrival,
            max_ready: all,
            max_future: all,
            window: u64::MAX,
            max_sender_bytes: usize::MAX,
            max_tx_gas: u64::MAX,
            max_age: u64::MAX,
            ..PoolConfig::default()
        });
        let recovery = Recovery::new(chain.rules.clone(), chain.spec);
        let fees = Fees { base: chain.workload.load().fees.base_fee.into(), blob: 1 };
        Self { input, clock, recovery, fees, pool, room, next: 0, spent: 0 }
    }

    /// Nanoseconds of processor time in the pool.
    pub(super) const fn spent(&self) -> u64 {
        self.spent
    }

    /// Hands out up to `most` transactions for the next block; none when all are in blocks.
    pub(super) fn take(&mut self, engine: &Engine, most: usize) -> anyhow::Result<Vec<Arc<PooledTx>>> {
        if self.next == 0 {
            self.follow(engine, 0, Vec::new())?;
        }
        while self.pool.ready_load().txs < self.room && self.next < self.input.len() {
            self.admit(engine)?;
        }
        let taken = self.in_pool(|pool| pool.take(&Batch { max_txs: most, ..Batch::default() }));
        let left = self.pool.len();
        ensure!(!taken.is_empty() || left == 0, "{left} transactions wait in the pool, and none of them is ready");
        Ok(taken)
    }

    /// Admits the next chunk of transactions.
    fn admit(&mut self, engine: &Engine) -> anyhow::Result<()> {
        let range = self.next..self.input.len().min(self.next + CHUNK);
        self.next = range.end;
        let recovered: Vec<Arc<RecoveredTx>> = match self.input {
            Input::Unsigned(txs) => txs[range.clone()].to_vec(),
            Input::Signed(bytes) => {
                self.clock.enter(Stage::Recover);
                let recovered = self.recovery.recover_batch(engine.workers(), Form::Pooled, &bytes[range.clone()]);
                self.clock.leave(Stage::Recover);
                recovered.into_iter().collect::<Result<_, _>>().context("recovering a sender")?
            }
        };
        self.in_pool(|pool| {
            for (index, admission) in range.zip(pool.add_all(recovered, engine.state())?) {
                match admission {
                    Admission::Admitted { tx, removed, .. } => {
                        ensure!(tx.rank() == index as u64 && removed.is_empty(), "the pool evicted a transaction");
                    }
                    Admission::Refused(refusal) => bail!("the pool refused transaction {index} of the load: {refusal}"),
                }
            }
            Ok(())
        })
    }

    /// Reports to the pool the outcome of each transaction that it handed out.
    pub(super) fn settle(&mut self, outcomes: impl IntoIterator<Item = (u64, Settled)>) -> anyhow::Result<()> {
        match &self.in_pool(|pool| pool.settle(outcomes))[..] {
            [] => Ok(()),
            [first, ..] => bail!("the builder left out transaction {} of the load: {:?}", first.tx.rank(), first.cause),
        }
    }

    /// Follows the chain to block `number`, in which `senders` have a transaction.
    pub(super) fn follow(&mut self, engine: &Engine, number: u64, senders: Vec<Address>) -> anyhow::Result<()> {
        let tip = Tip { now: number, fees: self.fees, changed: senders };
        // Every removed transaction is in a block: nothing expires here.
        self.in_pool(|pool| pool.advance(&tip, engine.state()).map(drop))?;
        Ok(())
    }

    fn in_pool<R>(&mut self, work: impl FnOnce(&mut Pool) -> R) -> R {
        let before = self.clock.watched();
        let result = work(&mut self.pool);
        self.spent += self.clock.watched().saturating_sub(before);
        result
    }
}
