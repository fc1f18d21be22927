//! The engine's service on equal blocks, from bytes to the durable commit: no block store, no JSON-RPC. Once it executes blocks that are
//! given, and once it builds them from its pool, as a node's producer does.

use super::{chain::Chain, load::Load};
use anyhow::ensure;
use phalanx::{
    Engine,
    alloy::primitives::Bytes,
    api::{BlockEnv, Payload, TxStatus},
    chain::{Attributes, ChainSpec},
    merkle::{Backend, Durability, StoreConfig},
};
use phalanx_lab::machine::{clock, temporary::Temporary};
use std::time::{Duration, Instant};

/// Maximum number of transactions of a payer, and of all, that are offered together: the pool has room for twice as many.
const TOGETHER: (usize, usize) = (512, 1 << 16);

/// Figures of the engine alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    pub(super) took: Duration,
    pub(super) blocks: u64,
    /// Processor time of the same with admission to the pool and building in place of given blocks.
    pub(super) built: Duration,
}

/// Executes and commits blocks of so many transactions, then builds and commits them.
pub(super) fn run(load: &Load, per_block: u64, threads: Option<usize>) -> anyhow::Result<Alone> {
    let per_block = usize::try_from(per_block)?.clamp(1, TOGETHER.1.min(TOGETHER.0 * load.payers.len()));
    let (took, _, blocks) = timed(load, per_block, threads, |chain, env, txs| {
        let outcome = chain.add(env, Payload::new(txs.to_vec()))?;
        let is_sound = outcome.txs.iter().all(|status| *status == TxStatus::Succeeded);
        ensure!(is_sound, "a transaction of block {} has failed", env.height);
        Ok(txs.len())
    })?;
    let (_, built, _) = timed(load, per_block, threads, Chain::build)?;
    Ok(Alone { took, blocks, built })
}

/// Time and processor time of blocks on a new chain, and their number. `make` gets the next transactions, of which it may leave some for
/// later, and none at last; it returns the number of those that it has committed.
fn timed(
    load: &Load,
    per_block: usize,
    threads: Option<usize>,
    mut make: impl FnMut(&mut Chain, BlockEnv, &[Bytes]) -> anyhow::Result<usize>,
) -> anyhow::Result<(Duration, Duration, u64)> {
    let folder = Temporary::new()?;
    let spec = ChainSpec::from_genesis(&load.genesis)?;
    let store = StoreConfig::new(Backend::File(folder.path().join("state"))).with_durability(Durability::Block);
    let mut builder = Engine::builder().with_store(store).with_access_lists(true);
    if let Some(threads) = threads {
        builder = builder.with_threads(threads);
    }
    let (mut chain, genesis) = Chain::begin(&load.genesis, &spec, builder)?;
    let (mut chunks, mut left, mut height) = (load.txs.chunks(per_block), load.txs.len(), 0);
    let (begun, before) = (Instant::now(), clock::process());
    while left > 0 {
        height += 1;
        let attributes = Attributes { timestamp: genesis.timestamp + height, ..Attributes::default() };
        let env = chain.next_env(&attributes)?;
        let txs = chunks.next().unwrap_or_default();
        let made = make(&mut chain, env, txs)?;
        ensure!(made > 0, "block {height} takes no transaction");
        left -= made.min(left);
    }
    Ok((begun.elapsed(), Duration::from_nanos(clock::process() - before), height))
}

#[cfg(test)]
mod tests {
    use super::{super::load::Kind, *};
    use phalanx::RootKind;

    #[test]
    fn blocks_are_given_and_built_until_nothing_is_left() {
        for (txs, payers, per_block) in [(50, 7, 20), (3, 1, 100)] {
            let load = Load::new(Kind::Mixed, txs, payers, 30_000_000, RootKind::Twigs).expect("a load");
            let alone = run(&load, per_block, Some(1)).expect("sound");
            assert_eq!(alone.blocks, txs.div_ceil(per_block));
            assert!(!alone.built.is_zero() && !alone.took.is_zero());
        }
        // A block that is too small leaves some for the next ones.
        let load = Load::new(Kind::Native, 30, 3, 210_000, RootKind::Twigs).expect("a load");
        let (_, _, blocks) = timed(&load, 30, Some(1), Chain::build).expect("sound");
        assert_eq!(blocks, 3, "of ten each");
    }
}
