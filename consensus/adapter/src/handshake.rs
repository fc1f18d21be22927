//! Compares consensus and engine after a crash, and decides how to bring them together.

use crate::consensus::Standing;
use core::ops::RangeInclusive;
use phalanx_engine_api::{CommittedTip, EngineStatus, ExecId, FatalCause};

/// First step after opening. Every step is idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Both stand at the same block.
    Start,
    /// The engine is behind: these heights are replayed, and their results compared with certificates.
    Replay(RangeInclusive<u64>),
    /// The engine is ahead, so consensus has lost a part of its log: the engine rewinds.
    Rewind {
        /// Target execution.
        to: ExecId,
        /// Height of the target.
        height: u64,
    },
    /// The engine is so far behind that consensus has pruned the blocks it needs: state must come from elsewhere.
    Sync {
        /// Lowest height that can be replayed.
        from: u64,
    },
}

/// Compares an engine with a consensus. Staged blocks do not count: they are a cache. `there` is the engine's committed
/// block at the height of the newest decided block, if known ([`phalanx_engine_api::ExecutionEngine::committed_at`]).
///
/// # Errors
/// [`FatalCause::Fork`] if they disagree on a block, or if the engine would have to rewind below its finalised height.
pub fn handshake(
    engine: &EngineStatus,
    consensus: &Standing,
    there: Option<&CommittedTip>,
) -> Result<Handshake, FatalCause> {
    let height = engine.committed.height;
    let last = consensus.last.map_or(0, |last| last.height);
    if height < last {
        let next = height + 1;
        let pruned = next < consensus.first;
        return Ok(if pruned { Handshake::Sync { from: consensus.first } } else { Handshake::Replay(next..=last) });
    }
    // Consensus has no decided name for the genesis block.
    let same = there.is_some_and(|there| consensus.last.is_none_or(|last| there.meta.block == last.id));
    match there {
        Some(_) if same && height == last => Ok(Handshake::Start),
        Some(there) if same && last >= engine.finalised => Ok(Handshake::Rewind { to: there.exec, height: last }),
        _ => Err(FatalCause::Fork { height }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::Decided;
    use alloy_primitives::B256;
    use phalanx_engine_api::{BlockId, CommitMeta};

    fn committed(height: u64) -> CommittedTip {
        let name = B256::with_last_byte(height as u8);
        let meta = CommitMeta { block: BlockId(name), cursor: height, ..CommitMeta::default() };
        CommittedTip { height, exec: ExecId(name), state_root: B256::ZERO, meta }
    }

    fn engine(height: u64, finalised: u64) -> EngineStatus {
        let staged = vec![(height + 1, ExecId(B256::repeat_byte(9)))];
        EngineStatus { chain: 1, committed: committed(height), finalised, staged }
    }

    fn consensus(first: u64, height: u64) -> Standing {
        let id = BlockId(B256::with_last_byte(height as u8));
        Standing { first, last: (height > 0).then_some(Decided { height, id }) }
    }

    fn shake(engine: &EngineStatus, consensus: &Standing) -> Result<Handshake, FatalCause> {
        let height = consensus.last.map_or(0, |last| last.height);
        let there = (height <= engine.committed.height).then(|| committed(height));
        handshake(engine, consensus, there.as_ref())
    }

    #[test]
    fn all_four_cases() {
        let at = |height: u64| ExecId(B256::with_last_byte(height as u8));
        assert_eq!(shake(&engine(0, 0), &consensus(1, 0)), Ok(Handshake::Start));
        assert_eq!(shake(&engine(5, 3), &consensus(1, 5)), Ok(Handshake::Start));
        assert_eq!(shake(&engine(5, 3), &consensus(6, 9)), Ok(Handshake::Replay(6..=9)));
        assert_eq!(shake(&engine(5, 3), &consensus(1, 4)), Ok(Handshake::Rewind { to: at(4), height: 4 }));
        assert_eq!(shake(&engine(5, 0), &consensus(1, 0)), Ok(Handshake::Rewind { to: at(0), height: 0 }));
        assert_eq!(shake(&engine(5, 3), &consensus(7, 9)), Ok(Handshake::Sync { from: 7 }));
    }

    #[test]
    fn forks_and_missing_blocks_are_fatal() {
        let fork = Err(FatalCause::Fork { height: 5 });
        // Below the finalised height.
        assert_eq!(shake(&engine(5, 5), &consensus(1, 4)), fork);
        assert_eq!(shake(&engine(5, 1), &consensus(1, 0)), fork);
        // Other blocks at the same heights.
        for height in [4, 5] {
            let other = Standing { first: 1, last: Some(Decided { height, id: BlockId(B256::repeat_byte(7)) }) };
            assert_eq!(shake(&engine(5, 0), &other), fork);
        }
        // The engine has pruned the target of the rewind.
        assert_eq!(handshake(&engine(5, 0), &consensus(1, 4), None), fork);
    }
}
