//! Block-STM runs, at every thread count and under disturbed schedules, leave what a loop over the transactions leaves.
//!
//! `PHALANX_SEED=17 PHALANX_SEEDS=1 cargo test --release -p phalanx-parascheduler --test it stm` runs one seed.

mod apart;
mod bounds;
mod cases;
mod language;
mod properties;
mod random;

use crate::common::seeds;
use language::{Block, Machine, Name, Outcome, Value, sequential};
use phalanx_access::Salt;
use phalanx_parascheduler::{StmConfig, StmError, StmMemory, StmStats, Workers};
use std::cell::RefCell;

/// More than any cell or sum of gas reaches.
const UNBOUNDED: u64 = u64::MAX / 4;

const THREADS: [usize; 4] = [1, 2, 4, 8];

const fn config(seed: u64, schedule_seed: Option<u64>) -> StmConfig {
    StmConfig { schedule_seed, ..StmConfig::new(Salt::new(seed)) }
}

thread_local! {
    static MEMORY: RefCell<StmMemory<Name, Value, u64>> = RefCell::default();
}

/// Runs the block and compares everything with the loop.
fn run_checked(workers: &Workers, block: &Block, config: &StmConfig, what: &str) -> StmStats {
    let machine = Machine::new(block);
    let mut locals = vec![0u64; workers.threads()];
    let result = MEMORY.with_borrow_mut(|memory| {
        // With the remains of an earlier run, also of a failed one.
        workers.run_stm_in(memory, &machine, block.txs.len(), &mut locals, config)
    });
    assert!(machine.most_loads() <= 1, "{what}: a key was loaded twice");
    let expected = sequential(block);
    let report = match (result, expected) {
        (Ok(report), Ok(expected)) => {
            let mut writes = report.writes;
            writes.sort_unstable();
            let outcome = Outcome { outputs: report.outputs, writes, stopped: report.stopped };
            assert_eq!(outcome, expected, "{what}");
            report.stats
        }
        (Err(StmError::Base { index, source }), Err(expected)) => {
            assert_eq!((index, source), expected, "{what}");
            return StmStats::default();
        }
        (found, expected) => panic!("{what}: {found:?} instead of {expected:?}"),
    };
    assert_eq!(locals.iter().sum::<u64>(), report.executions, "{what}");
    let parks = if block.disk.is_some() { StmConfig::MAX_PARKS } else { 0 };
    assert!(report.max_incarnation <= config.max_executions() + parks, "{what}: {report:?}");
    assert!(block.disk.is_some() || (report.parked, report.waits) == (0, 0), "{what}: {report:?}");
    let most = u64::from(StmConfig::MAX_PARKS) * block.txs.len() as u64;
    assert!(report.parked <= most, "{what}: {report:?}");
    if block.cap == UNBOUNDED {
        // No credit overflows, so a refused outcome should have been invalidated before.
        assert_eq!(report.refused, 0, "{what}");
    }
    report
}
