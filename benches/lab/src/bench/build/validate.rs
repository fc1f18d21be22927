//! Validators: the built blocks on fresh engines, and on sequential revm.

use super::{chain::Chain, produce::Made};
use crate::{
    config::Store,
    machine::{clock::StageClock, host, pin::Pinned},
    quality::Quality,
    report::text,
    run::{
        drive::{self, Timed, Timer},
        trace::BlockTrace,
    },
    ui::Ui,
};
use anyhow::Context as _;
use phalanx::{
    BlockError, Executed, Executor, Hints, RecoveredBlock, WriteHandle,
    access::Salt,
    merkle::Memory,
    paralyze::ParaLyze,
    revm::{context::TxEnv, primitives::B256},
};

/// Data that a validator gets beside the blocks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given<'a> {
    /// No data: the validator predicts.
    Nothing,
    /// Sets of the transactions that no rule predicts, block by block.
    Exceptions(&'a [Vec<u8>]),
    /// The blocks' access lists, which they commit to.
    List,
    /// No data: the validator runs stock revm.
    Sequential,
}

impl Given<'_> {
    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "given-none",
            Self::Exceptions(_) => "given-exceptions",
            Self::List => "given-list",
            Self::Sequential => "sequential",
        }
    }

    const fn executor(self) -> Executor {
        match self {
            Self::Sequential => Executor::Sequential,
            _ => Executor::Dag,
        }
    }

    /// Hints for block `at`, which is `made`. A block without the access list that it needs is refused for an empty one.
    fn hints<'h>(&'h self, at: usize, made: &'h Made) -> Hints<'h> {
        match self {
            Self::Nothing => Hints::Predict,
            Self::Exceptions(exceptions) => exceptions.get(at).map_or(Hints::Predict, |bytes| Hints::Exceptions(bytes)),
            Self::List => match &made.list {
                Some((rlp, hash)) => Hints::AccessList { rlp, hash: *hash },
                None => Hints::AccessList { rlp: &[], hash: B256::ZERO },
            },
            Self::Sequential => Hints::None,
        }
    }
}

/// Transactions of a block with known senders, as from a pool.
fn body(made: &Made, txs: &[TxEnv]) -> Vec<TxEnv> {
    made.order.iter().map(|tx| txs[*tx as usize].clone()).collect()
}

const fn payload<'p>(made: &'p Made, txs: &'p [TxEnv]) -> RecoveredBlock<'p> {
    RecoveredBlock { header: &made.header, txs, ommers: &[], withdrawals: None }
}

/// Results of sequential revm on the blocks.
pub(super) struct Witness {
    /// Traces with access lists.
    pub(super) truth: Vec<BlockTrace>,
    /// Exceptions of each block.
    pub(super) exceptions: Vec<Vec<u8>>,
    /// Quality of the predictions, if it is measured.
    pub(super) quality: Quality,
}

/// Executes the blocks on sequential revm outside all timers; the inner error says why a block is invalid.
pub(super) fn witness(
    chain: &Chain<'_>,
    blocks: &[Made],
    txs: &[TxEnv],
    measures: bool,
    ui: &Ui,
) -> anyhow::Result<Result<Witness, String>> {
    let bar = ui.bar("executing on sequential revm", blocks.len() as u64);
    let anywhere = Pinned::default();
    let (_place, mut engine) =
        chain.engine((Executor::Sequential, 1, true), &Store::Mem, &StageClock::new(), &anywhere, ui)?;
    let (mut timed, mut exceptions) = (Timed::new("sequential".into(), 1), Vec::new());
    let (mut quality, mut measured) = (Quality::default(), None);
    for made in blocks {
        let body = body(made, txs);
        let payload = payload(made, &body);
        // An invalid block has no true sets.
        if measures && let Ok(truth) = engine.true_sets(&payload) {
            let cfg = chain.rules.cfg(chain.spec, made.header.timestamp);
            let paralyze = measured.get_or_insert_with(|| ParaLyze::new(Salt::new(0), cfg));
            quality.add(paralyze, engine.state(), &chain.rules.env(&made.header), &body, &truth);
        }
        let executed = engine.exceptions(&payload).and_then(|bytes| {
            exceptions.push(bytes);
            engine.execute_block(&payload, Hints::None)
        });
        let executed = match claimed(made, executed)? {
            Ok(executed) => executed,
            Err(why) => return Ok(Err(why)),
        };
        let merkleized = engine.merkleize(executed)?;
        let committed = engine.commit(merkleized)?;
        timed.keep(&engine, committed.block, committed.state_root);
        timed.name_last(&made.order);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Ok(Witness { truth: timed.blocks, exceptions, quality }))
}

/// Compares a block with its header; the inner error says how it differs, or why it is invalid.
fn claimed(made: &Made, executed: Result<Executed, BlockError>) -> anyhow::Result<Result<Executed, String>> {
    let number = made.header.number;
    let executed = match executed {
        Ok(executed) => executed,
        Err(BlockError::Engine(error)) => return Err(error).with_context(|| format!("executing block {number}")),
        Err(invalid) => return Ok(Err(format!("block {number} is not valid: {invalid}"))),
    };
    let (block, header) = (executed.block(), &made.header);
    let ended = (Some(block.gas_used()), block.receipts_root(), Some(block.logs_bloom()), block.requests_hash());
    let says = (Some(header.gas_used), Some(header.receipts_root), Some(header.logs_bloom), header.requests_hash);
    Ok(if ended == says {
        Ok(executed)
    } else {
        Err(format!("block {number} ends in {ended:?}, its header says {says:?}"))
    })
}

/// Validates the blocks on a fresh engine.
pub(super) fn run(
    chain: &Chain<'_>,
    blocks: &[Made],
    txs: &[TxEnv],
    given: Given<'_>,
    threads: usize,
    store: &Store,
    ui: &Ui,
) -> anyhow::Result<Timed> {
    let clock = StageClock::new();
    let pinned = chain.confine(threads)?;
    let (place, mut engine) = chain.engine((given.executor(), threads, false), store, &clock, &pinned, ui)?;
    let bodies: Vec<Vec<TxEnv>> = blocks.iter().map(|made| body(made, txs)).collect();
    let bar = ui.bar(&format!("{} on {}", given.name(), text::threads(threads)), txs.len() as u64);
    let mut timed = Timed::new(given.name().into(), threads);
    timed.input = bodies.iter().map(Vec::len).sum();
    let mut writes: Vec<WriteHandle> = Vec::new();
    let timer = Timer::start(&clock, &engine);
    let mut refused = None;
    for (at, (made, body)) in blocks.iter().zip(&bodies).enumerate() {
        if ui.stopped() {
            timed.interrupted = true;
            break;
        }
        let began = timer.elapsed();
        // A validator has the next block before it has executed this one.
        if let (Some(made), Some(body)) = (blocks.get(at + 1), bodies.get(at + 1)) {
            engine.announce_block(&payload(made, body), given.hints(at + 1, made));
        }
        let executed = engine.execute_block(&payload(made, body), given.hints(at, made));
        let executed = match claimed(made, executed)? {
            Ok(executed) => executed,
            Err(why) => {
                refused = Some(why);
                break;
            }
        };
        let merkleized = engine.merkleize(executed)?;
        let committed = engine.commit(merkleized)?;
        writes.push(committed.write);
        let ended = timer.elapsed();
        timed.latencies.push((ended - began).as_secs_f64() * 1e3);
        timed.commits.push(ended.as_secs_f64());
        timed.keep(&engine, committed.block, committed.state_root);
        timed.name_last(&made.order);
        bar.inc(body.len() as u64);
    }
    writes.into_iter().try_for_each(WriteHandle::wait).context("writing blocks")?;
    timer.stop(&mut timed, &engine);
    timed.pinned = pinned.confirm(engine.workers())?;
    bar.finish_and_clear();
    timed.is_sampled = chain.memory() != Memory::Resident;
    timed.check = match refused {
        Some(why) => Err(why),
        None => drive::check(chain.workload, chain.memory(), &engine, txs, &timed),
    };
    drop(engine);
    timed.db_bytes = place.store.path().map_or(0, host::size_of);
    Ok(timed)
}
