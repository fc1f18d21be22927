//! A block's root beside the execution of the next one.
//!
//! ```text
//!           ┌─ plan the one behind it ─────┐
//!  draft ═ ─┼─ execute block ═ ────────────┼─ apply before ═, land
//!           └─ root ═, receipts ═ of before┘
//! ```

use crate::{
    Behind, Block, Committed, Engine, Error, MIN_OVERLAP, Planner, Stage, Unsealed,
    engine::join_if,
    observer::{observe, observe_fork},
};
use alloy_primitives::B256;
use phalanx_merkle::Delta;
use revm::context::{BlockEnv, TxEnv};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

/// Threads from which on a root is computed beside the next block's execution.
const MANY: usize = 16;

/// Whether it pays for so many threads to compute the root of a block of so many transactions beside the execution of the next
/// one, whose values are then looked for in two places: a twentieth more work, which is more than a few threads gain.
pub const fn overlaps_roots(threads: usize, txs: usize) -> bool {
    threads >= MANY && txs >= MIN_OVERLAP
}

/// Changes that one task enters in a draft.
const DRAFT_PIECE: usize = 512;

impl Engine {
    /// Whether [`Self::execute_behind`] is for blocks of so many transactions: there are threads enough ([`overlaps_roots`]; any,
    /// if [all workers](crate::EngineBuilder::with_all_workers) are to take part), the values of the state are in memory, and
    /// the engine stands on the committed block.
    pub fn overlaps_roots(&self, txs: usize) -> bool {
        let worth_it = self.habits.shares_all || overlaps_roots(self.workers.threads(), txs);
        worth_it && self.state.takes_draft(&Delta::new())
    }

    /// Seals, merkleizes and commits `before`, and meanwhile executes `block` on the state after it, while `planner` plans the
    /// block behind that for the environment `next`, from the state after `before`, too. The first block of a series has none
    /// before it, the last one is for [`Self::commit_unsealed`].
    ///
    /// It ends as `before` merkleized and committed, and then `block` executed as in [`Self::execute_and_plan`]; where
    /// [`Self::overlaps_roots`] says no, that is what happens. The state is after `before` when this returns, and of `block`
    /// nothing is committed. If transactions [leave](Unsealed::left) it, the planned one goes [back](Planner::put_back) before
    /// they do.
    ///
    /// `block` runs before the root of `before` is known: BLOCKHASH cannot answer with a hash that has the root in it.
    ///
    /// # Errors
    /// If `before` cannot be committed, as [`Self::merkleize`] and [`Self::commit`] have it. Whatever goes wrong with `block`
    /// is in the result, where `before` is committed.
    pub fn execute_behind<'t>(
        &mut self,
        before: Option<Unsealed<'t>>,
        env: &BlockEnv,
        txs: &'t [TxEnv],
        block: Block,
        planner: &mut Planner<'_>,
        next: &BlockEnv,
    ) -> Result<Behind<'t>, Error> {
        let admitted = self.admit(env, txs, &block);
        let drafts = |engine: &Self, before: &Unsealed<'_>| {
            let sizes = [before.ran.order.len(), block.order.len()];
            sizes.iter().all(|txs| engine.overlaps_roots(*txs)) && engine.state.takes_draft(&before.ran.changes.delta)
        };
        match (before, admitted) {
            (Some(before), Ok(env)) if drafts(self, &before) => {
                let on_draft = || self.execute_on_draft(before, &env, txs, block, planner, next);
                let done = catch_unwind(AssertUnwindSafe(on_draft));
                if !matches!(done, Ok(Ok(_))) {
                    self.state.take_off();
                }
                done.unwrap_or_else(|panic| resume_unwind(panic))
            }
            (before, admitted) => {
                let committed = before.map(|before| self.commit_unsealed(before)).transpose()?;
                let parts = self.parts();
                let ground = parts.ground;
                let (planned, executed) = match admitted {
                    Ok(env) => ground.workers.install(|| {
                        let overlaps = block.order.len() >= MIN_OVERLAP;
                        join_if(overlaps, || planner.plan(ground, next, true), || parts.run(&env, txs, block))
                    }),
                    Err(error) => (None, Err(error)),
                };
                Ok(Behind { committed, executed: executed.map(|ran| Unsealed::new(ran, txs)), planned })
            }
        }
    }

    /// [`Self::execute_behind`] while the state is put to what it will be. On an error it may still be there.
    fn execute_on_draft<'t>(
        &mut self,
        before: Unsealed<'t>,
        env: &BlockEnv,
        txs: &'t [TxEnv],
        block: Block,
        planner: &mut Planner<'_>,
        next: &BlockEnv,
    ) -> Result<Behind<'t>, Error> {
        let Unsealed { ran, sealing, txs: txs_before } = before;
        if !Arc::ptr_eq(&sealing.parent, &self.state.tip) {
            return Err(Error::Stale);
        }
        let (results, mut changes) = ran.split();
        changes.follow(sealing.spec);
        let Self { state, workers, observer, .. } = self;
        let pieces = changes.delta.len().div_ceil(DRAFT_PIECE);
        let draft = || observe_fork(&**observer, Stage::Schedule, pieces, || workers.install(|| state.draft(changes)));
        let drafted = observe(&**observer, Stage::Schedule, draft);
        let parts = self.parts();
        let ground = parts.ground;
        let plan = || planner.plan(ground, next, true);
        let run = || parts.run(env, txs, block);
        let root = || ground.finish(|state| state.prepare_draft(&drafted), results, sealing, txs_before);
        let both = || rayon::join(|| rayon::join(plan, run), root);
        let ((planned, ran), (prepared, sealed)) = ground.workers.install(both);
        let prepared = prepared?;
        let state_root = B256::new(prepared.root());
        let pending = self.apply(prepared)?;
        self.state.land(&drafted);
        let committed = self.moved(pending, sealed, state_root)?;
        Ok(Behind { committed: Some(committed), executed: ran.map(|ran| Unsealed::new(ran, txs)), planned })
    }

    /// Seals, merkleizes and commits a block that [`Self::execute_behind`] has executed.
    ///
    /// # Errors
    /// As [`Self::merkleize`] and [`Self::commit`].
    pub fn commit_unsealed(&mut self, block: Unsealed<'_>) -> Result<Committed, Error> {
        let Unsealed { ran, sealing, txs } = block;
        if !Arc::ptr_eq(&sealing.parent, &self.state.tip) {
            return Err(Error::Stale);
        }
        let ground = self.ground();
        let merkleized = ground.workers.install(|| ground.merkleize_ran(ran, sealing, txs))?;
        self.commit(merkleized)
    }
}
