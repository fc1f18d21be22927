//! Blocks that a consensus has decided and the engine has committed: shown to readers, and counted.

use crate::{
    chain::Chain,
    metrics::Metrics,
    store::{Block, StoreError},
};
use std::sync::Arc;

/// The chain of a node whose blocks a consensus orders.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) chain: Arc<Chain>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Decided {
    /// Makes a committed block visible, and returns it.
    ///
    /// # Errors
    /// The block store does not have it.
    pub(crate) fn show(&self, height: u64) -> Result<Option<Arc<Block>>, StoreError> {
        self.chain.publish(height)?;
        let block = self.chain.block(height)?;
        let txs = block.as_ref().map_or(0, |block| block.entries.len());
        self.metrics.block(height, txs as u64);
        tracing::info!(height, txs, "block");
        Ok(block)
    }
}
