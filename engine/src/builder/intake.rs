//! Intake of a job: offered candidates with their predictions, before, in and behind the framer. They are analysed as far as
//! the block has room for them.

use crate::model::CandidateTx;
use phalanx_access::{Key as _, Salt};
use phalanx_paraframer::{Framer, FramerConfig};
use phalanx_paralyze::{Batch, Brief, DryRuns, ParaLyze, SenderFilter, Snapshot, Source, StateKey};
use revm::context::{BlockEnv, TxEnv};
use std::collections::VecDeque;

/// Candidates by index. Indices are not reused.
#[derive(Debug)]
pub(super) struct Intake {
    salt: Salt,
    /// Offered candidates that are not analysed, and have no index yet.
    offered: VecDeque<CandidateTx>,
    candidates: Vec<CandidateTx>,
    /// Short form of each candidate.
    briefs: Vec<Brief>,
    /// Batch of predictions and index in it, by candidate; `None` for candidates without prediction.
    predicted: Vec<Option<(u32, u32)>>,
    batches: Vec<Batch>,
    /// Frame of each candidate that has left the framer.
    frames: Vec<u32>,
    framer: Framer<u32>,
    /// Number of candidates that have entered the framer.
    pushed: usize,
    /// Candidates that have left the framer, frame by frame.
    ready: VecDeque<u32>,
    next_frame: u32,
    /// Sum of the gas limits of analysed candidates that have not been popped.
    held_gas: u64,
}

/// Bounds on an analysis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room<'a> {
    /// Gas that the block has left.
    pub(super) gas: u64,
    /// Gas of dry runs.
    pub(super) dry_gas: u64,
    /// Candidates that have left the framer and not run, besides the intake's.
    pub(super) requeued: &'a VecDeque<u32>,
}

impl Intake {
    pub(super) fn new(salt: Salt) -> Self {
        Self {
            salt,
            offered: VecDeque::new(),
            candidates: Vec::new(),
            briefs: Vec::new(),
            predicted: Vec::new(),
            batches: Vec::new(),
            frames: Vec::new(),
            framer: Framer::new(FramerConfig::default()),
            pushed: 0,
            ready: VecDeque::new(),
            next_frame: 0,
            held_gas: 0,
        }
    }

    pub(super) fn candidates(&self) -> &[CandidateTx] {
        &self.candidates
    }

    pub(super) const fn len(&self) -> usize {
        self.candidates.len()
    }

    pub(super) fn tx(&self, index: u32) -> &TxEnv {
        self.candidates[index as usize].tx.env()
    }

    /// Adds a candidate that is neither predicted nor framed. Only while no candidate waits for the framer.
    pub(super) fn add(&mut self, candidate: CandidateTx) -> u32 {
        self.briefs.push(Brief::of(candidate.tx.env()));
        self.candidates.push(candidate);
        self.predicted.push(None);
        self.pushed = self.candidates.len();
        self.candidates.len() as u32 - 1
    }

    /// Offers candidates, which are analysed later.
    pub(super) fn offer(&mut self, candidates: impl IntoIterator<Item = CandidateTx>) {
        let mut candidates: Vec<CandidateTx> = candidates.into_iter().collect();
        candidates.sort_by_key(|candidate| candidate.rank);
        self.offered.extend(candidates);
    }

    /// Candidates that are offered and not analysed.
    pub(super) const fn offered(&self) -> &VecDeque<CandidateTx> {
        &self.offered
    }

    /// Gives the first offered candidate an index without analysing it, because it has no room.
    pub(super) fn turn_away(&mut self) -> Option<u32> {
        let candidate = self.offered.pop_front()?;
        Some(self.add(candidate))
    }

    /// Number of offered candidates that fit into `gas` beside those that are analysed already, at least one if none is.
    pub(super) fn fitting(&self, gas: u64) -> usize {
        let mut sum = self.held_gas;
        let fits = |candidate: &&CandidateTx| {
            let is_first = sum == 0;
            sum = sum.saturating_add(candidate.tx.env().gas_limit);
            is_first || sum <= gas
        };
        self.offered.iter().take_while(fits).count()
    }

    /// Takes offered candidates as far as they fit, and predicts them, in the current rayon pool. Returns the gas that their
    /// dry runs may have used, by gas limits.
    pub(super) fn analyse<S: Snapshot>(
        &mut self,
        paralyze: &mut ParaLyze,
        snapshot: &S,
        env: &BlockEnv,
        room: Room<'_>,
    ) -> u64 {
        let start = self.candidates.len();
        let count = self.fitting(room.gas);
        let new: Vec<CandidateTx> = self.offered.drain(..count).collect();
        if new.is_empty() {
            return 0;
        }
        self.candidates.extend(new);
        let (old, new) = self.candidates.split_at(start);
        let txs: Vec<&TxEnv> = new.iter().map(|candidate| candidate.tx.env()).collect();
        self.held_gas = txs.iter().fold(self.held_gas, |sum, tx| sum.saturating_add(tx.gas_limit));
        let (ready, briefs) = (&self.ready, &self.briefs);
        let earlier = |filter: &SenderFilter| {
            let earlier = ready.iter().chain(room.requeued).copied();
            let mut earlier: Vec<u32> = earlier.filter(|index| filter.passes(briefs[*index as usize])).collect();
            // A sender's own are in order by index.
            earlier.sort_unstable();
            earlier.into_iter().map(|index| old[index as usize].tx.env()).collect()
        };
        let dry = DryRuns { max_share: f64::INFINITY, max_gas: room.dry_gas, earlier: &earlier, is_free: true };
        let mut batch = Batch::new();
        paralyze.analyse_bounded(snapshot, env, &txs, &dry, &mut batch);
        self.briefs.extend(paralyze.briefs());
        let ran = (0..txs.len()).filter(|index| batch.source(*index) == Source::Simulated);
        let ran = ran.fold(0u64, |sum, index| sum.saturating_add(txs[index].gas_limit));
        let number = self.batches.len() as u32;
        self.predicted.extend((0..txs.len() as u32).map(|index| Some((number, index))));
        self.batches.push(batch);
        ran
    }

    /// Keys of the candidates that were analysed last.
    pub(super) fn last_analysed(&self) -> impl Iterator<Item = &StateKey> {
        self.batches.last().into_iter().flat_map(|batch| batch.sets().entries()).map(|(key, _)| key)
    }

    /// Pushes the analysed candidates into the framer.
    pub(super) fn frame(&mut self) {
        let Self { salt, candidates, predicted, batches, frames, framer, pushed, ready, next_frame, .. } = self;
        frames.resize(candidates.len(), 0);
        for index in *pushed..candidates.len() {
            let Some((batch, at)) = predicted[index] else { continue };
            let TxEnv { caller, gas_limit, .. } = candidates[index].tx.env();
            let sender = StateKey::Basic(*caller).digest(salt);
            let keys = batches[batch as usize].digests(at as usize);
            framer.push(index as u32, sender, *gas_limit, keys, &mut |frame| {
                emit(frame.txs, frames, ready, next_frame);
            });
        }
        *pushed = candidates.len();
    }

    /// Flushes the framer.
    pub(super) fn flush(&mut self) {
        let Self { frames, framer, ready, next_frame, .. } = self;
        framer.flush(&mut |frame| emit(frame.txs, frames, ready, next_frame));
    }

    /// Next candidate in framed order.
    pub(super) fn peek(&self) -> Option<u32> {
        self.ready.front().copied()
    }

    pub(super) fn pop(&mut self) {
        if let Some(index) = self.ready.pop_front() {
            self.held_gas = self.held_gas.saturating_sub(self.tx(index).gas_limit);
        }
    }

    /// Number of framed candidates.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Predicted access set of a candidate, with its digests.
    pub(super) fn prediction(&self, index: u32) -> Option<(&Batch, usize)> {
        let (batch, at) = self.predicted[index as usize]?;
        Some((&self.batches[batch as usize], at as usize))
    }

    pub(super) fn source(&self, index: u32) -> Option<Source> {
        let (batch, at) = self.predicted[index as usize]?;
        Some(self.batches[batch as usize].source(at as usize))
    }

    /// Frame in which a candidate left the framer.
    pub(super) fn frame_of(&self, index: u32) -> u32 {
        self.frames[index as usize]
    }

    /// Number of frames that have left the framer.
    pub(super) const fn frames(&self) -> usize {
        self.next_frame as usize
    }

    pub(super) fn into_candidates(self) -> Vec<CandidateTx> {
        let Self { mut candidates, offered, .. } = self;
        candidates.extend(offered);
        candidates
    }
}

fn emit(txs: &[u32], frames: &mut [u32], ready: &mut VecDeque<u32>, next_frame: &mut u32) {
    for tx in txs {
        frames[*tx as usize] = *next_frame;
    }
    ready.extend(txs);
    *next_frame += 1;
}
