//! Block-STM: runs the transactions of a block without predicted access sets.
//!
//! ```text
//!            queue            program, on a view         chains of versions            turn
//!   first runs, in order ──► execute ──► publish ──► readers that saw otherwise ──► commit, in order ──► outputs,
//!   later ones, lowest first ◄── abort, estimates ◄──── are invalidated              compares all reads    writes
//! ```
//!
//! `program.rs` is what callers implement and what it sees. `worker.rs` is one worker, and `commit.rs` makes outcomes final:
//! correctness lives there. `reader.rs` is the thread that reads a state on disk beside them. `slot.rs`, `turn.rs`, `queue.rs`,
//! `apart.rs` and `keys.rs` are the protocols, `chain.rs` is the pure part. The crate's README has the argument. Modules import
//! only modules further down.

mod inline;

mod worker;

mod reader;

mod commit;

mod run;

mod ledger;

mod report;

mod program;

mod memory;

mod chain;

mod small_deque;

mod keys;

mod slot;

mod waiters;

mod turn;

mod queue;

mod apart;

mod shaker;

pub use chain::Write;
pub use memory::StmMemory;
pub use program::{Commit, Execution, Interrupt, Program, View, Writes};
pub use report::{StmConfig, StmError, StmReport, StmStats};

use crate::workers::{Seat, Workers};
use parking_lot::Mutex;
use run::Run;
use worker::Worker;

impl Workers {
    /// Runs [`Self::run_stm_in`] in new memory.
    ///
    /// # Errors
    /// As [`Self::run_stm_in`].
    ///
    /// # Panics
    /// As [`Self::run_stm_in`].
    pub fn run_stm<P: Program>(
        &self,
        program: &P,
        total: usize,
        locals: &mut [P::Local],
        config: &StmConfig,
    ) -> Result<StmReport<P>, StmError<P::Error>> {
        self.run_stm_in(&mut StmMemory::default(), program, total, locals, config)
    }

    /// Runs transactions `0..total` of `program`. The outcome equals that of a loop over them.
    ///
    /// Worker *i* gets `locals[i]`, and there are as many workers as locals, at most [`Self::threads`]. A single worker
    /// is the calling thread and runs each transaction once, in order. If the caller is a thread of the pool, it is one of the
    /// workers. The other threads join when they have no other work, and the run needs none of them. A job that calls this has
    /// a run of its own, on its thread. Several runs may be in flight at once. To start in the middle of a block, run the rest
    /// on a [base](Program::base) that holds the writes before it.
    ///
    /// If the program [reads apart](Program::reads_apart), a thread of the run reads the state for several workers. It starts with
    /// the first value that is not at hand. A transaction that needs a value from it waits, and others run.
    ///
    /// No transaction is executed more often than [`StmConfig::max_executions`]. Versions take memory for at most some two
    /// thousand transactions past the last final one. Beside them the run holds outputs, values read, and a few words per
    /// transaction.
    ///
    /// # Errors
    /// If a transaction could not read the state at its place in the order, or credited a value that overflows on an exact
    /// view.
    ///
    /// # Panics
    /// With the program's panic: then the workers stay usable. If `locals` is empty and `total` is not zero. If there are
    /// 2^32 - 1 transactions or keys.
    pub fn run_stm_in<P: Program>(
        &self,
        memory: &mut StmMemory<P::Key, P::Value, P::Credit>,
        program: &P,
        total: usize,
        locals: &mut [P::Local],
        config: &StmConfig,
    ) -> Result<StmReport<P>, StmError<P::Error>> {
        let total = u32::try_from(total).ok().filter(|total| *total < u32::MAX).expect("fewer than 2^32 - 1");
        if total == 0 {
            let (outputs, writes) = (Vec::new(), Vec::new());
            return Ok(StmReport { outputs, writes, stopped: None, stats: StmStats::default() });
        }
        let count = locals.len().min(self.threads());
        assert!(count != 0, "at least one worker needs a local");
        let memory = memory.begin(config.salt, expected_keys(total));
        if count == 1 || Seat::is_taken() {
            return inline::run(program, total, &mut locals[0], memory);
        }
        let run = Run::new(program, total, memory, config);
        let stats = Mutex::new(StmStats::default());
        run.beside_reader(|start| {
            self.seat_all(locals[..count].iter_mut(), |_, local| {
                let own = Worker::new(&run, start, local).run();
                stats.lock().add(&own);
            });
        });
        let ledger = run.ledger.into_inner();
        drop(run.slots);
        ledger.into_report(memory, stats.into_inner())
    }
}

/// Number of keys to make room for, at eight bytes each: about as many as calls of contracts touch, and not many for a long
/// block that touches few.
fn expected_keys(total: u32) -> usize {
    (8 * total as usize).min(1 << 16)
}
