//! A run on one thread: in order and once, every read is final.

use super::{
    chain::Write,
    memory::Memory,
    program::{Commit, Execution, Halt, Load, Program, View},
    report::{StmError, StmReport, StmStats},
};
use crate::dag::TxIndex;
use phalanx_access::KeyId;

/// Runs all transactions on the caller's thread, in order. Every read is final, so nothing is validated.
pub(super) fn run<P: Program>(
    program: &P,
    total: u32,
    local: &mut P::Local,
    memory: &mut Memory<P::Key, P::Value, P::Credit>,
) -> Result<StmReport<P>, StmError<P::Error>> {
    // The only worker has nothing else to do while it reads.
    let load = if program.reads_apart() { Load::Wait } else { Load::Now };
    let mut run = InOrder { program, memory, load, ids: Vec::new(), lasts: Vec::new(), stats: StmStats::default() };
    let mut outputs = Vec::with_capacity(total as usize);
    let mut stopped = None;
    for tx in 0..total {
        let Execution { output, writes } = run.execute(tx, local)?;
        let commit = program.commit(TxIndex(tx), &output);
        if commit != Commit::Continue {
            stopped = Some(commit);
        }
        if commit == Commit::StopBefore {
            break;
        }
        for ((_, write), (id, counts)) in writes.into_iter().zip(&run.ids) {
            if *counts {
                run.memory.chain(*id).apply(write, |v, c| program.credited(v, c));
            }
        }
        outputs.push(output);
        if stopped.is_some() {
            break;
        }
    }
    let stats = run.stats;
    Ok(StmReport { outputs, writes: memory.take_written(), stopped, stats })
}

struct InOrder<'a, P: Program> {
    program: &'a P,
    memory: &'a Memory<P::Key, P::Value, P::Credit>,
    load: Load,
    /// Key of each write of the last execution, and whether the write is the last one of its key.
    ids: Vec<(KeyId, bool)>,
    /// Keys and indices of the same writes, to be sorted.
    lasts: Vec<(KeyId, usize)>,
    stats: StmStats,
}

impl<P: Program> InOrder<'_, P> {
    /// Executes `tx`, twice if its credits do not fit: the second time on an exact view.
    fn execute(&mut self, tx: u32, local: &mut P::Local) -> Result<Execution<P>, StmError<P::Error>> {
        let index = TxIndex(tx);
        for (incarnation, exact) in [(1, false), (2, true)] {
            self.stats.executions += 1;
            self.stats.max_incarnation = self.stats.max_incarnation.max(incarnation);
            let Self { program, memory, load, .. } = *self;
            let mut view = View { program, memory, tx, exact, load, waits: 0, speculation: None, halt: None };
            let result = program.execute(local, index, &mut view);
            self.stats.waits += u64::from(view.waits);
            let execution = match (result, view.halt) {
                (Ok(execution), None) => execution,
                (_, Some(Halt::Base(source))) => return Err(StmError::Base { index, source }),
                _ => panic!("transaction {tx} returned an interrupt that its view did not give"),
            };
            if self.credits_fit(&execution).map_err(|source| StmError::Base { index, source })? {
                return Ok(execution);
            }
            self.stats.refused += 1;
        }
        Err(StmError::CreditOverflow { index })
    }

    fn credits_fit(&mut self, execution: &Execution<P>) -> Result<bool, P::Error> {
        let Self { program, memory, load, .. } = *self;
        self.ids.clear();
        self.ids.extend(execution.writes.iter().map(|(key, _)| (memory.id(key), false)));
        // If a key comes twice, the last write counts.
        self.lasts.clear();
        self.lasts.extend(self.ids.iter().map(|(id, _)| *id).zip(0..));
        self.lasts.sort_unstable();
        for (at, (id, place)) in self.lasts.iter().enumerate() {
            self.ids[*place].1 = self.lasts.get(at + 1).is_none_or(|(next, _)| next != id);
        }
        let mut fit = true;
        for ((key, write), (id, counts)) in execution.writes.iter().zip(&self.ids) {
            if let Write::Credit(credit) = write
                && *counts
            {
                // All credits, whether an earlier one fits or not: an error must not depend on the number of workers.
                let mut waits = 0;
                load.load(program, memory, key, *id, &mut waits)?;
                self.stats.waits += u64::from(waits);
                fit &= memory.chain(*id).takes(credit, |v, c| program.credited(v, c));
            }
        }
        Ok(fit)
    }
}
