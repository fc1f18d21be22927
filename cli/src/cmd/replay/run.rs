//! Execution of one block on one executor, with sequential revm beside it.

use super::{
    args::{HintsKind, ReplayArgs},
    digest::post_state_digest,
    hints::{self, Told},
    rules::Rules,
};
use alloy_consensus::Header;
use alloy_primitives::Bloom;
use anyhow::Context as _;
use phalanx::{
    BlockError, Engine, Executed, Hints, Merkleized, Outcome, RecoveredBlock,
    access::{AccessSets, Salt},
    chain::ChainSpec,
    merkle::{Backend, CacheUse, Memory, ReadUse, Reading, StoreConfig},
    paralyze::{Batch, Layers, ParaLyze, StateKey},
    revm::primitives::{B256, hardfork::SpecId},
};
use phalanx_lab::{
    config::{Artefact, word},
    machine::{clock, pin::Pinned, temporary::Temporary},
    quality::Quality,
    run::engines::{self, Setup},
};
use phalanx_workloads::fixtures::{Alloc, RealBlock, recover_senders};
use std::time::{Duration, Instant};

/// A block that is ready to run, with the result of sequential revm.
pub(crate) struct Case<'a> {
    pub(crate) block: &'a RealBlock,
    pub(crate) spec: SpecId,
    chain: ChainSpec,
    ommers: Vec<Header>,
    oracle: Engine,
    /// True if the recovered senders are the recorded ones; `None` if nothing is signed.
    pub(crate) senders_match: Option<bool>,
    pub(crate) truth: Judged,
}

/// The verdict on a block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Judged {
    Valid(Box<Found>),
    /// Invalid, with the rule that it breaks.
    Invalid(String),
}

/// Result of a valid block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) gas_used: u64,
    pub(crate) receipts_root: Option<B256>,
    pub(crate) logs_bloom: Bloom,
    pub(crate) requests_hash: Option<B256>,
    /// Hash of the block access list, from Amsterdam on.
    pub(crate) access_list_hash: Option<B256>,
    /// The engine's own state root.
    pub(crate) engine_root: B256,
    pub(crate) post: Alloc,
    pub(crate) digest: B256,
}

/// All executions of a block on one executor with one kind of hints.
pub(crate) struct Ran {
    pub(crate) hints: String,
    pub(crate) told: Told,
    pub(crate) judged: Judged,
    /// True if every execution equals sequential revm.
    pub(crate) equals_sequential: bool,
    pub(crate) exec_ms: f64,
    pub(crate) sequential_ms: f64,
    /// Time of execution and root.
    pub(crate) block_ms: f64,
    pub(crate) us_core_per_tx: f64,
    pub(crate) sequential_us_core_per_tx: f64,
    /// Re-executions and escapes of the last execution.
    pub(crate) reexecutions: usize,
    pub(crate) escapes: usize,
    /// True if another executor took over the last execution, or a part of it.
    pub(crate) fallback: bool,
    /// Cores of its workers, if they were pinned.
    pub(crate) cores: Vec<usize>,
    /// Reads of a state on disk in all executions, and lookups of its cache.
    pub(crate) reads: Option<(ReadUse, CacheUse)>,
}

/// State that is kept from block to block.
#[derive(Debug, Default)]
pub(crate) struct Lessons {
    /// Learned templates of the engine.
    learned: Option<ParaLyze>,
    /// Learned templates of predictions that are only measured.
    measured: Option<ParaLyze>,
    pub(crate) quality: Quality,
}

impl<'a> Case<'a> {
    pub(crate) fn new(block: &'a RealBlock) -> anyhow::Result<Self> {
        Self::with_rules(block, Rules::of_block(&block.dir)?.chain)
    }

    /// The block under the rules of `chain`.
    pub(crate) fn with_rules(block: &'a RealBlock, chain: ChainSpec) -> anyhow::Result<Self> {
        let header = &block.header;
        let senders_match = (!block.inputs_only).then(|| {
            let senders = recover_senders(&block.envelopes);
            senders.iter().zip(&block.txs).all(|(sender, tx)| *sender == Some(tx.caller))
        });
        let mut case = Self {
            block,
            spec: chain.spec(header),
            ommers: ommers(block),
            oracle: oracle(&chain, block)?,
            chain,
            senders_match,
            truth: Judged::Invalid("not judged yet".into()),
        };
        // A separate engine: the oracle stays before the block, to be timed.
        let mut once = oracle(&case.chain, block)?;
        let executed = once.execute_block(&payload(block, &case.ommers), Hints::None);
        let executed = merkleized(&once, executed)?;
        case.truth = case.judge(&mut once, executed)?;
        Ok(case)
    }

    /// Runs the block on `setup` with each kind of hints, each time beside sequential revm.
    pub(crate) fn run(
        &mut self,
        setup: Setup,
        pinned: &Pinned,
        args: &ReplayArgs,
        lessons: &mut Lessons,
    ) -> anyhow::Result<Vec<Ran>> {
        let hints = self.hints(args)?;
        hints.into_iter().map(|(name, told)| self.run_with((setup, pinned), args, lessons, name, told)).collect()
    }

    fn run_with(
        &mut self,
        (setup, pinned): (Setup, &Pinned),
        args: &ReplayArgs,
        lessons: &mut Lessons,
        hints: String,
        told: Told,
    ) -> anyhow::Result<Ran> {
        let repeat = args.repeat();
        // The folder of a state on disk goes after the engine.
        let folder = (args.memory != Memory::Resident).then(Temporary::new).transpose();
        let folder = folder.context("making a temporary folder for the state")?;
        let backend = folder.as_ref().map_or(Backend::Mem, |folder| Backend::File(folder.path().into()));
        let store = StoreConfig::new(backend).with_memory(args.memory).with_reading(Reading::Direct);
        let mut engine = setup.chain_on(store, self.chain.clone(), &self.block.prestate, pinned)?;
        engine.set_ancestors(self.block.block_hashes.clone());
        let cores = pinned.confirm(engine.workers())?;
        if let Some(learned) = lessons.learned.take() {
            let cfg = self.chain.cfg(self.spec, self.block.header.timestamp);
            *engine.paralyze() = learned;
            engine.paralyze().set_cfg(cfg.into());
        }
        engine.paralyze().use_layers(args.access);
        let (mut ours, mut sequential) = (Spent::default(), Spent::default());
        let mut equals_sequential = true;
        let mut last = None;
        for _ in 0..repeat {
            let payload = payload(self.block, &self.ommers);
            drop(sequential.on(&mut self.oracle, &payload, Hints::None)?);
            if !args.learn {
                engine.forget();
            }
            let block = ours.on(&mut engine, &payload, told.as_hints())?;
            equals_sequential &= self.is_truth(&block);
            last = Some(block);
        }
        let block = last.ok_or_else(|| anyhow::anyhow!("--repeat is zero"))?;
        let reads = engine.state().reads();
        let stats = block.as_ref().map(|block| block.block().stats().run).unwrap_or_default();
        if args.learn {
            // An invalid block teaches nothing.
            _ = engine.learn(&payload(self.block, &self.ommers));
        }
        let judged = self.judge(&mut engine, block)?;
        if args.learn {
            let unused = ParaLyze::new(Salt::new(0), self.chain.cfg(self.spec, self.block.header.timestamp));
            lessons.learned = Some(core::mem::replace(engine.paralyze(), unused));
        }
        equals_sequential &= judged == self.truth;
        let txs = self.block.txs.len().max(1) as f64;
        Ok(Ran {
            hints,
            told,
            judged,
            equals_sequential,
            exec_ms: millis(median(ours.execution)),
            sequential_ms: millis(median(sequential.execution)),
            block_ms: millis(median(ours.block)),
            us_core_per_tx: median(ours.core) as f64 / 1e3 / txs,
            sequential_us_core_per_tx: median(sequential.core) as f64 / 1e3 / txs,
            reexecutions: stats.reexecutions,
            escapes: stats.escapes,
            fallback: stats.fallback,
            cores,
            reads,
        })
    }

    /// True if an execution equals sequential revm; states are compared by their roots.
    fn is_truth(&self, block: &Result<Merkleized, BlockError>) -> bool {
        match (block, &self.truth) {
            (Ok(merkleized), Judged::Valid(truth)) => {
                let block = merkleized.block();
                block.outcomes() == truth.outcomes
                    && block.gas_used() == truth.gas_used
                    && block.receipts_root() == truth.receipts_root
                    && block.logs_bloom() == truth.logs_bloom
                    && block.requests_hash() == truth.requests_hash
                    && merkleized.state_root() == truth.engine_root
            }
            (Err(error), Judged::Invalid(truth)) => error.to_string() == *truth,
            _ => false,
        }
    }

    /// Commits an executed block and returns its result.
    fn judge(&self, engine: &mut Engine, block: Result<Merkleized, BlockError>) -> anyhow::Result<Judged> {
        let merkleized = match block {
            Ok(merkleized) => merkleized,
            Err(error) => return Ok(Judged::Invalid(error.to_string())),
        };
        let committed = engine.commit(merkleized)?;
        let (engine_root, block) = (committed.state_root, committed.block);
        let (gas_used, receipts_root, logs_bloom) = (block.gas_used(), block.receipts_root(), block.logs_bloom());
        let requests_hash = block.requests_hash();
        let list = block.access_list().filter(|_| self.spec.is_enabled_in(SpecId::AMSTERDAM));
        let access_list_hash = list.map(phalanx::BlockAccessList::hash);
        let (_, outcomes) = block.into_outcomes();
        let post = engines::dump(engine)?;
        let clears_empty = self.spec.is_enabled_in(SpecId::SPURIOUS_DRAGON);
        let digest = post_state_digest(&self.block.prestate, &post, clears_empty);
        Ok(Judged::Valid(Box::new(Found {
            outcomes,
            gas_used,
            receipts_root,
            logs_bloom,
            requests_hash,
            access_list_hash,
            engine_root,
            post,
            digest,
        })))
    }

    fn hints(&mut self, args: &ReplayArgs) -> anyhow::Result<Vec<(String, Told)>> {
        if !args.artefacts.is_empty() {
            return args.artefacts.iter().map(|kind| self.artefact(*kind)).collect();
        }
        let payload = payload(self.block, &self.ommers);
        Ok(match (args.hints, args.access) {
            (Some(HintsKind::List), _) => {
                vec![(HintsKind::List.to_string(), self.access_list(&payload)?.unwrap_or(Told::Predict))]
            }
            (Some(kind), _) => {
                // An invalid block has no true sets.
                let truth = self.oracle.true_sets(&payload);
                let empty = || {
                    let mut sets = AccessSets::new();
                    self.block.txs.iter().for_each(|_| sets.push([]));
                    sets
                };
                hints::make(kind, &truth.unwrap_or_else(|_| empty()), args.seed)
            }
            (None, Layers::Simulation) => vec![(word(Layers::Simulation), Told::Sets(self.simulated()))],
            (None, layers) => vec![(word(layers), Told::Predict)],
        })
    }

    /// Artefact of the block, empty for an invalid block.
    fn artefact(&mut self, kind: Artefact) -> anyhow::Result<(String, Told)> {
        let payload = payload(self.block, &self.ommers);
        let told = match kind {
            Artefact::None => None,
            Artefact::Exceptions => self.oracle.exceptions(&payload).ok().map(Told::Exceptions),
            Artefact::AccessList => self.access_list(&payload)?,
        };
        Ok((word(kind), told.unwrap_or(Told::Predict)))
    }

    /// The block's access list, made once by sequential revm; `None` for an invalid block.
    fn access_list(&self, payload: &RecoveredBlock<'_>) -> anyhow::Result<Option<Told>> {
        // A separate engine: the oracle is timed.
        let mut engine = Setup::ORACLE.listing_chain(self.chain.clone(), &self.block.prestate)?;
        engine.set_ancestors(self.block.block_hashes.clone());
        let executed = engine.execute_block(payload, Hints::None).ok();
        let list = executed.as_ref().and_then(|executed| executed.block().access_list());
        Ok(list.map(|list| Told::AccessList(list.rlp().clone(), list.hash())))
    }

    /// Measures the quality of the predictions for this block.
    pub(crate) fn measure(&mut self, args: &ReplayArgs, lessons: &mut Lessons) -> anyhow::Result<()> {
        let payload = payload(self.block, &self.ommers);
        // An invalid block has no true sets.
        let Ok(truth) = self.oracle.true_sets(&payload) else { return Ok(()) };
        let header = &self.block.header;
        let cfg = self.chain.cfg(self.spec, header.timestamp);
        let env = self.chain.env(header);
        let measured = lessons.measured.get_or_insert_with(|| ParaLyze::new(Salt::new(0), cfg.clone()));
        measured.set_cfg(cfg.into());
        if !args.learn {
            measured.forget();
        }
        let (state, txs) = (self.oracle.state(), &self.block.txs);
        lessons.quality.add(measured, state, &env, txs, &truth);
        if args.learn {
            let truth: Vec<_> = txs.iter().zip(truth.iter()).collect();
            measured.learn(state, &env, &truth);
        }
        Ok(())
    }

    /// Access sets by simulation on the state before the block.
    fn simulated(&self) -> AccessSets<StateKey> {
        let (header, txs) = (&self.block.header, self.block.txs.iter().collect::<Vec<_>>());
        let mut paralyze = ParaLyze::new(Salt::new(0), self.chain.cfg(self.spec, header.timestamp));
        paralyze.simulate_all();
        let mut batch = Batch::default();
        paralyze.analyse(self.oracle.state(), &self.chain.env(header), &txs, &mut batch);
        batch.sets().clone()
    }
}

impl Told {
    fn as_hints(&self) -> Hints<'_> {
        match self {
            Self::Predict => Hints::Predict,
            Self::Nothing => Hints::None,
            Self::Sets(sets) => Hints::Sets(sets),
            Self::Exceptions(bytes) => Hints::Exceptions(bytes),
            Self::AccessList(rlp, hash) => Hints::AccessList { rlp, hash: *hash },
        }
    }
}

/// Stand-ins for the block's ommers. Their headers are not recorded, and their miners are left out of the comparison: one eight
/// blocks back earns its own miner nothing, and the block's miner the reward for it.
pub(crate) fn ommers(block: &RealBlock) -> Vec<Header> {
    let header = &block.header;
    let number = header.number.saturating_sub(8);
    vec![Header { beneficiary: header.beneficiary, number, ..Header::default() }; block.uncles]
}

pub(crate) fn payload<'b>(block: &'b RealBlock, ommers: &'b [Header]) -> RecoveredBlock<'b> {
    RecoveredBlock { header: &block.header, txs: &block.txs, ommers, withdrawals: block.withdrawals.as_deref() }
}

/// An oracle before the block.
fn oracle(chain: &ChainSpec, block: &RealBlock) -> anyhow::Result<Engine> {
    let mut engine = Setup::ORACLE.chain(chain.clone(), &block.prestate)?;
    engine.set_ancestors(block.block_hashes.clone());
    Ok(engine)
}

fn merkleized(
    engine: &Engine,
    executed: Result<Executed, BlockError>,
) -> anyhow::Result<Result<Merkleized, BlockError>> {
    Ok(match executed {
        Ok(executed) => Ok(engine.merkleize(executed)?),
        Err(error) => Err(error),
    })
}

/// Times of the executions of a block.
#[derive(Default)]
struct Spent {
    execution: Vec<Duration>,
    /// Times of execution and root; with an access list the root is computed beside the execution.
    block: Vec<Duration>,
    /// Processor times of the whole process for execution and root, in nanoseconds.
    core: Vec<u64>,
}

impl Spent {
    /// Executes a block on `engine`, up to its root.
    fn on(
        &mut self,
        engine: &mut Engine,
        payload: &RecoveredBlock<'_>,
        hints: Hints<'_>,
    ) -> anyhow::Result<Result<Merkleized, BlockError>> {
        let (start, core) = (Instant::now(), clock::process());
        let executed = engine.execute_block(payload, hints);
        self.execution.push(start.elapsed());
        let block = merkleized(engine, executed)?;
        self.block.push(start.elapsed());
        self.core.push(clock::process().saturating_sub(core));
        Ok(block)
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median<T: Copy + Ord + Default>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
