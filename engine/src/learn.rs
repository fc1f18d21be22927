//! Learning from whole blocks, when there is time.

use crate::{BlockError, Engine, Payload};
use phalanx_paralyze::ParaLyze;

impl Engine {
    /// Teaches ParaLyze what the transactions of a block touch, on the state before it: templates that were wrong are
    /// corrected and trusted less, functions without one get theirs. Nothing is executed for its result, and no result
    /// changes; what is learned makes later blocks faster.
    ///
    /// Costs a sequential execution of the block, and several of each transaction that teaches something. A validator has
    /// that time between blocks.
    ///
    /// # Errors
    /// As [`Self::execute_block`].
    pub fn learn(&mut self, payload: &Payload<'_>) -> Result<(), BlockError> {
        let env = self.follow(payload)?;
        let sets = self.true_sets(payload)?;
        let Self { state, workers, paralyze, .. } = self;
        let truth: Vec<_> = payload.txs.iter().zip(sets.iter()).collect();
        workers.install(|| paralyze.learn(state, &env, &truth));
        Ok(())
    }

    /// What predicts for blocks in a given order, and what it has learned.
    pub const fn paralyze(&mut self) -> &mut ParaLyze {
        &mut self.paralyze
    }
}
