//! The steps of a planned block as functions of the engine's resources: execute, seal, merkleize. They run on a worker.

use crate::{
    bal::Record,
    exec::{
        context::{ExecContext, ExecResources},
        dispatch::Executors,
        run::Run,
    },
    model::{Error, Stage, Txs, observe},
    plan::{Block, join_if},
    seal::{BlockInfo, Executed, Merkleized, Ran, Sealing, access_list::produce},
    state::State,
};
use revm::context::{BlockEnv, TxEnv};
use std::sync::Arc;

/// Minimum number of transactions of a block that is planned beside another, or whose receipts are sealed beside its
/// root.
pub(crate) const MIN_OVERLAP: usize = 128;

/// Executes a planned block and seals it.
pub(super) fn execute(
    resources: ExecResources<'_>,
    executors: &mut Executors,
    env: &BlockEnv,
    txs: &[TxEnv],
    block: Block,
) -> Result<Executed, Error> {
    let observer = resources.observer;
    let (ran, sealing) = run(resources, executors, env, txs, block)?;
    Ok(observe(observer, Stage::Seal, || Executed::sealed(ran, Txs::List(txs), sealing, observer)))
}

/// Executes a planned block and computes its root, the receipts beside it: the two are independent.
pub(super) fn execute_and_merkleize(
    resources: ExecResources<'_>,
    state: &State,
    executors: &mut Executors,
    env: &BlockEnv,
    txs: &[TxEnv],
    block: Block,
) -> Result<Merkleized, Error> {
    let ExecResources { observer, store_stage, .. } = resources;
    let (ran, sealing) = run(resources, executors, env, txs, block)?;
    let (results, mut changes) = ran.split();
    changes.follow(sealing.spec);
    let overlaps = results.len() >= MIN_OVERLAP;
    let seal = || observe(observer, Stage::Seal, || BlockInfo::seal(results, Txs::List(txs), sealing, observer));
    let (prepared, block) = join_if(overlaps, || store_stage.observe(|| state.prepare(changes)), seal);
    let (prepared, accounts) = prepared?;
    Ok(Merkleized { prepared, accounts, block })
}

/// Computes the root after a block.
pub(super) fn merkleize(resources: ExecResources<'_>, state: &State, executed: Executed) -> Result<Merkleized, Error> {
    let ExecResources { workers, store_stage, .. } = resources;
    if !Arc::ptr_eq(&executed.parent, &state.tip) {
        return Err(Error::Stale);
    }
    store_stage.observe(|| {
        let Executed { changes, prepared, block, .. } = executed;
        let (prepared, accounts) = match prepared {
            Some(prepared) => (prepared, changes.accounts),
            None => workers.install(|| state.prepare(changes))?,
        };
        Ok(Merkleized { prepared, accounts, block })
    })
}

/// Executes a planned block, its access list included.
fn run(
    resources: ExecResources<'_>,
    executors: &mut Executors,
    env: &BlockEnv,
    txs: &[TxEnv],
    block: Block,
) -> Result<(Ran, Sealing), Error> {
    let ExecResources { state, cfg, observer, executor, .. } = resources;
    let record = resources.access_lists.then(|| Record::new(&block.order));
    let ctx = ExecContext { record: record.as_ref(), ..ExecContext::new(resources, env, Txs::List(txs)) };
    let (frames, sources) = (block.frames, block.sources);
    let run = executors.execute(executor, &ctx, block)?;
    let access_list = match &record {
        Some(record) => Some(observe(observer, Stage::Seal, || produce(state, None, env, &run, record))?.0),
        None => None,
    };
    let Run { order, outcomes, after, left, stats } = run;
    let changes = observe(observer, Stage::Execute, || after.into_changes())?;
    let sealing = Sealing { frames, sources, access_list, ..Sealing::new(state, cfg, env) };
    Ok((Ran { order, outcomes, changes, left, stats }, sealing))
}
