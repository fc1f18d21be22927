//! What many threads do otherwise than few, measured on one: keys become ids in shards, and a block executes on changes of
//! the one before whose root is computed meanwhile.

use super::{Watched, spans, watched};
use crate::{
    args::{Store, Switch},
    drive::Setup,
    given::Take,
    scale::shape::{OfMany, Part, Span},
    ui::Ui,
};
use anyhow::Context as _;
use phalanx::{Behind, Committed, Stage, Ticket, Unsealed, revm::primitives::B256};
use std::sync::Arc;

/// A run that went the way of many threads.
#[derive(Debug)]
pub(in crate::scale) struct AsMany {
    /// Of each block how many transactions were to run, and what is done otherwise.
    pub(in crate::scale) blocks: Vec<(usize, OfMany)>,
    /// What engine and driver took.
    pub(in crate::scale) watched_ns: f64,
    pub(in crate::scale) state_root: B256,
}

/// What is seen of a draft: before and after what all threads share, and that.
const OF_DRAFT: usize = 3;

/// Runs the load of `setup` the way of many threads.
pub(in crate::scale) fn run(setup: &Setup<'_>, store: &Store, ui: &Ui) -> anyhow::Result<AsMany> {
    let Watched { mut engine, recorder, clock, pinned } = watched(setup, store, Take::All, ui)?;
    let bar = ui.bar("measuring what many threads do", setup.txs.len() as u64);
    let environment = |number: u64| {
        let mut env = setup.workload.block_env(number);
        env.gas_limit = setup.args.block_gas;
        env
    };
    let mut planner = engine.plan(setup.txs, setup.args.ordering(), setup.args.limits());
    planner.use_layers(setup.args.access.layers());
    let overlaps = setup.args.overlap == Switch::On;
    let (mut tickets, mut state_root): (Vec<Ticket>, B256) = (Vec::new(), B256::ZERO);
    let mut blocks: Vec<(usize, OfMany)> = Vec::new();
    let mut note = |committed: Committed| {
        state_root = committed.state_root;
        tickets.push(committed.ticket);
    };
    recorder.take();
    let watched = clock.watched();
    let workers = Arc::clone(engine.workers());
    let mut drive = || -> anyhow::Result<()> {
        let mut ahead = planner.next_block(&engine, &environment(1));
        let mut plan = spans(recorder.take());
        let mut before: Option<Unsealed<'_>> = None;
        for number in 1.. {
            ui.go_on()?;
            let Some(block) = ahead.take() else { break };
            let planned = block.order().len();
            let (env, next) = (environment(number), environment(number + 1));
            let (left, mut seen) = if overlaps {
                let is_behind = before.is_some();
                let done = engine.execute_behind(before.take(), &env, setup.txs, block, &mut planner, &next)?;
                let mut seen = recorder.take();
                if let Some((_, last)) = blocks.last_mut().filter(|_| is_behind) {
                    let draft = spans(seen.drain(..OF_DRAFT.min(seen.len())));
                    last.draft = draft.into_iter().map(|span| Span { part: Part::Draft, ..span }).collect();
                }
                let Behind { committed, executed, planned } = done;
                committed.into_iter().for_each(&mut note);
                ahead = planned;
                let executed = executed?;
                let left = executed.left();
                if left.is_empty() {
                    before = Some(executed);
                } else {
                    note(engine.commit_unsealed(executed)?);
                }
                (left, seen)
            } else {
                let executed = engine.execute(&env, setup.txs, block)?;
                let left = executed.block().left().clone();
                let merkleized = engine.merkleize(executed)?;
                note(engine.commit(merkleized)?);
                (left, recorder.take())
            };
            if !left.is_empty() {
                if let Some(planned) = ahead.take() {
                    planner.put_back(planned);
                }
                planner.take_back(&left);
            }
            if !left.is_empty() || !overlaps {
                recorder.take();
                ahead = planner.next_block(&engine, &next);
                seen.extend(recorder.take());
            }
            let load = spans(seen.extract_if(.., |(stage, ..)| *stage == Stage::Schedule));
            seen.retain(|(stage, ..)| stage.is_planning());
            let plan = core::mem::replace(&mut plan, spans(seen));
            blocks.push((planned, OfMany { plan, load, draft: Vec::new() }));
            bar.inc(planned as u64);
        }
        before.into_iter().try_for_each(|last| engine.commit_unsealed(last).map(&mut note))?;
        Ok(())
    };
    workers.install(&mut drive)?;
    tickets.into_iter().try_for_each(Ticket::wait).context("writing blocks")?;
    let watched_ns = (clock.watched() - watched) as f64;
    pinned.confirm(&workers)?;
    bar.finish_and_clear();
    Ok(AsMany { blocks, watched_ns, state_root })
}
