//! Intake of a job: offered candidates with their predictions, before, in and behind the framer.

use crate::model::Candidate;
use phalanx_access::{Key as _, Salt};
use phalanx_paraframer::{Framer, FramerConfig};
use phalanx_paralyze::{Batch, ParaLyze, Snapshot, Source, StateKey};
use revm::context::{BlockEnv, TxEnv};
use std::collections::VecDeque;

/// Candidates by index. Indices are not reused.
#[derive(Debug)]
pub(super) struct Intake {
    salt: Salt,
    candidates: Vec<Candidate>,
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
}

impl Intake {
    pub(super) fn new(salt: Salt) -> Self {
        Self {
            salt,
            candidates: Vec::new(),
            predicted: Vec::new(),
            batches: Vec::new(),
            frames: Vec::new(),
            framer: Framer::new(FramerConfig::default()),
            pushed: 0,
            ready: VecDeque::new(),
            next_frame: 0,
        }
    }

    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    pub(super) const fn len(&self) -> usize {
        self.candidates.len()
    }

    pub(super) fn tx(&self, index: u32) -> &TxEnv {
        self.candidates[index as usize].tx.env()
    }

    /// Adds a candidate that is neither predicted nor framed. Only while no candidate waits for the framer.
    pub(super) fn add(&mut self, candidate: Candidate) -> u32 {
        self.candidates.push(candidate);
        self.predicted.push(None);
        self.pushed = self.candidates.len();
        self.candidates.len() as u32 - 1
    }

    /// Adds candidates and predicts them, in the current rayon pool.
    pub(super) fn analyse<S: Snapshot>(
        &mut self,
        paralyze: &mut ParaLyze,
        snapshot: &S,
        env: &BlockEnv,
        candidates: Vec<Candidate>,
    ) {
        let start = self.candidates.len();
        self.candidates.extend(candidates);
        let new = &mut self.candidates[start..];
        if new.is_empty() {
            return;
        }
        new.sort_by_key(|candidate| candidate.rank);
        let txs: Vec<&TxEnv> = new.iter().map(|candidate| candidate.tx.env()).collect();
        let mut batch = Batch::new();
        paralyze.analyse(snapshot, env, &txs, &mut batch);
        let number = self.batches.len() as u32;
        self.predicted.extend((0..txs.len() as u32).map(|index| Some((number, index))));
        self.batches.push(batch);
    }

    /// Pushes the analysed candidates into the framer.
    pub(super) fn frame(&mut self) {
        let Self { salt, candidates, predicted, batches, frames, framer, pushed, ready, next_frame } = self;
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
        self.ready.pop_front();
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

    pub(super) fn into_candidates(self) -> Vec<Candidate> {
        self.candidates
    }
}

fn emit(txs: &[u32], frames: &mut [u32], ready: &mut VecDeque<u32>, next_frame: &mut u32) {
    for tx in txs {
        frames[*tx as usize] = *next_frame;
    }
    ready.extend(txs);
    *next_frame += 1;
}
