use crate::{
    Dag, Job, Report, TxIndex, Verdict,
    claimed::{Claimed, FAR},
    cursor::CHUNK,
};

/// Runs a DAG on the caller's thread in block order, which is a topological order: no countdown, no atomics.
pub(crate) fn run<L, J: Job<L> + ?Sized>(dag: &Dag, local: &mut L, job: &J) -> Report {
    let mut report = Report::default();
    // By node; stays empty until something escapes.
    let mut poisoned: Vec<bool> = Vec::new();
    let (mut claimed, mut rest) = (Claimed::new(), (0..dag.len() as u32).map(TxIndex));
    loop {
        if claimed.len() < FAR {
            claimed.add(rest.by_ref().take(CHUNK), |tx, notice| job.upcoming(local, tx, notice));
        }
        let Some(tx) = claimed.next(|tx, notice| job.upcoming(local, tx, notice)) else { break };
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

/// Marks what waits for `node`. A join passes the mark on at once, the first time only: its successors come later.
fn poison_successors(dag: &Dag, node: usize, poisoned: &mut [bool]) {
    for next in dag.successors(node) {
        let known = core::mem::replace(&mut poisoned[*next as usize], true);
        if dag.is_join(*next) && !known {
            poison_successors(dag, *next as usize, poisoned);
        }
    }
}
