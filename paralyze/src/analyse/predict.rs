//! Predicts a batch: by rules and templates, then after learning, then by simulation. Chunks run in parallel.

use super::{
    brief::Brief,
    chunk::{BATCH_LEN, Chunk, Pending, Rest, Rule},
    doubt::{DryRuns, doubt},
    paralyze::ParaLyze,
};
use crate::{
    batch::{Batch, Source},
    declared,
    key::StateKey,
    native,
    simulate::Simulator,
    snapshot::Snapshot,
    template::{Evaluator, Span},
};
use phalanx_access::Access;
use rayon::prelude::*;
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::TxKind,
};

impl ParaLyze {
    /// Predicts the accesses of each of `txs`, as if it ran on `snapshot` in a block like `env`, and appends the sets to
    /// `batch`. Runs in the current rayon pool.
    ///
    /// Learned layouts and templates depend on the order of `txs` and not on threads.
    pub fn analyse<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], batch: &mut Batch) {
        self.analyse_within(snapshot, env, txs, f64::INFINITY, batch);
    }

    /// Predicts like [`Self::analyse`], within bounds on dry runs. Returns false if they are declined.
    pub fn analyse_bounded<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        dry: &DryRuns<'_>,
        batch: &mut Batch,
    ) -> bool {
        self.analyse_into(snapshot, env, txs, dry.max_share, Some(dry), batch)
    }

    /// Predicts like [`Self::analyse`], into one batch per [`BATCH_LEN`] transactions, so that nothing is copied, and within
    /// the bounds of `dry` if there are any. Reuses the
    /// memory of the batches in `out`.
    pub fn analyse_batches<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        dry: Option<&DryRuns<'_>>,
        out: &mut Vec<Batch>,
    ) {
        let mut chunks = core::mem::take(&mut self.chunks);
        chunks.resize_with(txs.len().div_ceil(BATCH_LEN), Chunk::default);
        for (chunk, spare) in chunks.iter_mut().zip(out.drain(..)) {
            chunk.batch = spare;
        }
        self.analyse_all(snapshot, env, txs, f64::INFINITY, dry, &mut chunks);
        out.extend(chunks.iter_mut().map(|chunk| core::mem::take(&mut chunk.batch)));
        self.chunks = chunks;
    }

    /// Predicts like [`Self::analyse`], if dry runs cost less than `max_share` of the execution of `txs`. Otherwise returns false
    /// and leaves `batch` unchanged; what was learned until then stays.
    ///
    /// Costs are estimated by gas limits, with little for transfers, and a traced dry run counts as several executions.
    pub fn analyse_within<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        max_share: f64,
        batch: &mut Batch,
    ) -> bool {
        self.analyse_into(snapshot, env, txs, max_share, None, batch)
    }

    fn analyse_into<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        max_share: f64,
        dry: Option<&DryRuns<'_>>,
        batch: &mut Batch,
    ) -> bool {
        let mut chunks = core::mem::take(&mut self.chunks);
        chunks.resize_with(txs.len().div_ceil(BATCH_LEN), Chunk::default);
        let is_affordable = self.analyse_all(snapshot, env, txs, max_share, dry, &mut chunks);
        if is_affordable {
            for chunk in &chunks {
                for index in 0..chunk.batch.len() {
                    batch.append(&chunk.batch, index);
                }
            }
        }
        self.chunks = chunks;
        is_affordable
    }

    /// Short forms of the transactions of the last analysis, in its order.
    pub fn briefs(&self) -> impl Iterator<Item = Brief> {
        self.chunks.iter().flat_map(|chunk| &chunk.briefs).copied()
    }

    /// Counts a batch that is not predicted: templates at rest are tried again in time, and [`Self::study`] takes turns.
    pub const fn pass(&mut self) {
        self.templates.tick();
    }

    /// Predicts all chunks, or returns false if that would cost too much.
    fn analyse_all<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        max_share: f64,
        dry: Option<&DryRuns<'_>>,
        chunks: &mut [Chunk],
    ) -> bool {
        self.templates.tick();
        chunks.iter_mut().for_each(|chunk| chunk.doubtful.clear());
        let first = |chunk: &mut Chunk, txs: &[&TxEnv]| {
            chunk.briefs.clear();
            chunk.briefs.extend(txs.iter().map(|tx| Brief::of(tx)));
            self.predict(snapshot, env, txs, chunk, Rest::SetAside);
        };
        for_each_chunk(txs, chunks, first);
        if let Some(dry) = dry {
            doubt(snapshot, txs, chunks, dry);
        }
        let max_gas = dry.map_or(u64::MAX, |dry| dry.max_gas);
        if self.is_hopeless(txs, chunks, max_share) {
            return false;
        }
        if chunks.iter().any(|chunk| chunk.pending.iter().any(|(_, why)| matches!(why, Pending::Layout(_)))) {
            self.learn_layouts(snapshot, env, txs, chunks);
            self.predict_pending(snapshot, env, txs, chunks);
        }
        let is_affordable = self.teach(snapshot, env, txs, chunks, max_share, max_gas);
        if is_affordable {
            self.predict_rest(snapshot, env, txs, chunks, Rest::Simulate);
        }
        is_affordable
    }

    /// Predicts chunks with pending transactions again, by rules, after something was learned.
    pub(crate) fn predict_pending<S: Snapshot>(
        &self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        chunks: &mut [Chunk],
    ) {
        self.predict_rest(snapshot, env, txs, chunks, Rest::SetAside);
    }

    /// Predicts one transaction by simulation alone, for a transaction that escaped its prediction.
    pub fn simulate<S: Snapshot>(&self, snapshot: &S, env: &BlockEnv, tx: &TxEnv, batch: &mut Batch) {
        let simulator = &mut None;
        self.simulate_into(simulator, snapshot, env, tx, batch);
    }

    /// Predicts one transaction to touch its sender alone, for a transaction that may not run dry.
    pub fn doubt(&self, tx: &TxEnv, batch: &mut Batch) {
        batch.push([(StateKey::Basic(tx.caller), Access::Write)], Source::Unknown, &self.salt);
    }

    /// Predicts the chunks with pending transactions.
    fn predict_rest<S: Snapshot>(
        &self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        chunks: &mut [Chunk],
        rest: Rest,
    ) {
        for_each_chunk(txs, chunks, |chunk, txs| {
            if !chunk.pending.is_empty() {
                self.predict(snapshot, env, txs, chunk, rest);
            }
        });
    }

    /// Predicts a chunk.
    fn predict<S: Snapshot>(&self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], chunk: &mut Chunk, rest: Rest) {
        let Chunk { batch, pending, doubtful, rules, slots, predicted, .. } = chunk;
        batch.clear();
        pending.clear();
        slots.clear();
        rules.clear();
        let mut requests = Vec::new();
        rules.extend(txs.iter().map(|tx| self.rule(snapshot, tx, slots, &mut requests, rest)));
        slots.hash();
        Evaluator::new(&self.templates, snapshot, env, predicted).predict(&requests, predicted);
        let mut simulator = None;
        for (index, (tx, rule)) in txs.iter().zip(rules.iter()).enumerate() {
            let why = match rule {
                Rule::Native(to) => {
                    native::add(&self.cfg, snapshot, batch, tx, *to);
                    batch.close(Source::Native, &self.salt);
                    continue;
                }
                Rule::Erc20(token, range) => {
                    slots.add(batch, tx.caller, *token, range.clone());
                    batch.close(Source::Erc20, &self.salt);
                    continue;
                }
                Rule::Precompile(to, accesses) => {
                    batch.add(StateKey::Basic(tx.caller), Access::Write);
                    batch.add(StateKey::Basic(*to), Access::Write);
                    for (key, access) in accesses {
                        // It runs, and may read the balance that it credits.
                        batch.add(*key, if *access == Access::Credit { Access::Write } else { *access });
                    }
                    batch.close(Source::Declared, &self.salt);
                    continue;
                }
                Rule::Declared(to) => {
                    declared::add(batch, tx, *to);
                    batch.close(Source::Declared, &self.salt);
                    continue;
                }
                Rule::Template(request, function) => {
                    if let Some(Span { set, hashed }) = predicted.spans[*request].clone() {
                        let from = predicted.inners.partition_point(|(of, _)| *of < hashed.start);
                        let mut inners = predicted.inners[from..].iter().peekable();
                        let hashed = hashed.map(|at| {
                            let (entry, preimage) = &predicted.hashed[at];
                            let inner = inners.next_if(|(of, _)| *of == at).map(|(_, inner)| inner);
                            (entry - set.start, preimage, inner)
                        });
                        batch.add_all(&mut predicted.sets[set.clone()], hashed);
                        batch.close(Source::Template, &self.salt);
                        continue;
                    }
                    if declared::applies(tx) {
                        declared::add(batch, tx, requests[*request].to);
                        batch.close(Source::Declared, &self.salt);
                        continue;
                    }
                    Pending::Template(*function)
                }
                Rule::Pending(why) => *why,
            };
            match rest {
                Rest::SetAside => {
                    pending.push((index, why));
                    batch.push([], Source::Unknown, &self.salt);
                }
                Rest::Simulate if doubtful.get(index).is_some_and(|doubtful| *doubtful) => {
                    self.doubt(tx, batch);
                }
                Rest::Simulate => self.simulate_into(&mut simulator, snapshot, env, tx, batch),
            }
        }
    }

    fn simulate_into<'a, S: Snapshot>(
        &self,
        simulator: &mut Option<Simulator<'a, S>>,
        snapshot: &'a S,
        env: &BlockEnv,
        tx: &TxEnv,
        batch: &mut Batch,
    ) {
        let simulator = simulator.get_or_insert_with(|| Simulator::new(snapshot, &self.cfg, env));
        match simulator.simulate(tx) {
            Some(set) => batch.push(set.as_slice().iter().copied(), Source::Simulated, &self.salt),
            None => {
                batch.add(StateKey::Basic(tx.caller), Access::Write);
                if let TxKind::Call(to) = tx.kind {
                    batch.add(StateKey::Basic(to), Access::Write);
                }
                batch.close(Source::Unknown, &self.salt);
            }
        }
    }
}

/// Calls `run` with each chunk and its transactions, in parallel if there are several.
fn for_each_chunk(txs: &[&TxEnv], chunks: &mut [Chunk], run: impl Fn(&mut Chunk, &[&TxEnv]) + Sync) {
    if chunks.len() > 1 {
        let chunks = chunks.par_iter_mut().zip(txs.par_chunks(BATCH_LEN)).with_max_len(1);
        chunks.for_each(|(chunk, txs)| run(chunk, txs));
    } else {
        chunks.iter_mut().zip(txs.chunks(BATCH_LEN)).for_each(|(chunk, txs)| run(chunk, txs));
    }
}
