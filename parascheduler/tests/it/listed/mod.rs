//! Runs on the values of a block's access list: the results of sequential revm, and refusals of every list that lies.
//!
//! `PHALANX_SEED=17 PHALANX_SEEDS=1 cargo test --release -p phalanx-parascheduler --features eip7928 --test it listed` runs
//! one seed.

mod cases;
mod contract;
mod equal;
mod lie;
mod lies;
mod maker;
mod world;

use phalanx_parascheduler::{Disorder, Listed, ListedError, Protocol, Workers, eip7928::AccountChanges};
use revm::{
    Context, ExecuteEvm as _, MainBuilder as _, MainContext as _,
    context::{BlockEnv, CfgEnv, ContextTr as _, TxEnv, result::ExecutionResult},
    database::{CacheDB, EmptyDB},
    database_interface::{DBErrorMarker, DatabaseRef, WrapDatabaseRef},
    handler::{MainnetContext, MainnetEvm},
    primitives::hardfork::SpecId,
};
use std::sync::LazyLock;

type State = CacheDB<EmptyDB>;

/// Refusals, with the error of revm as text.
type Refusal = ListedError<String>;

static WORKERS: LazyLock<Vec<Workers>> =
    LazyLock::new(|| [1, 2, 8].map(|threads| Workers::new(threads).expect("threads")).into_iter().collect());

/// Rules and environment of a block.
#[derive(Clone, Debug)]
struct Rules {
    spec: SpecId,
    block: BlockEnv,
}

impl Rules {
    fn evm<D: DatabaseRef<Error: DBErrorMarker>>(&self, database: D) -> MainnetEvm<MainnetContext<WrapDatabaseRef<D>>> {
        let cfg = CfgEnv::new().with_spec_and_mainnet_gas_params(self.spec);
        let context = Context::mainnet().with_db(WrapDatabaseRef(database)).with_cfg(cfg);
        context.with_block(self.block.clone()).build_mainnet()
    }
}

/// Runs a list on 1, 2 and 8 threads: all agree.
fn run(
    rules: &Rules,
    base: &State,
    txs: &[TxEnv],
    list: &[AccountChanges],
    protocol: &Protocol,
) -> Result<Result<Vec<ExecutionResult>, Refusal>, Disorder> {
    let listed = Listed::new(list, txs.len())?;
    let runs = WORKERS.iter().map(|workers| {
        workers.run_listed(
            &listed,
            protocol,
            base,
            |state| rules.evm(state),
            |evm, tx, state| {
                *evm.ctx.db_mut() = WrapDatabaseRef(state);
                match evm.transact(txs[tx.index()].clone()) {
                    Ok(done) => Ok((done.result, done.state)),
                    Err(error) => Err(format!("{error:?}")),
                }
            },
        )
    });
    let mut runs: Vec<_> = runs.collect();
    let last = runs.pop().expect("three runs");
    assert!(runs.iter().all(|run| *run == last), "threads do not matter: {runs:?} {last:?}");
    Ok(last)
}
