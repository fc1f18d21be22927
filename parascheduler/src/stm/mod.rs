//! Block-STM: runs the transactions of a block without knowing what they will touch.
//!
//! ```text
//!            queue            program, on a view         chains of versions            turn
//!   first runs, in order ──► execute ──► publish ──► readers that saw otherwise ──► commit, in order ──► outputs,
//!   later ones, lowest first ◄── abort, estimates ◄──── are invalidated              compares all reads    writes
//! ```
//!
//! Reading order: `program.rs` is what callers implement, `view.rs` what it sees. `run.rs` is one worker and `commit.rs`
//! makes outcomes final: correctness lives there. `slot.rs`, `turn.rs` and `queue.rs` are the protocols, `chain.rs` is the
//! pure part. The crate's README has the argument.

mod program;

mod report;

mod view;

mod inline;

mod run;

mod commit;

mod slot;

mod waiters;

mod turn;

mod queue;

mod few;

mod chain;

mod keys;

mod memory;

mod shaker;

pub use chain::Write;
pub use memory::StmMemory;
pub use program::{Commit, Execution, Interrupt, Program, Writes};
pub use report::{StmConfig, StmError, StmReport, StmStats};
pub use view::View;

use run::{Run, Worker};

use crate::{Workers, workers::Seat};
use parking_lot::Mutex;

impl Workers {
    /// [`Self::run_stm_in`] memory of its own.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn run_stm<P: Program>(
        &self,
        program: &P,
        total: usize,
        locals: &mut [P::Local],
        config: &StmConfig,
    ) -> Result<StmReport<P>, StmError<P::Error>> {
        self.run_stm_in(&mut StmMemory::default(), program, total, locals, config)
    }

    /// Runs transactions `0..total` of `program` so that the outcome is that of a loop over them.
    ///
    /// Worker *i* gets `locals[i]`, and there are as many workers as locals, at most [`Self::threads`]. A single worker
    /// is the calling thread and runs each transaction once, in order. A thread of the pool that calls is one of the workers;
    /// the others come as soon as they have nothing else to do, and none has to come. A job that calls has a run of its own,
    /// on its thread. Several runs may go on at once. A run that is to start in the middle of a block is a run of the rest
    /// on a [base](Program::base) that holds what came before.
    ///
    /// No transaction is executed more often than [`StmConfig::max_executions`]. Versions take memory for at most a
    /// window of some two thousand transactions past the last final one; beside them the run holds outputs, values read,
    /// and a few words per transaction.
    ///
    /// # Errors
    /// If a transaction could not read the state at its place in the order, or gave a credit that overflows to an exact
    /// view.
    ///
    /// # Panics
    /// With the program's panic, if it panics; then the workers stay usable. If `locals` is empty and `total` is not
    /// zero. If there are 2^32 - 1 transactions or keys.
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
        self.seat_all(locals[..count].iter_mut(), |_, local| {
            let own = Worker::new(&run, local).run();
            stats.lock().add(&own);
        });
        let ledger = run.ledger.into_inner();
        drop(run.slots);
        ledger.into_report(memory, stats.into_inner())
    }
}

/// Room that is made for keys, eight bytes each: about what calls of contracts touch, and not much where a long block
/// touches few.
fn expected_keys(total: u32) -> usize {
    (8 * total as usize).min(1 << 16)
}
