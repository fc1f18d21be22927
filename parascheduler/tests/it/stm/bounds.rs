//! Worst cases: the number of executions stays within the stated bound, nothing is lost, everything ends.

use super::{
    THREADS, UNBOUNDED, config,
    language::{Block, Op},
    run_checked,
};
use crate::common::number;
use phalanx_parascheduler::{StmConfig, Workers};

fn block(txs: Vec<Vec<Op>>) -> Block {
    Block { txs, cap: UNBOUNDED, gas_limit: UNBOUNDED, gas_goal: UNBOUNDED, ..Block::default() }
}

/// Blocks built to make speculation fail.
fn hostile(txs: u32) -> Vec<(&'static str, Block)> {
    let each = |ops: &dyn Fn(u32) -> Vec<Op>| block((0..txs).map(ops).collect());
    vec![
        ("every transaction adds to one cell", each(&|_| vec![Op::Add(0, 1)])),
        ("the same, read last", each(&|tx| vec![Op::Add(tx + 1, 1), Op::Read(tx + 1), Op::Add(0, 1)])),
        ("two chains that cross", each(&|tx| vec![Op::Add(tx % 2, 1), Op::Add((tx / 7) % 2, 1)])),
        ("a write whose place depends on all before", each(&|_| vec![Op::Read(0), Op::WriteAt(8), Op::Add(0, 1)])),
        (
            "a reader after every credit",
            each(&|tx| if tx % 2 == 0 { vec![Op::Credit(0, 1)] } else { vec![Op::Read(0)] }),
        ),
        (
            "one writer, a crowd of readers",
            each(&|tx| if tx % 100 == 0 { vec![Op::Add(0, 1)] } else { vec![Op::Read(0)] }),
        ),
        ("an account that is destroyed over and over", each(&|tx| vec![Op::SlotAdd(0, tx % 3), Op::Reset(0)])),
    ]
}

#[test]
fn executions_are_bounded_for_every_block() {
    let txs = number("PHALANX_TXS").unwrap_or(1_000);
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for (name, block) in hostile(txs as u32) {
            for schedule in [None, Some(1)] {
                for attempts in [1, 3, 6] {
                    let config = StmConfig { attempts, ..config(1, schedule) };
                    let what = format!("{name}, {attempts} attempts, schedule {schedule:?}, {threads} threads");
                    let stats = run_checked(&workers, &block, &config, &what);
                    // Nothing overflows, so no transaction runs twice when it is the lowest.
                    let bound = u64::from(attempts + 1) * block.txs.len() as u64;
                    assert!(stats.executions <= bound, "{what}: {stats:?}");
                }
            }
        }
    }
}

#[test]
fn one_worker_executes_each_transaction_once() {
    let workers = Workers::new(1).unwrap();
    for (name, block) in hostile(1_000) {
        assert_eq!(run_checked(&workers, &block, &config(1, None), name).executions, 1_000, "{name}");
    }
}

/// Mostly short hand-overs between workers, where a wakeup could get lost.
#[test]
fn a_long_run_loses_no_transaction() {
    for threads in [2, 4, 8] {
        let workers = Workers::new(threads).unwrap();
        let txs = (0..100_000).map(|tx| vec![Op::Add(tx % 5, 1), Op::ReadAt(5), Op::Credit(5, 1)]).collect();
        run_checked(&workers, &block(txs), &config(3, None), &format!("{threads} threads"));
    }
}
