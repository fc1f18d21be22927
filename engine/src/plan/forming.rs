//! Forming of blocks ahead of their assembly: transactions are analysed, framed and cut into blocks before [`super::assembly`] needs them.

use super::context::{PlanContext, join_if};
use crate::model::{Observer, Order, Stage, observe, observe_fork};
use phalanx_access::{Key as _, Salt};
use phalanx_memory::{BufferPool, Pooled, Reuse};
use phalanx_paraframer::{BlockFormer, BlockLimits, Cause, Formed, Frame, Framer, FramerConfig};
use phalanx_paralyze::{BATCH_LEN, Batch, Brief, DryRuns, ParaLyze, SenderFilter, Source, StateKey};
use revm::context::{BlockEnv, TxEnv};
use std::collections::VecDeque;

/// Number of transactions analysed at a time.
pub(super) const CHUNK: usize = 16 * BATCH_LEN;

/// Maximum number of earlier transactions among which those of a sender are searched that have not run yet.
const MAX_EARLIER: usize = 64 * CHUNK;

/// Maximum number of chunks whose memory is kept.
const KEPT_CHUNKS: usize = 64;

/// The predictions of a chunk, a batch for each [`BATCH_LEN`] transactions.
#[derive(Debug, Default)]
pub(super) struct Predictions(pub(super) Vec<Batch>);

impl Reuse for Predictions {
    /// Does nothing: the next analysis overwrites the batches.
    fn clear(&mut self) {}
}

/// An analysed chunk.
pub(super) type Chunk = Pooled<Predictions>;

/// Assembled blocks, and the stages that make more of them.
#[derive(Debug)]
pub(super) struct FormingQueue<'t> {
    analysis: Analysis<'t>,
    framing: Framing<'t>,
    /// Analysed chunk that is not framed yet.
    ready: Option<Chunk>,
}

impl<'t> FormingQueue<'t> {
    pub(super) fn new(txs: &'t [TxEnv], ordering: Order, limits: BlockLimits, paralyze: ParaLyze) -> Self {
        let framing = Framing {
            txs,
            ordering,
            salt: *paralyze.salt(),
            framer: Framer::new(FramerConfig::default()),
            former: BlockFormer::new(limits),
            framed: 0,
            frames: 0,
            formed: VecDeque::new(),
            rejected: Vec::new(),
            chunks: Vec::new(),
        };
        let analysis = Analysis {
            txs,
            paralyze,
            next: 0,
            memory: BufferPool::new(KEPT_CHUNKS),
            lasts: false,
            briefs: VecDeque::new(),
        };
        Self { analysis, framing, ready: None }
    }

    /// Notes that the transactions before this index have run.
    pub(super) fn note_in_flight(&mut self, first: usize) {
        self.analysis.forget_before(first);
    }

    pub(super) const fn paralyze(&mut self) -> &mut ParaLyze {
        &mut self.analysis.paralyze
    }

    /// Transactions whose gas limit exceeds a block's, by index.
    pub(super) fn rejected(&self) -> &[u32] {
        &self.framing.rejected
    }

    /// Number of framed transactions, and of their frames.
    pub(super) const fn framed(&self) -> (usize, usize) {
        (self.framing.framed, self.framing.frames)
    }

    fn is_empty(&self) -> bool {
        self.framing.formed.is_empty()
    }

    /// Number of transactions of each assembled block.
    pub(super) fn formed(&self) -> impl ExactSizeIterator<Item = usize> {
        self.framing.formed.iter().map(|(order, _)| order.len())
    }

    /// Next assembled block: its transactions, and the number of frames with a member.
    pub(super) fn take(&mut self) -> Option<(Vec<u32>, usize)> {
        self.framing.formed.pop_front()
    }

    /// Chunks framed since the last call, in order.
    pub(super) fn take_chunks(&mut self) -> Vec<Chunk> {
        core::mem::take(&mut self.framing.chunks)
    }

    /// Assembles a block, unless one exists or no transactions are left.
    pub(super) fn fill(&mut self, ctx: PlanContext<'_>, env: &BlockEnv) {
        while self.is_empty()
            && let Some(chunk) = self.ready.take().or_else(|| self.analysis.next(ctx, env))
        {
            self.framing.next(ctx.observer, chunk);
        }
    }

    /// Assembles the block after the next one, beside the assembly of the next. It stops at the first chunk with
    /// predictions that do not last: they would be made from an older state than necessary. A chunk is framed while the
    /// next one is analysed, if `share` is set.
    pub(super) fn fill_ahead(&mut self, ctx: PlanContext<'_>, env: &BlockEnv, share: bool) {
        while self.is_empty()
            && self.analysis.lasts
            && let Some(chunk) = self.ready.take().or_else(|| self.analysis.next(ctx, env))
        {
            let Self { analysis, framing, ready } = self;
            let frame = || framing.next(ctx.observer, chunk);
            ((), *ready) = join_if(share, frame, || analysis.lasts.then(|| analysis.next(ctx, env)).flatten());
        }
    }
}

/// ParaLyze, chunk by chunk.
#[derive(Debug)]
struct Analysis<'t> {
    txs: &'t [TxEnv],
    paralyze: ParaLyze,
    /// Index of the first transaction that is not analysed.
    next: usize,
    /// Short forms of the last ones before it, as far as they may be in flight.
    briefs: VecDeque<Brief>,
    memory: BufferPool<Predictions>,
    /// True if all predictions of the last chunk last.
    lasts: bool,
}

impl Analysis<'_> {
    /// Drops the short forms of transactions before this index.
    fn forget_before(&mut self, index: usize) {
        let first = self.next - self.briefs.len();
        self.briefs.drain(..index.saturating_sub(first).min(self.briefs.len()));
    }

    fn next(&mut self, ctx: PlanContext<'_>, env: &BlockEnv) -> Option<Chunk> {
        let end = self.txs.len().min(self.next + CHUNK);
        let txs: Vec<&TxEnv> = self.txs[self.next..end].iter().collect();
        if txs.is_empty() {
            return None;
        }
        let (before, briefs) = (&self.txs[self.next - self.briefs.len()..self.next], &self.briefs);
        let earlier = |filter: &SenderFilter| {
            let passed = before.iter().zip(briefs).filter(|(_, brief)| filter.passes(**brief));
            passed.map(|(tx, _)| tx).collect()
        };
        self.next = end;
        let mut chunk = self.memory.take();
        observe(ctx.observer, Stage::Analyse, || {
            let dry = DryRuns { max_share: f64::INFINITY, max_gas: u64::MAX, earlier: &earlier, is_free: true };
            let analyse = || self.paralyze.analyse_batches(&ctx.state, env, &txs, Some(&dry), &mut chunk.0);
            observe_fork(ctx.observer, Stage::Analyse, txs.len().div_ceil(BATCH_LEN), || {
                ctx.workers.install(analyse);
            });
        });
        self.briefs.extend(self.paralyze.briefs());
        self.forget_before(self.next.saturating_sub(MAX_EARLIER));
        self.lasts = chunk.0.iter().all(|batch| (0..batch.len()).all(|index| lasts(batch.source(index))));
        Some(chunk)
    }
}

/// True if a prediction is as good a block later: it depends on no state but the code of called accounts.
const fn lasts(source: Source) -> bool {
    matches!(source, Source::Native | Source::Declared | Source::Erc20)
}

/// Framing: from chunks to frames to assembled blocks.
#[derive(Debug)]
struct Framing<'t> {
    txs: &'t [TxEnv],
    ordering: Order,
    salt: Salt,
    framer: Framer<u32>,
    former: BlockFormer<u32>,
    /// Index of the first transaction that is not framed.
    framed: usize,
    frames: usize,
    formed: VecDeque<(Vec<u32>, usize)>,
    rejected: Vec<u32>,
    chunks: Vec<Chunk>,
}

impl Framing<'_> {
    fn next(&mut self, observer: &dyn Observer, chunk: Chunk) {
        observe(observer, Stage::Frame, || self.frame(&chunk.0));
        self.chunks.push(chunk);
    }

    fn frame(&mut self, chunk: &[Batch]) {
        let Self { txs, ordering, former, formed, rejected, frames, .. } = self;
        let txs = *txs;
        let end = self.framed + chunk.iter().map(Batch::len).sum::<usize>();
        let counted = usize::from(*ordering == Order::Free);
        let mut form = |former: &mut BlockFormer<u32>, frame: Frame<'_, u32>| {
            *frames += counted;
            former.push(&frame, |tx| txs[*tx as usize].gas_limit, &mut |out| collect(out, formed, rejected));
        };
        match *ordering {
            Order::Free => {
                for (index, tx) in (self.framed..end).enumerate() {
                    let TxEnv { caller, gas_limit, .. } = txs[tx];
                    let sender = StateKey::Basic(caller).digest(&self.salt);
                    let keys = chunk[index / BATCH_LEN].digests(index % BATCH_LEN);
                    self.framer.push(tx as u32, sender, gas_limit, keys, &mut |frame| form(former, frame));
                }
                if end == txs.len() {
                    self.framer.flush(&mut |frame| form(former, frame));
                }
            }
            Order::Given => {
                let txs: Vec<u32> = (self.framed as u32..end as u32).collect();
                form(former, Frame { txs: &txs, gas: 0, cause: Cause::Flushed });
            }
        }
        if end == txs.len() {
            former.flush(&mut |out| collect(out, formed, rejected));
        }
        self.framed = end;
    }
}

fn collect(out: Formed<'_, u32>, formed: &mut VecDeque<(Vec<u32>, usize)>, rejected: &mut Vec<u32>) {
    match out {
        Formed::Block(block) => formed.push_back((block.txs.to_vec(), block.frames)),
        Formed::Rejected(too_large) => rejected.push(too_large.tx),
    }
}
