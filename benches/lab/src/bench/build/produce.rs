//! The producer: bytes, pool, builder, sealed and committed blocks.

use super::{
    chain::Chain,
    intake::{Input, Intake},
};
use crate::{
    config::Store,
    machine::{clock::StageClock, host},
    run::drive::{self, Setup, Timed, Timer},
    ui::Ui,
};
use alloy_consensus::Header;
use anyhow::{Context as _, ensure};
use phalanx::{
    Budget, Builder, Built, CandidateTx, Dropped, Executor, Reason, Target, WriteHandle,
    merkle::Memory,
    pool::{Fairness, Settled},
    revm::primitives::{B256, Bytes},
};

/// A built block.
#[derive(Debug, PartialEq)]
pub(super) struct Made {
    pub(super) header: Header,
    /// Transactions in final order, by their index in the load.
    pub(super) order: Vec<u32>,
    /// Access list and its hash, if the block has one.
    pub(super) list: Option<(Bytes, B256)>,
}

/// All blocks, with their measurement.
pub(super) struct Produced {
    pub(super) timed: Timed,
    pub(super) blocks: Vec<Made>,
    pub(super) fairness: Fairness,
}

/// Builds blocks until every transaction of the load is in one.
pub(super) fn run(
    chain: &Chain<'_>,
    setup: &Setup<'_>,
    input: &Input,
    lists: bool,
    store: &Store,
    ui: &Ui,
) -> anyhow::Result<Produced> {
    let clock = StageClock::new();
    let (name, what) = match lists {
        false => ("build", "building"),
        true => ("build-list", "building with access lists"),
    };
    let pinned = chain.confine(setup.threads)?;
    let (place, mut engine) = chain.engine((Executor::Dag, setup.threads, lists), store, &clock, &pinned, ui)?;
    let bar = ui.bar(what, setup.txs.len() as u64);
    let mut timed = Timed::new(name.into(), setup.threads);
    timed.input = setup.txs.len();
    let mut blocks: Vec<Made> = Vec::new();
    let mut writes: Vec<WriteHandle> = Vec::new();
    let timer = Timer::start(&clock, &engine);
    let mut builder = Builder::new(&engine);
    let mut intake = Intake::new(chain, input, 2 * setup.config.load.block_txs, &clock);
    let mut frames = 0;
    let mut drive = || -> anyhow::Result<()> {
        loop {
            if ui.stopped() {
                timed.interrupted = true;
                return Ok(());
            }
            let began = timer.elapsed();
            let taken = intake.take(&engine, setup.config.load.block_txs)?;
            if taken.is_empty() {
                return Ok(());
            }
            let number = blocks.len() as u64 + 1;
            let target = Target::Whole(Box::new(chain.template(number)));
            let budget = Budget { txs: setup.config.load.block_txs as u64, ..Budget::default() };
            let mut job = builder.open(&mut engine, target, budget, [])?;
            job.extend(taken.iter().map(|tx| CandidateTx { tx: tx.recovered().clone(), rank: tx.rank() }), &|| false)?;
            let Built { executed, txs, header, dropped, waiting, failure } = job.finish();
            if let Some(failure) = failure {
                return Err(failure).context("sealing a block");
            }
            ensure!(!txs.is_empty(), "none of {} ready transactions fits into a block", taken.len());
            let header = header.context("a whole block without a header")?;
            let order: Vec<u32> = txs.iter().map(|candidate| candidate.rank as u32).collect();
            let senders = txs.iter().map(|candidate| candidate.tx.env().caller).collect();
            let included = txs.iter().map(|candidate| (candidate.rank, Settled::Included));
            let left = waiting.iter().map(|candidate| (candidate.rank, Settled::Returned));
            let dropped = dropped.into_iter().map(|Dropped { candidate, reason }| match reason {
                Reason::Invalid(reason) => (candidate.rank, Settled::Invalid(reason)),
                _ => (candidate.rank, Settled::Returned),
            });
            intake.settle(included.chain(left).chain(dropped))?;

            let list = executed.block().access_list().map(|list| (list.rlp().clone(), list.hash()));
            let merkleized = engine.merkleize(executed)?;
            let committed = engine.commit(merkleized)?;
            writes.push(committed.write);
            intake.follow(&engine, number, senders)?;

            let ended = timer.elapsed();
            timed.latencies.push((ended - began).as_secs_f64() * 1e3);
            timed.commits.push(ended.as_secs_f64());
            bar.inc(order.len() as u64);
            frames += committed.block.stats().frames;
            timed.keep(&engine, committed.block, committed.state_root);
            timed.name_last(&order);
            blocks.push(Made { header, order, list });
        }
    };
    let driven = drive();
    writes.into_iter().try_for_each(WriteHandle::wait).context("writing blocks")?;
    driven?;

    timed.pool_ns = intake.spent();
    timer.stop(&mut timed, &engine);
    timed.pinned = pinned.confirm(engine.workers())?;
    bar.finish_and_clear();
    let placed: usize = blocks.iter().map(|block| block.order.len()).sum();
    timed.frames_tlp = (frames > 0).then(|| placed as f64 / frames as f64);
    let fairness = Fairness::measure(blocks.iter().map(|block| block.order.iter().copied()));
    timed.is_sampled = chain.memory() != Memory::Resident;
    timed.check = drive::check(chain.workload, chain.memory(), &engine, setup.txs, &timed);
    drop(engine);
    timed.db_bytes = place.store.path().map_or(0, host::size_of);
    Ok(Produced { timed, blocks, fairness })
}

/// True if both are the same blocks apart from access lists.
pub(super) fn same_blocks(one: &[Made], other: &[Made]) -> bool {
    let bare = |blocks: &[Made]| -> Vec<(Header, Vec<u32>)> {
        blocks.iter().map(|made| (made.header.clone(), made.order.clone())).collect()
    };
    bare(one) == bare(other)
}
