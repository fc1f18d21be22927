//! A run on one thread, in block order. That is a topological order, so there is no countdown and no atomic.

use crate::{
    claimed::{Claimed, FAR},
    cursor::CHUNK,
    dag::{Dag, TxIndex},
    job::{Job, Report, Verdict},
};

/// Runs a DAG on the caller's thread in block order.
pub(crate) fn run<L, J: Job<L> + ?Sized>(dag: &Dag, local: &mut L, job: &J) -> Report {
    let mut report = Report::default();
    // By node; empty until a transaction escapes.
    let mut poisoned: Vec<bool> = Vec::new();
    let (mut claimed, mut rest) = (Claimed::new(), (0..dag.len() as u32).map(TxIndex));
    loop {
        if claimed.len() < FAR {
            claimed.add(rest.by_ref().take(CHUNK), |tx, lookahead| job.prefetch(local, tx, lookahead));
        }
        let Some(tx) = claimed.next(|tx, lookahead| job.prefetch(local, tx, lookahead)) else { break };
        if !poisoned.is_empty() && poisoned[tx.index()] {
            report.withdrawn.push(tx);
        } else if job.run(local, tx) == Verdict::Done {
            continue;
        } else {
            report.escaped.push(tx);
        }
        poisoned.resize(dag.nodes(), false);
        poison_successors(dag, tx.index(), &mut poisoned);
    }
    report
}

/// Marks the successors of `node`. A join passes the mark on at once and only the first time: its successors come later.
fn poison_successors(dag: &Dag, node: usize, poisoned: &mut [bool]) {
    for next in dag.successors(node) {
        let known = core::mem::replace(&mut poisoned[*next as usize], true);
        if dag.is_join(*next) && !known {
            poison_successors(dag, *next as usize, poisoned);
        }
    }
}
